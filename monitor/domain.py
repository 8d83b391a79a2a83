"""The nouns that travel between the stations and the edges.

All are frozen; arrays inside are treated as read-only. Times inside arrays are
``datetime64[us]`` in UTC; times outside arrays are aware ``datetime`` in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

import numpy as np

MISSING = -1
"""Code of a value that the event does not carry."""

OTHER = 0
"""Code shared by all values of an attribute that have too little support."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A categorical field of the log, for example ``airline``."""

    name: str
    tier: int = 0
    """Edges run within a tier or to a later one, never back."""
    is_code: bool = False
    """An error code: present on failures only, so it annotates a cause rather than rivals it."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What an event carries. Nothing else in `monitor` knows the domain."""

    attributes: tuple[Attribute, ...]
    outcomes: tuple[str, ...]
    counted: tuple[str, ...] = ()
    """Outcomes judged by how many there are, whatever the traffic."""

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in column order."""
        return tuple(attribute.name for attribute in self.attributes)


@dataclass(frozen=True, slots=True)
class Events:
    """A batch of booking attempts, column by column, as the core sees them."""

    at: np.ndarray  # (n,) datetime64[us], event time, UTC
    values: np.ndarray  # (n, attributes) int32 codes of the Vocabulary; MISSING is -1
    failed: np.ndarray  # (n, outcomes) bool

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: np.ndarray) -> Events:
        """The events at `rows` (indices or a boolean mask)."""
        return Events(self.at[rows], self.values[rows], self.failed[rows])


KEPT_REASONS = ("unread_number", "unread_flag", "unread_text", "unread_value", "undecided")
"""Reasons of records that are taken in although something about them could not be read."""

_RESULTS = {"duplicate": "duplicate", "excluded": "excluded"} | dict.fromkeys(KEPT_REASONS, "kept")


def result_of(reason: str) -> str:
    """What became of the records: ``rejected``, ``duplicate``, ``excluded`` or ``kept``."""
    return _RESULTS.get(reason, "rejected")


def with_result(counts: Mapping[str, int], result: str) -> dict[str, int]:
    """Of counts by reason those of one result.

    >>> with_result({"bad_time": 2, "undecided": 3}, "rejected")
    {'bad_time': 2}
    """
    return {reason: count for reason, count in counts.items() if result_of(reason) == result}


@dataclass(frozen=True, slots=True)
class Rejected:
    """Input of which something could not be used: counted and told, never guessed at."""

    reason: str
    """A short stable word for the metric label, e.g. ``bad_time``, ``not_json``, ``future``."""
    where: str
    """File and line, or topic, partition and offset."""
    detail: str
    """What is wrong and how to mend it, with the field's name."""
    count: int = 1
    """How many rows share this complaint (only the first few are listed one by one)."""
    raw: bytes = b""
    """The first bytes of the offending record, for the operator."""

    @property
    def result(self) -> str:
        """See `result_of`."""
        return result_of(self.reason)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a source hands over at once."""

    events: Events
    position: Mapping[str, object]
    """JSON-able; reading again from here gives exactly what follows this batch."""
    rejected: tuple[Rejected, ...] = ()
    reached: np.datetime64 | None = None
    """Event time up to which the source has delivered; NaT while it cannot tell yet. None: the
    newest event decides, as it does where rows come in one order."""
    place: str = ""
    """Where its rows stand, for people."""

    @property
    def where(self) -> str:
        """Its place, or at least its position."""
        return self.place or str(dict(self.position))


def whole_number(text: str) -> str:
    """The one spelling of a whole number as a value; other texts as they are.

    >>> whole_number("7.0"), whole_number("4.10"), whole_number("07.0")
    ('7', '4.10', '07.0')
    """
    found = _WHOLE.fullmatch(text) if text.endswith(".0") else None
    return found[1] if found else text


_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0")


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """A selector: every named attribute has one of the listed values; empty is "everything"."""

    selector: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @staticmethod
    def of(**values: str | list[str]) -> Cause:
        """Build from keywords.

        >>> str(Cause.of(airline="AC", office=["BKK", "SEL"]))
        'airline=AC & office=BKK|SEL'
        """
        return Cause.from_json({k: [v] if isinstance(v, str) else v for k, v in values.items()})

    @staticmethod
    def from_json(selector: Mapping[str, list[str]]) -> Cause:
        """The form used in labels and reports: ``{"airline": ["AC"]}``."""
        spelt = {name: sorted(map(whole_number, values)) for name, values in selector.items()}
        return Cause(tuple(sorted((name, tuple(values)) for name, values in spelt.items())))

    def to_json(self) -> dict[str, list[str]]:
        """Inverse of `from_json`."""
        return {name: list(values) for name, values in self.selector}

    def __str__(self) -> str:
        if not self.selector:
            return "everything"
        return " & ".join(f"{name}={'|'.join(values)}" for name, values in self.selector)

    def narrows(self, wider: Cause) -> bool:
        """True when every row of `self` is a row of `wider` and the two differ.

        >>> Cause.of(airline="AC", office="BKK").narrows(Cause.of(airline="AC"))
        True
        """
        mine = dict(self.selector)
        return self != wider and all(
            name in mine and set(mine[name]) <= set(values) for name, values in wider.selector
        )


class Method(Enum):
    """How a finding was judged."""

    EXCESS = "excess"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspected cause of one outcome at one tick, with its counts."""

    method: Method
    outcome: str
    cause: Cause
    path: tuple[str, ...]
    """Root … target, each ``attribute=value``; the last is the outcome's name."""
    score: float
    """Nats of evidence after the price of the search (excess); -ln p (paper)."""
    p_value: float
    q_value: float
    observed: float
    """Failures among the cause's rows in the horizon."""
    expected: float
    """Failures the baseline expected there (excess), or seen in T′ (paper)."""
    rows: int
    """Rows of the cause in the horizon (its exposure)."""
    horizon: timedelta
    """Length of the recent past that was judged."""
    began: datetime
    """Start of the first slice of the excess."""
    rate_before: float
    rate_now: float
    ended: bool = False
    """The excess lies in the past of the horizon: its recent rows fail as usual again."""
    fresh: bool = True
    """The newest slice holds a failure of the cause; without one, nothing new is reported."""
    chain: tuple[Cause, ...] = ()
    """The cause; in stores of older releases from the widest to the narrowest cell considered."""
    codes: tuple[str, ...] = ()
    """Error codes in excess among the cause's failures."""
    runners_up: tuple[tuple[Cause, float], ...] = ()
    """The next best causes and their scores."""


class State(Enum):
    """Where an incident stands."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Severity(Enum):
    """How much an incident hurts; `IncidentSettings` says from when on."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Greater is worse.

        >>> Severity.CRITICAL.rank > Severity.WARNING.rank > Severity.INFO.rank
        True
        """
        return tuple(Severity).index(self)


class Change(Enum):
    """Why an incident is news."""

    OPENED = "opened"
    REGRESSED = "regressed"
    """It was over, and is back within the memory."""
    WORSENED = "worsened"
    """The excess has grown much and fast, or the severity has risen."""
    REFINED = "refined"
    MERGED = "merged"
    """Another incident turned out to be the same trouble: this one ends in it."""
    RESOLVED = "resolved"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings that share outcome and cause, over time."""

    id: str
    """Stable: survives relearning, restarts, gaps and late data."""
    state: State
    opened_at: datetime
    """End of the slice at whose tick it was first reported."""
    updated_at: datetime
    last_seen_at: datetime
    finding: Finding
    """The finding at its highest score: what reports show."""
    latest: Finding
    """The finding at the latest tick that still saw it."""
    resolved_at: datetime | None = None
    worsened_at: tuple[datetime, ...] = ()
    told_excess: float = 0.0
    """Observed less expected, when it opened or last worsened."""
    causes: tuple[Cause, ...] = ()
    """Every cause it was known by, in order; refinement appends."""
    severity: Severity = Severity.INFO
    """The highest it has reached."""
    quiet_ticks: int = 0
    """Ticks with data, one after the other, that did not see it. A gap in the data counts for
    nothing: it is unknown, not healthy."""
    told_per_hour: float = 0.0
    """Observed less expected per hour of the horizon, when people last heard that it is worse."""
    merged_into: str | None = None
    """Id of the incident that goes on in its place."""
    part_of: str | None = None
    """Id of the first incident of the same outage, if that is another one."""
    story_goes_on: bool = False
    """It is over while its story goes on: nobody has been told of its end yet."""

    @property
    def story(self) -> str:
        """Id of the first incident of the same outage."""
        return self.part_of or self.id


@dataclass(frozen=True, slots=True)
class Notification:
    """One message about one incident change."""

    incident: Incident
    change: Change
    at: datetime
    context: tuple[tuple[str, str], ...] = ()
    """What else is known when it is told: name and sentence."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A learned edge between two nodes."""

    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """Failures of one outcome in the newest slice against the baseline."""

    outcome: str
    observed: int
    expected: float


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something in which log and configuration do not fit; a person should look at it."""

    kind: str
    """A stable word: never, constant, unique …"""
    subject: str
    """Name of the attribute or outcome."""
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one tick found: the core returns numbers, the edge counts and shows them."""

    at: datetime
    """End of the newest slice in T."""
    rows: int
    """Rows of the newest slice."""
    clean_rows: int
    """Rows of the newest slice with no failure at all (first-attempt success)."""
    outcomes: tuple[OutcomeCount, ...]
    learning: bool
    """True while the history is too short to judge."""
    gap: bool
    """True when the newest slice is empty where traffic was expected: unknown, not healthy."""
    fit_status: str
    """``converged``, ``max_steps``, ``nonfinite`` or ``skipped``."""
    fit_steps: int
    delta: float
    """δ of the learned W; zero means acyclic as far as the bound sees."""
    nodes: int
    rare_nodes: int
    edges: tuple[Edge, ...]
    """The learned graph."""
    edges_added: int
    edges_removed: int
    paths_truncated: bool
    """A bound on path enumeration bit."""
    findings: tuple[Finding, ...]
    unexplained: Mapping[str, float]
    """Per outcome: the share of its excess that no cause explains (0 without excess)."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Stage → wall time; filled in by the caller, never read by a station."""
    learning_outcomes: tuple[str, ...] = ()
    """Outcomes without a verdict yet: their history is too short."""
    misfits: tuple[Misfit, ...] = ()
    """In what the log is no longer as it was."""


HALF_HOUR = timedelta(minutes=30)
"""What the constants of the statistics count in, whatever the slices."""


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How events become slices and windows."""

    slice_length: timedelta = timedelta(minutes=30)
    length: timedelta = timedelta(hours=24)
    allowed_lateness: timedelta = timedelta(minutes=5)
    max_future: timedelta = timedelta(hours=1)
    zone: str = "UTC"
    """Time zone of the daily rhythm."""
    min_count: int = 10
    """Rows of a value before it becomes a node of its own."""
    max_values: int = 1000
    """Nodes per attribute; later values stay in `other`."""

    @property
    def slices(self) -> int:
        """Slices per window."""
        return round(self.length / self.slice_length)

    @property
    def per_half_hour(self) -> int:
        """Slices in half an hour; 1 where they are longer."""
        return self.slices_in(HALF_HOUR)

    def slices_in(self, span: timedelta) -> int:
        """How many slices are about so long, at least one.

        >>> WindowSettings(slice_length=timedelta(minutes=5)).slices_in(timedelta(hours=2))
        24
        """
        return max(1, round(span / self.slice_length))


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """LEAST, and the baseline: what is learned at its own pace."""

    every: timedelta = HALF_HOUR
    """From one fit to the next; ticks in between go by the last one."""
    tiers: bool = True
    """False is the paper: every edge allowed ("free")."""
    l1: float = 0.02
    threshold: float = 0.05
    """|W| below this is no edge."""
    warm_steps: int = 20
    cold_steps: int = 300
    learning_rate: float = 0.01
    max_nodes: int = 1000
    """Nodes in the graph; the most frequent are kept."""
    max_paths: int = 200
    max_path_length: int = 6


@dataclass(frozen=True, slots=True)
class DetectionSettings:
    """What counts as an anomaly."""

    report: Method = Method.EXCESS
    """The method whose findings become notifications."""
    compare: tuple[Method, ...] = ()
    """Methods whose incidents are tracked and shown beside it, silently."""
    history: timedelta = timedelta(days=28)
    learning: timedelta = timedelta(days=2)
    """History needed before the first verdict."""
    horizons: tuple[int, ...] = (1, 2, 4, 12, 48)
    """In slices."""
    false_alarms_per_week: float = 0.5
    min_failures: int = 5
    paper_p_value: float = 1e-6
    max_causes: int = 6


@dataclass(frozen=True, slots=True)
class IncidentSettings:
    """When an incident opens, worsens and ends."""

    resolve_after: int = 4
    """Ticks unseen before it is resolved."""
    worsen_factor: float = 2.0
    """Growth of the excess, since people last heard of it, that is news."""
    warning_failures: float = 30.0
    """Failures beyond the expected, in the horizon judged, from which on it is a warning."""
    warning_rate: float = 0.1
    """Share of rows failing that makes a warning already at a tenth of those failures."""
    critical_failures: float = 300.0
    critical_rate: float = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a tick depends on, besides its data."""

    schema: Schema
    window: WindowSettings = WindowSettings()
    learner: LearnerSettings = LearnerSettings()
    detection: DetectionSettings = DetectionSettings()
    incidents: IncidentSettings = IncidentSettings()
    seed: int = 0


def bounded(at: datetime) -> datetime:
    """A time that a person gave, in UTC.

    Raises:
        ValueError: in its zone it is no time of these centuries; near the ends of the calendar
            arithmetic overflows, and whoever meets such a time later would end of it.
    """
    if not 1970 < at.year < 9999:
        raise ValueError("is not between the years 1971 and 9998")
    return at.astimezone(UTC)


def utc(at: np.datetime64) -> datetime:
    """An aware ``datetime`` from a UTC ``datetime64``."""
    moment: datetime = at.astype("datetime64[us]").item()
    return moment.replace(tzinfo=UTC)


def datetime64(at: datetime) -> np.datetime64:
    """Inverse of `utc`."""
    return np.datetime64(at.astimezone(UTC).replace(tzinfo=None), "us")
