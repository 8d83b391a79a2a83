"""What a configuration means once it has been checked: frozen, complete, free of file syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Literal

from monitor.domain import Change, Settings, Severity
from monitor.expression import Expression
from monitor.matching import Matcher


@dataclass(frozen=True, slots=True)
class TimeDefinition:
    """Where the event time stands and how it is written."""

    column: str
    """The time, or with `clock` the date."""
    clock: str | None = None
    """Column of the wall clock beside the date."""
    format: str | None = None
    """``HHMM`` or ``HH:MM`` with `clock`; else a strptime format. None: ISO 8601 or a real type."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """Of numbers, counted from 1970."""
    zone: str | None = None
    """Of times that carry no zone themselves."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return (self.column,) if self.clock is None else (self.column, self.clock)


MISSING_WORDS = (
    "-", "--", "?", "n/a", "#n/a", "<na>", "(na)", "nan", "nat", "nil", "none", "null", "undefined",
    "(none)", "(null)", "<none>", "<null>", "[null]", "\\n",
)  # fmt: skip
"""Ways to write "none", in small letters."""


@dataclass(frozen=True, slots=True)
class CellDefinition:
    """How values are written that are text, as all are in CSV."""

    missing: tuple[str, ...] = MISSING_WORDS
    """Texts that stand for no value, in small letters."""
    decimal: Literal[".", ","] | None = None
    """The decimal mark; if named, the other and spaces may group thousands. None: a point."""


@dataclass(frozen=True, slots=True)
class OutcomeDefinition:
    """A named way to fail."""

    name: str
    when: Expression


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """Logs in files."""

    paths: tuple[str, ...] = ()
    """Files or globs, absolute; ``-`` is standard input."""
    where: Expression | None = None
    """Rows for which it is not true are left out."""
    format: Literal["auto", "parquet", "csv", "jsonl", "w3c", "common", "combined"] = "auto"
    pattern: str | None = None
    """Of a line, with a named group for each column; takes the place of the format."""
    delimiter: str | None = None
    """Of CSV; None: found out from the header."""
    encoding: str | None = None
    """Of text; None: what a byte order mark says, else UTF-8."""
    follow: bool = True
    """Files may grow and new ones appear: an unfinished last line waits."""
    poll: timedelta = timedelta(seconds=5)
    max_rejected_ratio: float = 0.2
    """Above this share of rejected rows the input is taken for the wrong one."""


SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Encryption to the brokers; paths are absolute."""

    ca_file: str | None = None
    """None: whom the system trusts."""
    certificate_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How to sign in at the brokers."""

    mechanism: SaslMechanism
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Topics of Apache Kafka whose records are JSON objects."""

    servers: tuple[str, ...]
    topics: tuple[str, ...]
    where: Expression | None = None
    """Records for which it is not true are left out."""
    group: str = "least-monitor"
    """Under it the stored offsets are shown in Kafka, for lag tools; nothing is read by it."""
    start: timedelta | datetime | Literal["beginning", "end"] = timedelta(days=2)
    """Where a store without a position begins: so long ago, at a time, or at an end."""
    dead_letter_topic: str | None = None
    max_rejected_ratio: float = 0.2
    recheck: timedelta = timedelta(seconds=30)
    """How often a paused source looks whether the newest records are sound again."""
    event_id: str | None = None
    """Column; records that repeat one are left out."""
    duplicates_within: timedelta = timedelta(hours=1)
    idle_after: timedelta = timedelta(minutes=1)
    """A partition read to its end and silent for so long is not waited for."""
    buffer_bytes: int = 128 << 20
    poll: timedelta = timedelta(seconds=1)
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where state is kept between runs."""

    url: str = field(default="sqlite:///least-monitor.db", repr=False)
    """SQLAlchemy URL; it may hold a password."""
    keep: timedelta = timedelta(days=400)
    """How long resolved incidents are kept, with their history."""
    lease: timedelta = timedelta(seconds=15)
    """Silence of a leader after which another may lead."""


Grouping = Literal["none", "story", "outcome", "tick"]

GROUPS_BY: Mapping[str, Grouping] = {
    "log": "none",
    "webhook": "story",
    "alertmanager": "tick",
    "email": "outcome",
    "apprise": "outcome",
}
"""Kind of notifier → what it bundles unless told otherwise: a log has a line for each incident,
programs want single stories, Alertmanager groups by itself, people want one message."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which changes go through a notifier, and how many messages they make."""

    matchers: tuple[Matcher, ...] = ()
    severity: Severity = Severity.INFO
    """At least."""
    changes: frozenset[Change] = frozenset(Change)
    group_by: Grouping = "none"
    most_per_hour: int | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A template that an operator wrote."""

    path: str
    source: str


@dataclass(frozen=True, slots=True)
class Templates:
    """Words of one notifier; None is ours."""

    title: Template | None = None
    text: Template | None = None
    html: Template | None = None


TEMPLATE_VARIABLES = (
    "at", "cause", "causes", "change", "codes", "count", "expected", "failures", "headline",
    "incident", "link", "outcome", "parts", "path", "rate_before", "rate_now", "rows", "severity",
    "since", "text",
)  # fmt: skip
"""What a template may name."""


@dataclass(frozen=True, slots=True)
class LogNotifier:
    """Incidents as log lines."""

    format: Literal["human", "json"] = "human"
    route: Route = Route()


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """Incidents as signed HTTP posts."""

    url: str
    secret: str | None = field(default=None, repr=False)
    """Key of the HMAC-SHA256 signature."""
    timeout: timedelta = timedelta(seconds=10)
    route: Route = Route(group_by="story")


@dataclass(frozen=True, slots=True)
class AlertmanagerNotifier:
    """Incidents as alerts of Prometheus' Alertmanager."""

    urls: tuple[str, ...]
    """Of the members of one cluster."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """On every alert, for routing."""
    runbook_url: str | None = None
    timeout: timedelta = timedelta(seconds=10)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    """Bearer, instead of user and password."""
    route: Route = Route(group_by="tick")
    templates: Templates = Templates()


Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True, slots=True)
class EmailNotifier:
    """Incidents as mails."""

    host: str
    sender: str
    recipients: tuple[str, ...]
    port: int = 587
    security: Security = "starttls"
    user: str | None = None
    """None sends without signing in."""
    password: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=20)
    route: Route = Route(group_by="outcome")
    templates: Templates = Templates()


@dataclass(frozen=True, slots=True)
class AppriseNotifier:
    """Incidents to the services that Apprise knows."""

    urls: tuple[str, ...] = field(repr=False)
    """They hold keys and passwords."""
    timeout: timedelta = timedelta(seconds=20)
    route: Route = Route(group_by="outcome")
    templates: Templates = Templates()


Notifier = LogNotifier | WebhookNotifier | AlertmanagerNotifier | EmailNotifier | AppriseNotifier


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """A ping per tick, so that somebody else notices when none comes."""

    url: str = field(repr=False)
    """Who knows it can send the ping."""
    start: bool = True
    timeout: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A time in which incidents notify nobody."""

    matchers: tuple[Matcher, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    """Of a single window; else it comes back:"""
    days: frozenset[int] = frozenset(range(7))
    """Monday is 0."""
    at: time = time(0)
    """Wall clock of `zone`."""
    length: timedelta = timedelta(0)
    zone: str = "UTC"
    note: str = ""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Metrics, health and the interface for programs."""

    host: str = "127.0.0.1"
    port: int = 9469
    token: str | None = field(default=None, repr=False)
    """Asked of whoever changes state, and of every reader when not on loopback."""
    public_url: str | None = None
    """Where people reach the console, for links; None: the address listened on."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What the pages show beyond the usual."""

    example_columns: tuple[str, ...] = ()
    """Attributes whose values example rows may show."""
    reports: Path | None = None
    """Folder of backtest reports, absolute."""
    runbook_url: str | None = None
    """What to do about an outcome; ``{outcome}`` stands for its name."""


@dataclass(frozen=True, slots=True)
class Config:
    """One checked configuration."""

    path: Path
    settings: Settings
    """All that a tick depends on."""
    time: TimeDefinition
    columns: tuple[str, ...]
    """The column behind each attribute, in the order of `settings.schema.attributes`."""
    tier_names: tuple[str, ...]
    """By tier number; numbers where the file gives no names."""
    outcomes: tuple[OutcomeDefinition, ...]
    cells: CellDefinition = CellDefinition()
    source: FilesSettings | KafkaSettings = FilesSettings()
    store: StoreSettings = StoreSettings()
    notifiers: tuple[Notifier, ...] = (LogNotifier(),)
    heartbeat: HeartbeatSettings | None = None
    maintenance: tuple[MaintenanceWindow, ...] = ()
    http: HttpSettings = HttpSettings()
    console: ConsoleSettings = ConsoleSettings()

    @property
    def whens(self) -> dict[str, str]:
        """Outcome → its `when`, as text."""
        return {outcome.name: outcome.when.text for outcome in self.outcomes}

    @property
    def reading(self) -> str:
        """How rows become events, as text: equal readings see equal events in equal rows.

        `settings` knows the outcomes by name only; a stored replay must not outlive a change of
        their `when`.
        """
        whens = list(self.whens.items())
        files = self.source if isinstance(self.source, FilesSettings) else FilesSettings()
        where = self.source.where.text if self.source.where else None
        cells = (self.cells, where)
        return repr((self.time, self.columns, whens, files.format, files.delimiter, cells))
