"""A checked configuration as people may see it: every setting, and no secret.

What a dataclass keeps out of its `repr` is a secret and is only said to be set. Of an address
only scheme, host and port are shown: user, path and query may hold keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from monitor.config.durations import format_duration
from monitor.config.model import Config
from monitor.config.notifier_sections import NOTIFIER_SECTIONS, NotifierSection
from monitor.config.sections import (
    ConsoleSection,
    DetectionSection,
    HeartbeatSection,
    HttpSection,
    IncidentsSection,
    LearnerSection,
    MaintenanceSection,
    SchemaSection,
    StoreSection,
    WindowSection,
)
from monitor.config.sources import SOURCE_SECTIONS
from monitor.config.spans import usual_horizons, usual_patience
from monitor.expression import Expression
from monitor.matching import Matcher

SECRET = "set, not shown"

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting."""

    key: str
    value: str
    default: bool
    """It is what it would be without the file."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Group:
    """The settings of one section."""

    name: str
    """As in the file: ``[window]``."""
    settings: tuple[Shown, ...]


def listing(config: Config) -> tuple[Group, ...]:
    """Everything, in the order of the reference."""
    settings, source = config.settings, config.source
    kind = type(source).__name__.removesuffix("Settings").lower()
    groups = [
        _group(f'[source] kind = "{kind}"', source, SOURCE_SECTIONS[kind]),
        _schema(config),
        _group("[window]", settings.window, WindowSection),
        _group("[learner]", settings.learner, LearnerSection),
        _in_time(
            _group("[detection]", settings.detection, DetectionSection),
            "horizons",
            settings.detection.horizons,
            usual_horizons(settings.window),
            settings.window.slice_length,
        ),
        _in_time(
            _group("[incidents]", settings.incidents, IncidentsSection),
            "resolve_after",
            (settings.incidents.resolve_after,),
            (usual_patience(settings.window),),
            settings.window.slice_length,
        ),
        _group("[store]", config.store, StoreSection),
    ]
    for notifier in config.notifiers:
        kind = type(notifier).__name__.removesuffix("Notifier").lower()
        groups.append(_group(f'[[notifiers]] kind = "{kind}"', notifier, NOTIFIER_SECTIONS[kind]))
    if config.heartbeat is not None:
        groups.append(_group("[heartbeat]", config.heartbeat, HeartbeatSection))
    groups += [_group("[[maintenance]]", w, MaintenanceSection) for w in config.maintenance]
    groups.append(_group("[http]", config.http, HttpSection))
    groups.append(_group("[console]", config.console, ConsoleSection))
    return tuple(groups)


def _schema(config: Config) -> Group:
    schema, tiers = config.settings.schema, config.tier_names
    shown = [
        Shown("time", _plain(config.time), False, "Where the event time stands."),
        *(
            Shown(
                f"attributes.{attribute.name}",
                f"tier {tiers[attribute.tier] if attribute.tier < len(tiers) else attribute.tier}"
                + (f", column {column}" if column != attribute.name else "")
                + (", error code" if attribute.is_code else ""),
                False,
                "A categorical field in which causes are sought.",
            )
            for attribute, column in zip(schema.attributes, config.columns, strict=False)
        ),
        *(
            Shown(
                f"outcomes.{outcome.name}",
                outcome.when.text + (", counted" if outcome.name in schema.counted else ""),
                False,
                "A named way to fail.",
            )
            for outcome in config.outcomes
        ),
        *_settings(config.cells, _meanings(SchemaSection)),
    ]
    return Group("[schema]", tuple(shown))


def _group(name: str, part: Any, section: type | None) -> Group:
    return Group(name, tuple(_settings(part, _meanings(section))))


def _in_time(
    group: Group, key: str, slices: Iterable[int], usual: Iterable[int], length: timedelta
) -> Group:
    """The group with a setting that counts slices shown as time."""
    shown = _joined(format_duration(n * length) for n in slices)
    default = tuple(slices) == tuple(usual)
    return Group(
        group.name,
        tuple(
            replace(one, value=shown, default=default) if one.key == key else one
            for one in group.settings
        ),
    )


def _meanings(section: Any) -> Mapping[str, str]:
    models = [NotifierSection, section] if section is not None else []
    return {name: field.description or "" for m in models for name, field in m.model_fields.items()}


def _settings(part: Any, meanings: Mapping[str, str], prefix: str = "") -> Iterator[Shown]:
    for field in fields(part):
        value, name = getattr(part, field.name), field.name
        if name not in meanings and f"{name}_file" in meanings:
            name = f"{name}_file"
        key = prefix + name
        if field.name in ("route", "templates"):
            yield from _settings(value, meanings)
            continue
        if field.name in ("tls", "sasl") and value is not None:
            yield from _settings(value, {}, f"{key}.")
            continue
        meaning = meanings.get(name, "")
        yield Shown(key, _value(field, value), _is_default(field, value), meaning)


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return field.default is not MISSING and bool(value == field.default)


def _value(field: Field[Any], value: object) -> str:
    if not field.repr:
        return "not set" if value in (None, (), "") else SECRET
    if field.name in ("url", "urls", "public_url", "runbook_url"):
        addresses = value if isinstance(value, tuple) else (value,) if value else ()
        return ", ".join(address_text(str(one)) for one in addresses) or "not set"
    if field.name == "days" and isinstance(value, frozenset):
        return ", ".join(_WEEKDAYS[day] for day in sorted(value))
    return _plain(value)


def address_text(url: str) -> str:
    """Where an address leads, without what may be a key.

    >>> address_text("https://maria:s3cret@hooks.example:8443/services/T0/B1?key=x")
    'https://hooks.example:8443/…'
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{host}{port}{rest}" if host else SECRET


def _plain(value: object) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case timedelta():
            return format_duration(value)
        case datetime():
            return value.isoformat(" ", "minutes")
        case date() | time() | Path() | Matcher():
            return str(value)
        case Enum():
            return str(value.value)
        case Expression():
            return value.text
        case str() | int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Mapping():
            return _joined(f"{k}={_plain(v)}" for k, v in value.items())
        case frozenset():
            return _joined(sorted(map(_plain, value)))
        case tuple() | list():
            return _joined(map(_plain, value))
    if is_dataclass(value) and not isinstance(value, type):
        return _joined(
            f"{f.name} {SECRET if not f.repr else _plain(getattr(value, f.name))}"
            for f in fields(value)
            if getattr(value, f.name) is not None
        )
    return SECRET  # what we do not know we do not show


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"
