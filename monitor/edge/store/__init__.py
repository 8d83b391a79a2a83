"""What survives a restart: slices, the source's position, incidents and outgoing notifications.

Everything that a tick produced is one `Work`, written in one transaction: a process killed at
any instant leaves either all of it or nothing, so no event is lost, none is counted twice and
no notification is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from monitor.domain import Incident, Notification, Rejected, Severity, State
from monitor.edge.silences import Silence
from monitor.edge.store.lease import LENGTH, Lease
from monitor.exhibits import Exhibit, Material, Point

LATEST_DIAGNOSIS = "diagnosis"
"""Name of the state blob with the newest tick (`documents.diagnosis_document` as JSON)."""

KEPT_REJECTED = 20
"""Rejected records kept per reason, the first ones; all are counted."""

KEPT_SENT = timedelta(days=7)
"""How long notifications that have arrived are kept, by the time of the events."""

KEPT_COURSE = timedelta(days=30)
"""How far back the course of an incident that still goes on is kept, and that of every outcome."""

KEPT_INCIDENTS = timedelta(days=400)
"""How long resolved incidents are kept unless `[store] keep` says otherwise."""


class StoreError(Exception):
    """The store cannot do its work; the message says what to do about it."""


class Trouble(Enum):
    """What can be wrong with a database through no fault of ours."""

    DISK_FULL = "disk_full"
    LOCKED = "locked"
    READ_ONLY = "read_only"
    AWAY = "away"
    DAMAGED = "damaged"
    OTHER = "other"


class StoreFailedError(StoreError):
    """The database failed; what was to be written still can be, once it works again."""

    def __init__(self, message: str, trouble: Trouble) -> None:
        super().__init__(message)
        self.trouble = trouble


class IncidentNotFoundError(StoreError):
    """No incident, or more than one, answers to the id."""


class LeadershipLostError(StoreError):
    """Another process has taken over the store; this one must write and send nothing more."""


class SilenceNotFoundError(StoreError):
    """No silence, or more than one, answers to the id."""


class ConflictError(StoreError):
    """The incident's state does not allow the change."""


@dataclass(frozen=True, slots=True)
class Work:
    """All that one tick wants written."""

    slices: Mapping[datetime, bytes] = field(default_factory=dict)
    """Slice start → encoded slice; replaces what was there."""
    drop_slices_before: datetime | None = None
    """Retention: slices that start earlier are deleted."""
    position: Mapping[str, object] | None = None
    """Where the source goes on; None leaves it."""
    state: Mapping[str, bytes] = field(default_factory=dict)
    """Named blobs to replace (vocabulary, baseline, warm start …); others stay."""
    incidents: tuple[Incident, ...] = ()
    """New and changed incidents."""
    notifications: tuple[Notification, ...] = ()
    notifiers: tuple[str, ...] = ()
    """Every notification goes to each of these."""
    rejected: tuple[Rejected, ...] = ()
    drop_sent_before: datetime | None = None
    """Retention: what has arrived, or need not, and is older is deleted, once its incident is
    resolved; until then `Store.told` has to know of it."""
    drop_incidents_before: datetime | None = None
    """Retention: incidents resolved earlier are deleted with their history and notifications."""
    material: Material | None = None
    """What the pages of its incidents show."""
    drop_course_before: datetime | None = None
    """Retention: older points of incidents that still go on, and of outcomes, are deleted."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a restarted process goes on from."""

    slices: Mapping[datetime, bytes]
    """In order of time."""
    position: Mapping[str, object] | None
    state: Mapping[str, bytes]
    incidents: tuple[Incident, ...]
    """Not yet resolved, oldest first."""
    damaged: Mapping[datetime, str] = field(default_factory=dict)
    """Start of a slice that cannot be what was written → why; they are not in `slices`."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One entry of an incident's history."""

    at: datetime
    kind: str
    """opened, worsened, refined, resolved, reopened, acknowledged, labelled_true …"""
    actor: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """One notification on its way through one notifier."""

    id: int
    notifier: str
    notification: Notification
    attempts: int
    """Failed attempts so far."""
    error: str = ""
    """Why the last one failed."""


class Verdict(Enum):
    """What an operator says about an incident; feeds the reported precision."""

    TRUE = "true"
    FALSE = "false"
    EXPECTED = "expected"
    """Real, but announced: a maintenance window."""


@dataclass(frozen=True, slots=True)
class OutboxCount:
    """How many notifications of one notifier are in one condition."""

    notifier: str
    status: str
    """pending, sent, parked or skipped."""
    count: int


class Store(Protocol):
    """One suite of tests, `tests/contracts/test_stores.py`, says what each method owes.

    All methods raise `StoreError` when the store fails.
    """

    def commit(self, work: Work) -> None:
        """Write everything or nothing; nothing when another one leads.

        An acknowledgement made by an operator in the meantime is kept.
        """
        ...

    def load(self) -> Saved:
        """Everything a restart needs."""
        ...

    def set_aside(self, faults: Mapping[datetime, tuple[str, bytes]]) -> None:
        """Keep damaged slices where nothing reads them.

        Args:
            faults: start → why, and the slice to put in its place.
        """
        ...

    def state(self, name: str) -> bytes | None:
        """One named blob, without loading the rest."""
        ...

    def open_incidents(self) -> tuple[Incident, ...]:
        """Incidents that are not resolved, with what operators did to them; oldest first."""
        ...

    def incidents(
        self,
        *,
        state: State | None = None,
        unresolved: bool = False,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: str | None = None,
        method: str | None = None,
        severity: Severity | None = None,
        text: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Incident]:
        """Incidents, newest first.

        Args:
            state: only these; None is all.
            unresolved: only those that are not resolved.
            since: opened, or still unresolved, at or after this time.
            until: opened before this time.
            outcome: only of this outcome.
            method: only judged by this method.
            severity: only these.
            text: words, each of which has to occur (`mentions`).
            limit: at most so many; None is all.
            after: continue behind the incident with this id (paging).
        """
        ...

    def open_counts(self, method: str | None = None) -> dict[str, int]:
        """Outcome → incidents that are not resolved; of one method, or all."""
        ...

    def incident(self, id_or_prefix: str) -> Incident:
        """The incident with this id, or the only one whose id starts so.

        Raises:
            IncidentNotFoundError: none, or several.
        """
        ...

    def audit(self, incident_id: str) -> list[Audit]:
        """Every change of an incident, oldest first."""
        ...

    def acknowledge(self, incident_id: str, at: datetime, actor: str, note: str = "") -> Incident:
        """An operator takes it on.

        Raises:
            IncidentNotFoundError: no such incident.
            ConflictError: it is already resolved.
        """
        ...

    def label(
        self, incident_id: str, verdict: Verdict, at: datetime, actor: str, note: str = ""
    ) -> None:
        """An operator judges it; the last verdict counts."""
        ...

    def labels(self) -> dict[str, Verdict]:
        """Incident id → last verdict."""
        ...

    def rejected(self) -> dict[str, int]:
        """Reason → rejected records so far."""
        ...

    def rejected_records(self, limit: int = 100) -> list[Rejected]:
        """The first few rejected records of each reason, for the operator to look at."""
        ...

    def due(self, now: datetime, limit: int = 1000) -> list[OutboxItem]:
        """Notifications to send now, oldest first.

        For one incident and notifier the order is kept: nothing overtakes a message that
        still waits for its next attempt. Once that is due, all that followed it is too.
        """
        ...

    def sent(self, *items: OutboxItem) -> None:
        """The notifications arrived."""
        ...

    def failed(self, item: OutboxItem, error: str, retry_at: datetime | None) -> None:
        """An attempt failed; try again at `retry_at`, or park it for good when None."""
        ...

    def held(self, items: Sequence[OutboxItem], reason: str, until: datetime) -> None:
        """Not to be sent before `until`: a silence, or too many messages. No attempt was made."""
        ...

    def skipped(self, items: Sequence[OutboxItem], reason: str) -> None:
        """Never to be sent: filtered, silenced until it was over, or told by a later one."""
        ...

    def fates(self, notifier: str, incidents: Iterable[str]) -> dict[str, frozenset[str]]:
        """Incident id → what became of its earlier notifications: sent, skipped, parked."""
        ...

    def add_silence(self, silence: Silence) -> None:
        """Keep a new silence."""
        ...

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """End one before its time; it stays in the list, with who ended it.

        Raises:
            SilenceNotFoundError: none, or several.
            ConflictError: it has ended already.
        """
        ...

    def course(self, incident_id: str) -> list[Point]:
        """The cause of an incident slice by slice, oldest first; from T′ before it opened on."""
        ...

    def totals(self, since: datetime) -> dict[str, list[Point]]:
        """Outcome → all rows slice by slice, oldest first."""
        ...

    def exhibit(self, incident_id: str) -> Exhibit | None:
        """What else its page shows; None when an older release wrote the incident."""
        ...

    def slices(self, first: datetime, end: datetime) -> dict[datetime, bytes]:
        """Whole slices that start in [first, end), in order of time."""
        ...

    def silences(self, active_at: datetime | None = None, limit: int = 100) -> list[Silence]:
        """The newest first; only those that hold at `active_at` if that is given."""
        ...

    def told(self, notifier: str) -> tuple[Incident, ...]:
        """Incidents that are not resolved and of which this notifier has told; oldest first."""
        ...

    def outbox(self) -> list[OutboxCount]:
        """Notifications by notifier and status, ordered; those sent as far as they are kept."""
        ...

    def parked(self, limit: int = 100) -> list[OutboxItem]:
        """Notifications given up, newest first, with the reason."""
        ...

    def take_lease(self, length: timedelta = LENGTH) -> Lease:
        """Lead from now on, if nobody else does; else the lease of the one who does.

        A lease can be taken when its owner resigned, was silent for `length`, or is seen to be
        gone. From then on `commit`, `sent` and `failed` of the owner before are refused.
        """
        ...

    def renew_lease(self, length: timedelta = LENGTH) -> None:
        """Go on leading.

        Raises:
            LeadershipLostError: another one leads.
        """
        ...

    def confirm_lease(self) -> None:
        """To be asked before anything irrevocable is done outside of the store.

        Raises:
            LeadershipLostError: another one leads.
            StoreError: the same, and this one never led.
        """
        ...

    def resign(self) -> None:
        """End leading, so that the next one need not wait."""
        ...

    def lease(self) -> Lease | None:
        """Who leads; None when nobody has taken it."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


def merge(stored: Incident | None, incoming: Incident) -> tuple[Incident, tuple[str, ...]]:
    """What to write for `incoming`, and what has changed, for the audit.

    The monitor does not see operators at work: an acknowledgement in the store is newer than
    the monitor's "open" and stays.
    """
    if stored is None:
        kinds: tuple[str, ...] = (
            ("opened",) if incoming.state is not State.RESOLVED else ("opened", "resolved")
        )
        return incoming, kinds
    kinds = ()
    if stored.state is State.ACKNOWLEDGED and incoming.state is State.OPEN:
        incoming = replace(incoming, state=State.ACKNOWLEDGED)
    if stored.state is State.RESOLVED and incoming.state is not State.RESOLVED:
        kinds += ("reopened",)
    if len(incoming.worsened_at) > len(stored.worsened_at):
        kinds += ("worsened",)
    if incoming.severity.rank > stored.severity.rank:
        kinds += (f"severity_{incoming.severity.value}",)
    if len(incoming.causes) > len(stored.causes):
        kinds += ("refined",)
    if stored.state is not State.RESOLVED and incoming.state is State.RESOLVED:
        kinds += (f"merged_into_{incoming.merged_into}" if incoming.merged_into else "resolved",)
    return incoming, kinds


def mentions(incident: Incident, words: Iterable[str]) -> bool:
    """True when every word occurs in what the incident is about, whatever the case.

    That is its id, outcome, causes, path and error codes; `attribute=value` may be a word.
    """
    finding = incident.finding
    causes = [f"{n}={v}" for c in incident.causes for n, values in c.selector for v in values]
    about = (incident.id, finding.outcome, *causes, *finding.path, *finding.codes)
    text = "\n".join(about).casefold()
    return all(word.casefold() in text for word in words)


def acknowledged(stored: Incident) -> Incident:
    """The incident after an operator took it on; unchanged if that was so already."""
    if stored.state is State.RESOLVED:
        raise ConflictError(f"incident {stored.id} is already resolved; label it instead")
    return replace(stored, state=State.ACKNOWLEDGED)


def expired(prefix: str, found: Sequence[Silence], at: datetime, actor: str) -> Silence:
    """The one silence of `found`, ended.

    Raises:
        SilenceNotFoundError: there is none, or several.
        ConflictError: it has ended already.
    """
    if len(found) != 1:
        what = "is short for several silences" if found else "is no silence"
        raise SilenceNotFoundError(f"{prefix!r} {what}; `least-monitor silence list` lists them")
    silence = found[0]
    if silence.ends_at <= at:
        raise ConflictError(f"silence {silence.id} has ended already")
    return replace(silence, ends_at=at, expired_by=actor)


def only(prefix: str, found: list[str]) -> str:
    """The one id that starts with `prefix`.

    Raises:
        IncidentNotFoundError: none does, or several do.
    """
    if not found:
        raise IncidentNotFoundError(f"no incident {prefix!r}; `least-monitor incidents` lists them")
    if len(found) > 1:
        raise IncidentNotFoundError(
            f"{prefix!r} is short for several incidents: {', '.join(found[:5])}"
        )
    return found[0]


def open_store(url: str, create: bool = True) -> Store:
    """The store at `url`.

    Args:
        url: ``memory:`` (forgets everything at exit), a path to an SQLite file, or any
            SQLAlchemy URL, e.g. ``postgresql+psycopg://monitor@db/monitor``.
        create: make a missing SQLite file; without it a missing one is an error, so that a
            mistyped path does not look like a quiet store.
    """
    if url == "memory:":
        from monitor.edge.store.memory import MemoryStore

        return MemoryStore()
    from monitor.edge.store.sql import SqlStore

    return SqlStore(url, create=create)
