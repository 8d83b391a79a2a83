"""Reference pages and the code say the same."""

from __future__ import annotations

import ast

import pytest

from tests.docs.pages import ROOT
from tests.docs.references import REFERENCES


@pytest.mark.parametrize("name", sorted(REFERENCES.keys() - {"licences.md"}))
def test_a_reference_is_what_the_code_writes(name: str) -> None:
    written = (ROOT / "docs" / name).read_text("utf-8")
    assert written == REFERENCES[name](), "run: python -m tests.docs.references"


def test_licences_are_those_of_the_pinned_packages() -> None:
    """Which of them a platform and a Python have is no matter."""
    written = (ROOT / "docs" / "licences.md").read_text("utf-8").splitlines()
    now = REFERENCES["licences.md"]().splitlines()
    absent = "| not for this platform |"
    differ = {
        (a, b)
        for a, b in zip(written, now, strict=True)
        if a != b and absent not in a and absent not in b
    }
    assert differ == set(), "run: python -m tests.docs.references"


def test_no_metric_is_missing() -> None:
    """Whatever name the code gives to a family stands in the table, also if no sample showed it."""
    table = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    named = set()
    for path in (ROOT / "monitor" / "edge" / "metrics").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            function = call.func if isinstance(call, ast.Call) else None
            if isinstance(function, ast.Name) and function.id in {
                "single", "labelled", "counted", "counter", "gauge",
            }:  # fmt: skip
                first = call.args[0]  # type: ignore[attr-defined]
                if isinstance(first, ast.Constant):
                    named.add(first.value)
    assert len(named) > 30
    assert [name for name in sorted(named) if f"`least_monitor_{name}" not in table] == []
