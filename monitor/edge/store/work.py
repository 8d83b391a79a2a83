"""What goes into a store and comes out of it: a tick's work, a restart's start, the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from monitor.domain import Incident, Notification, Rejected
from monitor.exhibits import Material

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


@dataclass(frozen=True, slots=True)
class Work:
    """All that one tick wants written."""

    slices: Mapping[datetime, bytes] = field(default_factory=dict)
    """Slice start → encoded slice; replaces what was there."""
    drop_slices_before: datetime | None = None
    """Retention: slices that start earlier are deleted."""
    digests: Mapping[tuple[datetime, str], bytes] = field(default_factory=dict)
    """Block and attribute → a part of its digest (`edge.digesting`)."""
    stale_digests: frozenset[datetime] = frozenset()
    """Blocks whose digests no longer hold; deleted before `digests` are written."""
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
class Seen:
    """What an operator had before the eyes when deciding on a change."""

    incident: Incident
    entries: int
    """Length of its history."""


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
