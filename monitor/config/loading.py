"""TOML → Config, or one complaint that lists everything."""

from __future__ import annotations

import copy
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from monitor.config.checks import build
from monitor.config.lines import Location, key_lines
from monitor.config.model import Config
from monitor.config.notifier_sections import NOTIFIER_SECTIONS, LogSection
from monitor.config.problems import (
    Complaints,
    ConfigError,
    Problem,
    apply_environment,
    closest,
    did_you_mean,
)
from monitor.config.sections import Document
from monitor.config.sources import SOURCE_SECTIONS, FilesSection

MAX_BYTES = 4_000_000
"""A longer file is no configuration."""

_UNIT_SUFFIX = re.compile(r"_(ms|millis|milliseconds|s|sec|seconds|m|min|minutes|h|hours|d|days)$")


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Read and check the configuration at `path`.

    Args:
        path: a TOML file; relative paths inside it are relative to its folder.
        environ: usually ``os.environ``; ``LEAST_MONITOR__SECTION__KEY`` overrides a key.

    Raises:
        ConfigError: with every problem found.
    """
    document, lines = _read(path)
    overridden = apply_environment(document, environ)
    complaints = Complaints(path, lines, overridden)
    for location in _too_large(document):
        complaints.add(location, "is too large a number", "TOML's whole numbers have 64 bits")
    parsed = _validate(document, complaints)
    config = build(parsed, path, complaints) if parsed else None
    if complaints.problems or config is None:
        raise ConfigError(complaints.sorted())
    return config


def _read(path: Path) -> tuple[dict[str, Any], dict[Location, int]]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError([Problem(str(path), "", "is too large for a configuration")])
        text = data.decode("utf-8")
        return tomllib.loads(text), key_lines(text)
    except FileNotFoundError:
        fix = "give the path of a TOML file with -c"
        raise ConfigError([Problem(str(path), "", "does not exist", fix)]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fix = "save the file as UTF-8"
        raise ConfigError([Problem(f"{path}:{line}", "", "is not UTF-8", fix)]) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        where = f"{path}:{found[1]}" if found else str(path)
        message = f"is not TOML: {re.sub(r' .at .*$', '', str(error)) if found else error}"
        raise ConfigError([Problem(where, "", message)]) from None


def _validate(document: dict[str, Any], complaints: Complaints) -> Document | None:
    """Parse, dropping what is wrong and trying again, so that later checks see the rest."""
    remaining = copy.deepcopy(document)
    dropped: set[Location] = set()
    for _ in range(8):
        try:
            return Document.model_validate(remaining)
        except ValidationError as error:
            earlier = frozenset(dropped)
            gone_now: set[Location] = set()
            for detail in error.errors(include_url=False):
                location = _location(detail["loc"])
                if any(location[: len(gone)] == gone for gone in earlier):
                    continue
                complaints.add(location, *_explain(detail, location, document))
                gone_now |= _drop(remaining, location)
            dropped |= gone_now
            complaints.dropped |= gone_now
            if dropped == earlier:
                return None
    return None


def _too_large(value: Any, location: Location = ()) -> Iterator[Location]:
    """Python reads what no other program could."""
    match value:
        case dict():
            for key, one in value.items():
                yield from _too_large(one, (*location, key))
        case list():
            for i, one in enumerate(value):
                yield from _too_large(one, (*location, i))
        case int() if not -(2**63) <= value < 2**63:
            yield location


def _location(loc: tuple[int | str, ...]) -> Location:
    """Pydantic's location without the name of the chosen variant."""
    if len(loc) > 2 and loc[0] == "notifiers":
        return (*loc[:2], *loc[3:])
    if len(loc) > 1 and loc[0] == "source" and loc[1] in SOURCE_SECTIONS:
        return (loc[0], *loc[2:])
    return loc


def _drop(document: Any, location: Location) -> set[Location]:
    """Remove the value at `location`, or the list it is an item of.

    Returns:
        What was removed; empty if nothing was.
    """
    while location and isinstance(location[-1], int):
        location = location[:-1]
    *parents, last = location
    for part in parents:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return set()
    if isinstance(document, dict) and last in document:
        del document[last]
        return {location}
    return set()


def _explain(detail: ErrorDetails, location: Location, document: dict[str, Any]) -> tuple[str, str]:
    """What is wrong, and the fix, in our words."""
    kind, given, limits = detail["type"], detail["input"], detail.get("ctx", {})
    key = next((part for part in reversed(location) if isinstance(part, str)), "")
    match kind:
        case "extra_forbidden":
            return "unknown key", _suggest_key(location, document)
        case "missing":
            return "is missing", _example(location)
        case "union_tag_not_found":
            return "has no `kind`", did_you_mean("", NOTIFIER_SECTIONS)
        case "union_tag_invalid":
            known = SOURCE_SECTIONS if location[0] == "source" else NOTIFIER_SECTIONS
            fix = did_you_mean(str(limits["tag"]), known)
            return f"unknown kind {limits.get('tag')!r}", fix
        case "literal_error":
            return f"cannot be {_toml(given)}", _one_of(given, limits["expected"])
        case "is_instance_of" | "enum":
            return f"cannot be {_toml(given)}", _one_of(given, "'excess' or 'paper'")
        case "string_type":
            return f"must be a text, not {_toml(given)}", "put it in quotes"
        case "bool_type":
            return f"must be true or false, not {_toml(given)}", ""
        case "int_parsing_size":
            return f"is {_toml(given)}", "it must fit into 64 bits"
        case "finite_number":
            return f"is {given}", "it must be finite"
        case "datetime_type" | "datetime_parsing" | "datetime_from_date_parsing":
            return (
                f"must be a time, not {_toml(given)}",
                "write it without quotes: 2026-12-01T22:00:00Z",
            )
        case "string_too_short":
            return "is empty", ""
        case "string_too_long":
            return "is too long", f"at most {limits['max_length']} characters"
        case "int_type" | "int_from_float":
            return f"must be a whole number, not {_toml(given)}", ""
        case "float_type":
            return f"must be a number, not {_toml(given)}", ""
        case "list_type":
            return f"must be a list, not {_toml(given)}", "write it as [ … ]"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a table, not {_toml(given)}", "write it as { … } or [section]"
        case "greater_than":
            return f"is {_toml(given)}", f"it must be more than {limits['gt']}"
        case "greater_than_equal":
            return f"is {_toml(given)}", f"it must be at least {limits['ge']}"
        case "less_than":
            return f"is {_toml(given)}", f"it must be less than {limits['lt']}"
        case "less_than_equal":
            return f"is {_toml(given)}", f"it must be at most {limits['le']}"
        case "too_short":
            return "is empty", "list at least one"
        case "string_pattern_mismatch":
            return f"{given!r} is {_not_what(key)[0]}", _not_what(key)[1]
        case "duration":
            return f"{_toml(given)} {detail['msg']}", ""
    return detail["msg"], ""


def _one_of(given: object, allowed: str) -> str:
    """Allowed is ``'a', 'b' or 'c'``, in pydantic's words."""
    guess = closest(str(given), re.findall(r"'([^']*)'", allowed)) if given else None
    return f"did you mean `{guess}`?" if guess else f"allowed are {allowed}"


def _not_what(key: str) -> tuple[str, str]:
    """What a text that does not fit its pattern fails to be, and what to write."""
    match key:
        case "url" | "urls" | "public_url" | "runbook_url":
            return "no address", "it starts with http:// or https://"
        case "sender" | "recipients":
            return "no mail address", "write it bare: ops@example.org"
        case "host":
            return "no host", "write its name without spaces"
    return "not a name", "use letters, digits, `_`, `-` and `.`, a letter or `_` first"


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:60]}"'
        case list():
            return "a list"
        case dict():
            return "a table"
    return str(value)


def _suggest_key(location: Location, document: dict[str, Any]) -> str:
    known = _known_keys(location[:-1], document)
    key = str(location[-1])
    plain = _UNIT_SUFFIX.sub("", key)
    if plain != key and plain in known:
        return f'write `{plain} = "…"` with the unit in the text, for example "30m"'
    return did_you_mean(key, known)


def _known_keys(location: Location, document: dict[str, Any]) -> list[str]:
    """The keys a table may have."""
    model: Any = Document
    for part in location:
        if isinstance(part, int):
            continue
        if part == "notifiers":
            kind = document["notifiers"][int(location[1])].get("kind")
            model = NOTIFIER_SECTIONS.get(kind, LogSection)
            continue
        if part == "source" and model is Document:
            model = SOURCE_SECTIONS.get(document["source"].get("kind", "files"), FilesSection)
            continue
        fields = {f.alias or name: f for name, f in model.model_fields.items()}
        if part not in fields:
            return []
        model = _inner_model(fields[part].annotation)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [f.alias or name for name, f in model.model_fields.items()]


def _inner_model(annotation: Any) -> Any:
    """The section inside ``list[Annotated[Section, …]]`` and the like."""
    while not isinstance(annotation, type) or isinstance(annotation, types.GenericAlias):
        inner = typing.get_args(annotation)
        if not inner:
            return annotation
        annotation = inner[0]
    return annotation


def _example(location: Location) -> str:
    match location:
        case ("schema",):
            return "add a [schema] section with time, attributes and outcomes"
        case ("schema", "time"):
            return 'name the column of the event time: time = "timestamp"'
        case ("schema", "attributes"):
            return 'list the fields to search: attributes = [{name = "region", tier = 1}]'
        case ("schema", "outcomes"):
            return 'define failure: outcomes = [{name = "failed", when = "status >= 500"}]'
        case (*_, "when"):
            return 'write the condition, for example when = "status >= 500"'
        case (*_, "url"):
            return 'write url = "https://…"'
        case (*_, "urls"):
            return 'write urls = ["http://alertmanager:9093"]'
        case ("source", "bootstrap_servers"):
            return 'write bootstrap_servers = ["kafka:9092"]'
        case ("source", "topics"):
            return 'write topics = ["bookings"]'
        case (*_, "recipients"):
            return 'write recipients = ["ops@example.org"]'
    return f'write {location[-1]} = "…"'
