"""What a configuration means once it has been checked: frozen, complete, free of file syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from monitor.domain import Settings
from monitor.expression import Expression


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
    format: Literal["auto", "parquet", "csv", "jsonl"] = "auto"
    delimiter: str | None = None
    """Of CSV; None: found out from the header."""
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


@dataclass(frozen=True, slots=True)
class LogNotifier:
    """Incidents as log lines."""

    format: Literal["human", "json"] = "human"


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """Incidents as signed HTTP posts."""

    url: str
    secret: str | None = field(default=None, repr=False)
    """Key of the HMAC-SHA256 signature."""
    timeout: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class AlertmanagerNotifier:
    """Incidents as alerts of Prometheus' Alertmanager."""

    urls: tuple[str, ...]
    """Of the members of one cluster."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """On every alert, for routing."""
    runbook_url: str | None = None
    timeout: timedelta = timedelta(seconds=10)


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


Notifier = LogNotifier | WebhookNotifier | AlertmanagerNotifier | EmailNotifier


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
    source: FilesSettings | KafkaSettings = FilesSettings()
    store: StoreSettings = StoreSettings()
    notifiers: tuple[Notifier, ...] = (LogNotifier(),)
    http: HttpSettings = HttpSettings()

    @property
    def reading(self) -> str:
        """How rows become events, as text: equal readings see equal events in equal rows.

        `settings` knows the outcomes by name only; a stored replay must not outlive a change of
        their `when`.
        """
        whens = [(outcome.name, outcome.when.text) for outcome in self.outcomes]
        files = self.source if isinstance(self.source, FilesSettings) else FilesSettings()
        return repr((self.time, self.columns, whens, files.format, files.delimiter))
