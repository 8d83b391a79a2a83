"""The configuration's document and the configuration's code say the same."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from monitor.config import load, sections
from monitor.config.reference import configuration_reference
from monitor.domain import DetectionSettings, IncidentSettings, LearnerSettings, WindowSettings

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_document_is_what_the_code_writes() -> None:
    assert DOCUMENT.read_text("utf-8") == configuration_reference(), (
        "run: python -m monitor.config.reference > docs/configuration.md"
    )


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        (sections.WindowSection, WindowSettings),
        (sections.LearnerSection, LearnerSettings),
        (sections.DetectionSection, DetectionSettings),
        (sections.IncidentsSection, IncidentSettings),
    ],
)
def test_every_setting_of_the_domain_can_be_configured(section: type, settings: type) -> None:
    assert set(section.model_fields) == {field.name for field in fields(settings)}  # type: ignore[attr-defined]


def test_every_key_says_what_it_means() -> None:
    for section in vars(sections).values():
        if isinstance(section, type) and issubclass(section, sections.Section):
            for name, field in section.model_fields.items():
                inner = section is sections.Document and name != "seed"
                assert inner or field.description, f"{section.__name__}.{name}"


def test_the_example_in_the_document_is_sound(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found
    tomllib.loads(found[1])
    (tmp_path / "monitor.toml").write_text(found[1])
    config = load(tmp_path / "monitor.toml", {})
    assert config.tier_names == ("client", "backend", "error_code")
