"""Every setting there is, given a wrong type and values out of its range: each is named by line.

The settings come from the code, as those of the reference do, so a new one is tested without a
word here.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import annotated_types
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from monitor.config import ConfigError, Problem, load
from monitor.config.reference import TABLES
from monitor.config.sections import AttributeTable, Document, OutcomeTable, TimeTable

SCHEMA = """[schema]
time = "at"
attributes = ["region"]
outcomes = ["failed"]
"""

PLACES: dict[str, tuple[str, str]] = {
    # Title in the reference → the file before the setting, and the key in front of its name.
    "Top level": ("", ""),
    '[source] kind = "files"': (SCHEMA + "[source]\n", "source."),
    '[source] kind = "kafka"': (
        SCHEMA + '[source]\nkind = "kafka"\nbootstrap_servers = "k:9092"\ntopics = "t"\n',
        "source.",
    ),
    "[schema]": (SCHEMA, "schema."),
    "schema.time": ("[schema.time]\n", "schema.time."),
    "schema.attributes": (
        '[schema]\ntime = "at"\noutcomes = ["failed"]\n[[schema.attributes]]\nname = "region"\n',
        "schema.attributes[0].",
    ),
    "schema.outcomes": (
        '[schema]\ntime = "at"\nattributes = ["region"]\n'
        '[[schema.outcomes]]\nname = "failed"\nwhen = "failed"\n',
        "schema.outcomes[0].",
    ),
    "[[notifiers]]": (SCHEMA + '[[notifiers]]\nkind = "log"\n', "notifiers[0]."),
    '[[notifiers]] kind = "log"': (SCHEMA + '[[notifiers]]\nkind = "log"\n', "notifiers[0]."),
    '[[notifiers]] kind = "webhook"': (
        SCHEMA + '[[notifiers]]\nkind = "webhook"\nurl = "https://x"\n',
        "notifiers[0].",
    ),
    '[[notifiers]] kind = "alertmanager"': (
        SCHEMA + '[[notifiers]]\nkind = "alertmanager"\nurls = "http://x"\n',
        "notifiers[0].",
    ),
    '[[notifiers]] kind = "email"': (
        SCHEMA + '[[notifiers]]\nkind = "email"\nhost = "m"\nsender = "a@b"\nrecipients = "a@b"\n',
        "notifiers[0].",
    ),
    '[[notifiers]] kind = "apprise"': (
        SCHEMA + '[[notifiers]]\nkind = "apprise"\nurls = "json://x"\n',
        "notifiers[0].",
    ),
    "[[maintenance]]": (SCHEMA + "[[maintenance]]\n", "maintenance[0]."),
}


@dataclass(frozen=True)
class Setting:
    """One key of one table."""

    table: str
    name: str
    field: FieldInfo

    def __str__(self) -> str:
        return f"{self.table} {self.name}"

    @property
    def place(self) -> tuple[str, str]:
        plain = self.table.strip("[]")
        return PLACES.get(self.table, (f"{SCHEMA}[{plain}]\n", f"{plain}."))


def settings() -> list[Setting]:
    found = [Setting("Top level", "seed", Document.model_fields["seed"])]
    for table, _, section in TABLES:
        for name, field in section.model_fields.items():
            if name != "kind":
                found.append(Setting(table, field.alias or name, field))
    return found


def kinds(annotation: Any) -> Iterator[Any]:
    """The plain types that an annotation allows, with what narrows them."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from kinds(inner[0])
    elif origin in (types.UnionType, typing.Union):
        for one in inner:
            yield from kinds(one)
    elif annotation is not type(None):
        yield annotation


WRONG: dict[Any, list[str]] = {
    str: ["7", "true", "{ a = 1 }", "[7]"],
    int: ['"many"', "1.5", "true", "[1]"],
    float: ['"much"', "true", "[1.5]", "nan", "inf"],
    bool: ['"maybe"', "1", "[true]"],
    timedelta: ["7", "true", '"7"', '"-1h"', '"1 fortnight"', '["1h"]', '"9999999999w"'],
    datetime: ['"noon"', "7", "true"],
    list: ["7", "true", "[{ a = 1 }]", "[7]"],
    dict: ["7", '"x"', "[1]"],
    TimeTable: ["7", "[1]"],
    AttributeTable: ["7"],
    OutcomeTable: ["7"],
}


def wrong_types(setting: Setting) -> list[str]:
    allowed = list(kinds(setting.field.annotation))
    if setting.name == "tier":  # a number or a name
        return ["1.5", "true", "[1]"]
    if setting.table == "[learner]" and setting.name == "tiers":  # true, false or "free"
        return ['"maybe"', "1"]
    if setting.name == "resolve_after":  # a duration or a number of ticks
        return ['"many"', "1.5", "true", "[1]", "0", "-1", '"0s"', '"45m"']
    if setting.name == "days":
        return ["7", '["mo"]']
    (kind,) = allowed
    if typing.get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return ["7", "true", '""', "[1]"]
    given = WRONG[typing.get_origin(kind) or kind]
    if setting.name == "horizons":
        return ["7", '["one"]', "[1.5]", "[0]", "[4, 1]", '["0s"]', '["45m"]', '["1h", "30m"]']
    return given


def out_of_range(setting: Setting) -> Iterator[str]:
    (kind, *_) = kinds(setting.field.annotation)
    duration = kind is timedelta

    def text(value: Any) -> str:
        return f'"{int(value.total_seconds())}s"' if duration else str(value)

    for rule in setting.field.metadata:
        match rule:
            case annotated_types.Gt(gt=limit):
                yield text(limit)
                if not duration:
                    yield text(limit - 1)
            case annotated_types.Ge(ge=limit):
                if not duration:  # there is no negative one
                    yield text(limit - 1)
                    yield text(-(10**30))
                elif limit:
                    yield text(limit - timedelta(seconds=1))
            case annotated_types.Le(le=limit):
                yield text(limit + (timedelta(seconds=1) if duration else 1))
            case annotated_types.Lt(lt=limit):
                yield text(limit)
            case annotated_types.MinLen():
                yield "[]" if typing.get_origin(kind) is list else '""'
            case annotated_types.MaxLen(max_length=most):
                yield f'"{"x" * (most + 1)}"'
    if kind is int:
        yield str(10**30)


def problems(setting: Setting, value: str, folder: Path) -> tuple[int, list[Problem]]:
    before, _ = setting.place
    lines = [line for line in before.splitlines() if not line.startswith(f"{setting.name} = ")]
    written = [*lines, f"{setting.name} = {value}"]
    if setting.table == "Top level":
        written += SCHEMA.splitlines()
    if setting.table == "schema.time":
        written += [] if setting.name == "column" else ['column = "at"']
        written += ["[schema]", 'attributes = ["region"]', 'outcomes = ["failed"]']
    path = folder / "monitor.toml"
    path.write_text("\n".join(written) + "\n")
    try:
        load(path, {})
    except ConfigError as error:
        return len(lines) + 1, list(error.problems)
    return len(lines) + 1, []


@pytest.mark.parametrize("setting", settings(), ids=str)
def test_a_wrong_value_is_named_by_line_and_key(setting: Setting, tmp_path: Path) -> None:
    tried = [*wrong_types(setting), *out_of_range(setting)]
    assert tried
    for value in tried:
        line, found = problems(setting, value, tmp_path)
        assert found, f"{setting.name} = {value} passes"
        mine = [p for p in found if p.where.endswith(f"monitor.toml:{line}")]
        assert mine, f"{setting.name} = {value}: {found}"
        key = setting.place[1] + setting.name
        assert all(p.key.split("[")[0] == key.split("[")[0] for p in mine), mine
        assert all(p.key == key or p.key.startswith((f"{key}[", f"{key}.")) for p in mine), mine
        assert all(p.message for p in mine)
        # What follows from it is not told too: one mistake, one line to mend.
        assert len(found) == len(mine), found


@pytest.mark.parametrize("setting", settings(), ids=str)
def test_a_misspelt_key_and_a_misspelt_choice_are_guessed(setting: Setting, tmp_path: Path) -> None:
    misspelt = setting.name[:-1] + "x" if len(setting.name) > 3 else setting.name + "x"
    wrong = Setting(setting.table, misspelt, setting.field)
    line, found = problems(wrong, "1", tmp_path)
    mine = [p for p in found if p.where.endswith(f"monitor.toml:{line}")]
    assert [p.message for p in mine] == ["unknown key"]
    assert "`" in mine[0].fix
    for kind in kinds(setting.field.annotation):
        if isinstance(kind, type) and issubclass(kind, Enum):
            choices = [str(member.value) for member in kind]
        elif typing.get_origin(kind) is Literal:
            choices = list(typing.get_args(kind))
        else:
            continue
        longest = max(choices, key=len)
        if len(longest) < 3:
            continue
        _, found = problems(setting, f'"{longest[:-1]}x"', tmp_path)
        assert [p.fix for p in found] == [f"did you mean `{longest}`?"]


def test_every_table_of_the_file_is_here() -> None:
    """`TABLES` is written by hand; a section that is missing there would be tested by nobody."""

    def models(annotation: Any) -> Iterator[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        for inner in typing.get_args(annotation):
            yield from models(inner)

    reached: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [Document]
    while waiting:
        for field in waiting.pop().model_fields.values():
            for model in models(field.annotation):
                if model not in reached:
                    reached.add(model)
                    waiting.append(model)
    assert {section for _, _, section in TABLES} >= reached
