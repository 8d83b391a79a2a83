"""What no single key can tell: the sections against each other, and the Config they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from monitor.config.durations import format_duration
from monitor.config.lines import Location
from monitor.config.maintenance import heartbeat, maintenance
from monitor.config.model import (
    CellDefinition,
    Config,
    ConsoleSettings,
    HttpSettings,
    OutcomeDefinition,
    StoreSettings,
    TimeDefinition,
)
from monitor.config.notifiers import base_address, is_loopback, notifiers
from monitor.config.problems import Complaints, did_you_mean
from monitor.config.sections import (
    AttributeTable,
    ConsoleSection,
    Document,
    HttpSection,
    SchemaSection,
    StoreSection,
)
from monitor.config.sources import source
from monitor.config.spans import in_slices, usual_horizons, usual_patience
from monitor.config.time_formats import FormatError, parse_format
from monitor.config.zones import check_zone
from monitor.domain import (
    Attribute,
    DetectionSettings,
    IncidentSettings,
    LearnerSettings,
    Schema,
    Settings,
    WindowSettings,
)
from monitor.expression import ExpressionError, compile_expression

_STORES = ("sqlite", "postgresql")
_CLOCK_FORMATS = ("HHMM", "HH:MM")


def build(document: Document, path: Path, complaints: Complaints) -> Config | None:
    """The Config of a parsed document; None if complaints leave nothing to build."""
    base = path.absolute().parent
    schema = document.schema_
    time = _time(schema, complaints)
    attributes, columns, tiers = _attributes(schema, complaints)
    outcomes = _outcomes(schema, complaints)
    window = _window(document, time, complaints)
    detection = _detection(document, window, complaints)
    config = Config(
        path=path,
        settings=Settings(
            schema=Schema(
                attributes,
                tuple(outcome.name for outcome in outcomes),
                tuple(table.name for table in schema.outcomes if table.judge == "count"),
            ),
            window=window,
            learner=LearnerSettings(**dict(document.learner)),
            detection=detection,
            incidents=_incidents(document, window, complaints),
            seed=document.seed,
        ),
        time=time,
        columns=columns,
        tier_names=tiers,
        outcomes=outcomes,
        cells=CellDefinition(
            tuple(word.strip().casefold() for word in schema.missing), schema.decimal
        ),
        source=source(document.source, base, complaints),
        store=_store(document.store, base, complaints),
        notifiers=notifiers(document, base, complaints),
        heartbeat=heartbeat(document, base, complaints),
        maintenance=maintenance(document, complaints),
        http=_http(document.http, base, complaints),
        console=_console(document.console, [a.name for a in attributes], base, complaints),
    )
    return None if complaints.problems else config


def _time(schema: SchemaSection, complaints: Complaints) -> TimeDefinition:
    table, here = schema.time, ("schema", "time")
    for key in ("zone", "unit"):
        if getattr(schema, key) and getattr(table, key):
            complaints.add(("schema", key), "is given twice", f"keep `{key}` in one place")
    zone, unit = table.zone or schema.zone, table.unit or schema.unit
    if zone:
        check_zone(zone, (*here, "zone") if table.zone else ("schema", "zone"), complaints)
    if table.column and (table.date or table.clock):
        complaints.add(here, "has `column` and also `date` or `clock`", "keep one way")
    elif not table.column and not (table.date and table.clock):
        complaints.add(
            here, "names no column", 'write "column", or {date = "…", clock = "…", format = "HHMM"}'
        )
    if table.clock:
        if table.format and table.format not in _CLOCK_FORMATS:
            complaints.add(
                (*here, "format"), f"unknown clock {table.format!r}", "write HHMM or HH:MM"
            )
        if unit:
            complaints.add((*here, "unit"), "has no meaning beside `clock`", "leave it out")
        if not zone:
            complaints.add(
                here,
                "a date and a clock carry no zone",
                'add zone = "America/New_York" (or "UTC")',
            )
    elif table.format and unit:
        complaints.add((*here, "format"), "has no meaning for numbers", "keep `format` or `unit`")
    elif table.format:
        try:
            parse_format(table.format)
        except FormatError as error:
            complaints.add((*here, "format"), str(error), error.fix)
    return TimeDefinition(
        column=table.column or table.date or "",
        clock=table.clock,
        format=table.format or (_CLOCK_FORMATS[0] if table.clock else None),
        unit=unit,
        zone=zone,
    )


def _attributes(
    schema: SchemaSection, complaints: Complaints
) -> tuple[tuple[Attribute, ...], tuple[str, ...], tuple[str, ...]]:
    """The attributes, the column of each, and the names of the tiers."""
    here = ("schema", "attributes")
    _unique(schema.tiers, ("schema", "tiers"), "tier", complaints)
    _unique([a.name for a in schema.attributes], here, "attribute", complaints)
    columns = [a.column or a.name for a in schema.attributes]
    named_apart = [c if a.column else None for a, c in zip(schema.attributes, columns, strict=True)]
    _unique(named_apart, here, "column", complaints)
    attributes = []
    for i, table in enumerate(schema.attributes):
        tier = _tier(table, schema.tiers, (*here, i, "tier"), complaints)
        attributes.append(Attribute(table.name, tier))
    last = max([a.tier for a in attributes] + [len(schema.tiers) - 1])
    tiers = list(schema.tiers) or [str(tier) for tier in range(last + 1)]
    if schema.error_code:
        if schema.error_code in columns or schema.error_code in [a.name for a in attributes]:
            complaints.add(
                ("schema", "error_code"),
                f"`{schema.error_code}` is an attribute too",
                "list it in one place",
            )
        # After all other tiers: a code is written when the failure happens, it causes none.
        attributes.append(Attribute(schema.error_code, last + 1, is_code=True))
        columns.append(schema.error_code)
        tiers.append("error_code")
    return tuple(attributes), tuple(columns), tuple(tiers)


def _tier(
    table: AttributeTable, names: list[str], location: Location, complaints: Complaints
) -> int:
    match table.tier:
        case str(name):
            if name in names:
                return names.index(name)
            complaints.add(
                location,
                f"there is no tier {name!r}",
                did_you_mean(name, names) or 'list the names: tiers = ["place", "airline"]',
            )
        case int(number):
            if 0 <= number < (len(names) or 100):
                return number
            top = f"0 to {len(names) - 1}, as `tiers` lists them" if names else "0 to 99"
            complaints.add(location, f"there is no tier {number}", f"tiers go from {top}")
    return 0


def _outcomes(schema: SchemaSection, complaints: Complaints) -> tuple[OutcomeDefinition, ...]:
    here = ("schema", "outcomes")
    _unique([o.name for o in schema.outcomes], here, "outcome", complaints)
    outcomes = []
    for i, table in enumerate(schema.outcomes):
        try:
            outcomes.append(OutcomeDefinition(table.name, compile_expression(table.when)))
        except ExpressionError as error:
            complaints.add((*here, i, "when"), f"`{table.when[:200]}`: {error}")
    return tuple(outcomes)


def _unique(
    names: Iterable[str | None], location: Location, what: str, complaints: Complaints
) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name is None:
            continue
        if name in seen:
            first = complaints.lines.get((*location, seen[name]))
            before = f", first in line {first}" if first else ""
            complaints.add(
                (*location, i), f"{what} `{name}` is listed twice{before}", "rename or remove one"
            )
        seen.setdefault(name, i)


def _window(document: Document, time: TimeDefinition, complaints: Complaints) -> WindowSettings:
    window = WindowSettings(**dict(document.window))
    if "allowed_lateness" not in document.window.model_fields_set:
        lateness = min(window.allowed_lateness, window.slice_length)
        window = replace(window, allowed_lateness=lateness)
    here, day = ("window",), timedelta(days=1)
    if "zone" in document.window.model_fields_set:
        check_zone(window.zone, (*here, "zone"), complaints)
    elif time.zone:
        window = replace(window, zone=time.zone)
    length, window_length = format_duration(window.slice_length), format_duration(window.length)
    if window.length % window.slice_length:
        complaints.add(
            (*here, "slice_length"), f"{length} does not divide the window of {window_length}"
        )
    if day % window.slice_length:
        complaints.add(
            (*here, "slice_length"),
            f"{length} does not divide a day",
            "the daily rhythm needs it to; 5m, 15m, 30m, 1h and 24h do",
        )
    return window


def _detection(
    document: Document, window: WindowSettings, complaints: Complaints
) -> DetectionSettings:
    section, here = document.detection, ("detection",)
    horizons = usual_horizons(window)
    slices = max(window.slices, 1)
    if section.horizons is not None:
        horizons = in_slices(section.horizons, window, (*here, "horizons"), complaints)
        if list(horizons) != sorted(set(horizons)):
            complaints.add((*here, "horizons"), "must ascend", f"write {sorted(set(horizons))}")
        if max(horizons) > slices:
            complaints.add(
                (*here, "horizons"),
                f"{max(horizons)} slices are longer than the window, which has {slices}",
                "lengthen `window.length` or leave it out",
            )
    if section.history < window.length:
        complaints.add((*here, "history"), "is shorter than `window.length`")
    if section.learning > section.history:
        complaints.add((*here, "learning"), "is longer than `detection.history`: it never ends")
    if section.report in section.compare:
        complaints.add((*here, "compare"), f"`{section.report.value}` is what `report` shows")
    return DetectionSettings(
        **dict(section) | {"horizons": horizons, "compare": tuple(dict.fromkeys(section.compare))}
    )


def _incidents(
    document: Document, window: WindowSettings, complaints: Complaints
) -> IncidentSettings:
    section, patience = document.incidents, usual_patience(window)
    if section.resolve_after is not None:
        here = ("incidents", "resolve_after")
        (patience,) = in_slices([section.resolve_after], window, here, complaints)
    settings = IncidentSettings(**dict(section) | {"resolve_after": patience})
    for what in ("failures", "rate"):
        critical, warning = (
            getattr(settings, f"critical_{what}"),
            getattr(settings, f"warning_{what}"),
        )
        if critical < warning:
            complaints.add(
                ("incidents", f"critical_{what}"),
                f"{critical:g} is below `warning_{what}`, {warning:g}",
                "critical would come before the warning: raise this or lower that",
            )
    return settings


def _store(section: StoreSection, base: Path, complaints: Complaints) -> StoreSettings:
    here = ("store", "url")
    url = section.url
    if section.url and section.url_file:
        complaints.add(here, "is given, and `url_file` too", "keep one")
    elif section.url_file:
        here = ("store", "url_file")
        url = complaints.secret(section.url_file, here, base)
    if url is None:
        return StoreSettings(keep=section.keep, lease=section.lease)
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.partition("+")[0] not in _STORES:
        complaints.add(
            here, "is no store we know", 'write "sqlite:///path/state.db" or "postgresql://…"'
        )
    return StoreSettings(_placed(url, here, base, complaints), section.keep, section.lease)


def _placed(url: str, here: Location, base: Path, complaints: Complaints) -> str:
    """The URL, its SQLite file counted from the configuration file."""
    scheme, _, path = url.partition(":///")
    if not scheme.startswith("sqlite") or not path or path.startswith(("/", ":memory:", "file:")):
        return url
    name, mark, query = path.partition("?")
    file, earlier = (base / name).absolute(), Path(name).absolute()
    if earlier.exists() and not file.exists():
        complaints.add(
            here,
            f"is {file}, which is not there, but {earlier} is: relative paths start at this file",
            "move that one, or write its whole path",
        )
    return f"{scheme}:///{file}{mark}{query}"


def _http(section: HttpSection, base: Path, complaints: Complaints) -> HttpSettings:
    token = complaints.secret(section.token_file, ("http", "token_file"), base)
    if not is_loopback(section.host) and not section.token_file:
        complaints.add(
            ("http", "host"),
            f"{section.host} is open to others",
            "add `token_file`, or listen on 127.0.0.1",
        )
    if section.public_url:
        base_address(section.public_url, ("http", "public_url"), complaints)
    return HttpSettings(section.host, section.port, token, section.public_url)


def _console(
    section: ConsoleSection, attributes: list[str], base: Path, complaints: Complaints
) -> ConsoleSettings:
    for i, name in enumerate(section.example_columns):
        if name not in attributes:
            complaints.add(
                ("console", "example_columns", i),
                f"there is no attribute {name!r}",
                did_you_mean(name, attributes),
            )
    reports = None if section.reports is None else base / section.reports
    if reports is not None and not reports.is_dir():
        complaints.add(
            ("console", "reports"), f"{reports} is no folder", "make it, or leave this out"
        )
    return ConsoleSettings(tuple(section.example_columns), reports, section.runbook_url)
