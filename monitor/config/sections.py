"""The file's sections as pydantic sees them: types, ranges and what each key means.

Defaults are not written here: they come from the dataclasses that the sections turn into.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from monitor.config.fields import NO_TIME, Duration, Section, Texts, Url
from monitor.config.model import MISSING_WORDS, HeartbeatSettings, HttpSettings, StoreSettings
from monitor.config.notifier_sections import Notifier
from monitor.config.sources import FilesSection, Source
from monitor.config.spans import Span
from monitor.domain import (
    DetectionSettings,
    IncidentSettings,
    LearnerSettings,
    Method,
    WindowSettings,
)


def _method(value: object) -> object:
    for method in Method:
        if value == method.value:
            return method
    return value


def _named(key: str) -> Any:
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def _condition(value: object) -> object:
    return {"name": value, "when": value} if isinstance(value, str) else value


def _tiers(value: object) -> object:
    return False if value == "free" else value


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MethodName = Annotated[Method, BeforeValidator(_method)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]

_window = WindowSettings()
_learner = LearnerSettings()
_detection = DetectionSettings()
_incidents = IncidentSettings()
_heartbeat = HeartbeatSettings("")
_http = HttpSettings()
_store = StoreSettings()


class TimeTable(Section):
    """`time`, in full."""

    column: str | None = Field(default=None, description="Column of the event time.")
    date: str | None = Field(default=None, description="Column of the date, together with `clock`.")
    clock: str | None = Field(
        default=None, description="Column of the wall clock, together with `date`."
    )
    format: str | None = Field(
        default=None,
        description="With `clock`: `HHMM` (515 is 05:15) or `HH:MM`. With `column`: a strptime "
        "format such as `%d/%b/%Y:%H:%M:%S %z`; left out: ISO 8601 or a real time type. `.%f` is "
        "a fraction that may be there, behind a point or a comma; `%z` is an offset, `Z`, `UTC` or "
        "`GMT`.",
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        default=None, description="Of a number counted from 1970-01-01 UTC."
    )
    zone: str | None = Field(
        default=None,
        description="Time zone of times that carry none, for example `America/New_York`.",
    )


class AttributeTable(Section):
    """One attribute; a plain text is short for `{name = …}`."""

    name: Name = Field(description="Its name in causes, reports and metrics.")
    column: str | None = Field(
        default=None, description="Its column in the log; the name when left out."
    )
    tier: int | str = Field(
        default=0,
        description="Its tier, a number or one of `tiers`. "
        "Causes run within a tier or to a later one, never back.",
    )


class OutcomeTable(Section):
    """One way to fail; a plain text is short for a column that is true, or not zero, on failure."""

    name: Name = Field(description="Its name in incidents and metrics.")
    when: str = Field(
        description="The condition over the columns of the log, for example "
        "`coalesce(arr_delay, dep_delay) >= 60`."
    )
    judge: Literal["rate", "count"] = Field(
        default="rate",
        description="`rate`: failures given the traffic. `count`: failures as such, against the "
        "usual number at this time of day and week; for a bulk cancellation where the share of "
        "cancelled bookings tells nothing.",
    )


class SchemaSection(Section):
    """What an event carries."""

    time: Annotated[TimeTable, _named("column")] = Field(
        description="The event time: a column, or a table (below)."
    )
    zone: str | None = Field(default=None, description="Short for `time.zone`.")
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        default=None, description="Short for `time.unit`."
    )
    missing: list[str] = Field(
        default_factory=lambda: list(MISSING_WORDS),
        description="Texts that stand for no value, in any case. They are no value of an "
        "attribute, `is_null()` holds for them, and `coalesce()` passes over them.",
    )
    decimal: Literal[".", ","] | None = Field(
        default=None,
        description="The decimal mark of numbers that are text, as in CSV. Named, the other mark, "
        "spaces and `'` may group thousands; left out, it is the point, and nothing groups.",
    )
    tiers: list[str] = Field(
        default_factory=list, description="Names of the tiers, causes first; optional."
    )
    attributes: list[Annotated[AttributeTable, _named("name")]] = Field(
        min_length=1, description="The categorical fields in which causes are sought (below)."
    )
    outcomes: list[Annotated[OutcomeTable, BeforeValidator(_condition)]] = Field(
        min_length=1, description="The ways to fail (below)."
    )
    error_code: str | None = Field(
        default=None,
        description="Column of an error code, present on failures only; it annotates causes.",
    )


class WindowSection(Section):
    """How events become slices and windows."""

    slice_length: Duration = Field(
        default=_window.slice_length,
        ge=timedelta(minutes=1),
        description="A diagnosis runs at the end of each slice.",
    )
    length: Duration = Field(
        default=_window.length,
        gt=NO_TIME,
        description="The window T; T′ is as long and lies before it.",
    )
    allowed_lateness: Duration = Field(
        default=_window.allowed_lateness,
        ge=NO_TIME,
        description="How long a slice waits for late rows; left out, at most as long as a slice.",
    )
    max_future: Duration = Field(
        default=_window.max_future,
        ge=NO_TIME,
        description="Rows further ahead than this are set aside.",
    )
    zone: str = Field(
        default=_window.zone,
        description="Time zone of the daily rhythm; that of `schema.time` if it has.",
    )
    min_count: int = Field(
        default=_window.min_count, ge=1, description="Rows of a value before it becomes a node."
    )
    max_values: int = Field(
        default=_window.max_values,
        ge=1,
        description="Nodes per attribute; the rest count as `(other)`.",
    )


class LearnerSection(Section):
    """LEAST, the structure learner, and the pace of learning."""

    every: Duration = Field(
        default=_learner.every,
        gt=NO_TIME,
        description="From one fit of the graph, and of the baseline, to the next; at most once a "
        "tick.",
    )
    tiers: Annotated[bool, BeforeValidator(_tiers)] = Field(
        default=_learner.tiers,
        description='Keep edges to the order of tiers; `"free"` is the paper.',
    )
    l1: float = Field(default=_learner.l1, ge=0, description="Price of an edge.")
    threshold: float = Field(
        default=_learner.threshold, ge=0, description="|W| below this is no edge."
    )
    warm_steps: int = Field(
        default=_learner.warm_steps, ge=1, description="Steps when it goes on from the fit before."
    )
    cold_steps: int = Field(
        default=_learner.cold_steps, ge=1, description="Steps from a fresh start."
    )
    learning_rate: float = Field(default=_learner.learning_rate, gt=0, le=1, description="Of Adam.")
    max_nodes: int = Field(
        default=_learner.max_nodes,
        ge=2,
        description="Nodes in the graph; the most frequent are kept.",
    )
    max_paths: int = Field(
        default=_learner.max_paths, ge=1, description="Paths followed per outcome."
    )
    max_path_length: int = Field(
        default=_learner.max_path_length, ge=2, description="Nodes in a path."
    )


class DetectionSection(Section):
    """What counts as an anomaly."""

    report: MethodName = Field(
        default=_detection.report, description="The method that notifies: `excess` or `paper`."
    )
    compare: list[MethodName] = Field(
        default_factory=lambda: list(_detection.compare),
        description="Methods tracked beside it, silently.",
    )
    history: Duration = Field(
        default=_detection.history,
        gt=NO_TIME,
        description="The past that the baseline learns from.",
    )
    learning: Duration = Field(
        default=_detection.learning,
        ge=NO_TIME,
        description="History needed before the first verdict.",
    )
    horizons: list[Span] | None = Field(
        default=None,
        min_length=1,
        description='Lengths of the recent past that are judged, ascending: `["5m", "2h"]`, or '
        "numbers of slices. Left out: a slice, 5 m, 30 m, 2 h, 6 h and 1 d; where a slice is half "
        "an hour or longer, 1, 2, 4, 12 and 48 slices. They are cut to the window.",
    )
    false_alarms_per_week: float = Field(
        default=_detection.false_alarms_per_week, gt=0, description="The budget of false alarms."
    )
    min_failures: int = Field(
        default=_detection.min_failures, ge=1, description="Fewer failures are never an anomaly."
    )
    paper_p_value: float = Field(
        default=_detection.paper_p_value, gt=0, lt=1, description="Threshold of the method `paper`."
    )
    max_causes: int = Field(
        default=_detection.max_causes, ge=1, description="Causes named per outcome."
    )


class IncidentsSection(Section):
    """When an incident opens, worsens and ends."""

    resolve_after: Span | None = Field(
        default=None,
        description="Time unseen, or ticks, before it is resolved. Left out: 4 ticks, and at least "
        "an hour.",
    )
    worsen_factor: float = Field(
        default=_incidents.worsen_factor, gt=1, description="Growth of the excess that is news."
    )
    warning_failures: float = Field(
        default=_incidents.warning_failures,
        gt=0,
        description="Failures beyond the expected, in the horizon judged, that make a `warning`; "
        "below it is `info`.",
    )
    warning_rate: float = Field(
        default=_incidents.warning_rate,
        gt=0,
        le=1,
        description="Share of the cause's rows failing that makes a `warning` already at a tenth "
        "of `warning_failures`.",
    )
    critical_failures: float = Field(
        default=_incidents.critical_failures, gt=0, description="The same for `critical`."
    )
    critical_rate: float = Field(
        default=_incidents.critical_rate, gt=0, le=1, description="The same for `critical`."
    )


class StoreSection(Section):
    """Where state is kept between runs; rows are kept for `detection.history` plus two windows."""

    url: str | None = Field(
        default=None,
        description="SQLAlchemy URL; a relative SQLite path starts at this file. Left out: "
        "`sqlite:///least-monitor.db` in the working directory.",
    )
    url_file: str | None = Field(
        default=None, description="A file that holds the URL, for secrets."
    )
    keep: Duration = Field(
        default=_store.keep,
        gt=NO_TIME,
        description="How long resolved incidents are kept, with their history and verdicts.",
    )
    lease: Duration = Field(
        default=_store.lease,
        ge=timedelta(seconds=3),
        le=timedelta(minutes=5),
        description="After so long without a heartbeat of the daemon that leads, the one that "
        "stands by takes over; a heartbeat comes every third of it.",
    )


class HttpSection(Section):
    """Metrics, health and the interface for programs."""

    host: str = Field(
        default=_http.host,
        min_length=1,
        description="Address to listen on; beyond loopback a token is due",
    )
    port: int = Field(default=_http.port, ge=0, le=65535, description="0 takes any free port.")
    token_file: str | None = Field(
        default=None,
        description="A file that holds the token for changes, and for reading from outside.",
    )
    public_url: Url | None = Field(
        default=None,
        description="Where people reach the console, for the links in notifications; left out, "
        "they lead to the address listened on.",
    )


class ConsoleSection(Section):
    """What the pages show beyond the usual."""

    example_columns: list[str] = Field(
        default_factory=list,
        description="Attributes whose values the page of an incident may show in example rows; "
        "none, so no rows are shown or kept.",
    )
    reports: str | None = Field(
        default=None,
        description="Folder with backtest reports (`backtest --html`) to list and show.",
    )
    runbook_url: Url | None = Field(
        default=None,
        description="Linked from every incident as what to do; `{outcome}` stands for its outcome.",
    )


class HeartbeatSection(Section):
    """A dead man's switch: a ping at every tick, so that silence rings elsewhere."""

    url: Url | None = Field(
        default=None,
        description="Called when a tick is done; `/start` is added at its start and `/fail` when "
        "the source or the store fails, as healthchecks.io has it.",
    )
    url_file: str | None = Field(
        default=None, description="A file that holds it: who knows the address can send the ping."
    )
    start: bool = Field(
        default=_heartbeat.start, description="Ping at the start too: measures how long ticks take."
    )
    timeout: Duration = Field(default=_heartbeat.timeout, gt=NO_TIME, description="Of one ping.")


class MaintenanceSection(Section):
    """A time in which incidents are expected: they are tracked, but notify nobody."""

    match: Texts = Field(
        default_factory=list,
        description='Which incidents, all conditions together: `["outcome=pay", "airline=AC"]`. '
        "None: every incident.",
    )
    start: datetime | None = Field(
        default=None, description="Of a single window, with its zone: `2026-12-01T22:00:00Z`."
    )
    end: datetime | None = Field(default=None, description="Of a single window.")
    days: list[Weekday] = Field(
        default_factory=list,
        description="Of a window that comes back: `mon` … `sun`; none is every day.",
    )
    at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = Field(
        default=None, description="When it begins on these days, by the wall clock: `22:30`."
    )
    length: Duration | None = Field(
        default=None, gt=NO_TIME, description="Of a window that comes back, at most 24 h."
    )
    zone: str = Field(default="UTC", description="Of `at`, for example `Europe/Lisbon`.")
    note: str = Field(default="", max_length=500, description="Why; shown with what it silences.")


class Document(Section):
    """The whole file."""

    seed: int = Field(
        default=0, ge=0, description="Of everything random; same seed, same incidents."
    )
    source: Source = FilesSection()
    schema_: SchemaSection = Field(alias="schema")
    window: WindowSection = WindowSection()
    learner: LearnerSection = LearnerSection()
    detection: DetectionSection = DetectionSection()
    incidents: IncidentsSection = IncidentsSection()
    store: StoreSection = StoreSection()
    notifiers: list[Notifier] = Field(default_factory=list)
    heartbeat: HeartbeatSection = HeartbeatSection()
    maintenance: list[MaintenanceSection] = Field(default_factory=list)
    http: HttpSection = HttpSection()
    console: ConsoleSection = ConsoleSection()
