"""What a store does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from monitor.domain import Incident, Rejected
from monitor.edge.silences import Silence
from monitor.edge.store.lease import LENGTH, Lease
from monitor.edge.store.query import EVERY_INCIDENT, IncidentQuery
from monitor.edge.store.work import Audit, OutboxCount, OutboxItem, Saved, Seen, Verdict, Work
from monitor.exhibits import Exhibit, Point


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

    def incidents(self, asked: IncidentQuery = EVERY_INCIDENT) -> list[Incident]:
        """Those asked for, newest first."""
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

    def acknowledge(
        self,
        incident_id: str,
        at: datetime,
        actor: str,
        note: str = "",
        seen: Seen | None = None,
    ) -> Incident:
        """An operator takes it on.

        Raises:
            IncidentNotFoundError: no such incident.
            ConflictError: it is already resolved.
            ChangedError: it is not as `seen`.
        """
        ...

    def label(
        self,
        incident_id: str,
        verdict: Verdict,
        at: datetime,
        actor: str,
        note: str = "",
        seen: Seen | None = None,
    ) -> None:
        """An operator judges it; the last verdict counts.

        Raises:
            IncidentNotFoundError: no such incident.
            ChangedError: it is not as `seen`.
        """
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

    def due(
        self, now: datetime, limit: int = 1000, notifier: str | None = None
    ) -> list[OutboxItem]:
        """Notifications to send now, oldest first; of one notifier, or all.

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

    def silence(self, id_or_prefix: str) -> Silence:
        """The silence with this id, or the only one whose id starts so.

        Raises:
            SilenceNotFoundError: none, or several.
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

    def slice_sizes(self, first: datetime, end: datetime) -> dict[datetime, int]:
        """Bytes of the slices that start in [first, end), in order of time."""
        ...

    def digests(self, first: datetime, end: datetime, attribute: str) -> dict[datetime, bytes]:
        """Start of a block in [first, end) → that part of its digest (`edge.digesting`)."""
        ...

    def digested(self) -> frozenset[datetime]:
        """Starts of the blocks that have a digest."""
        ...

    def silences(self, active_at: datetime | None = None, limit: int = 100) -> list[Silence]:
        """The newest first: of all at most `limit`, or every one that holds at `active_at`."""
        ...

    def told(self, notifier: str) -> tuple[Incident, ...]:
        """Incidents of which this notifier has told, but no end; oldest first."""
        ...

    def outbox(self) -> list[OutboxCount]:
        """Notifications by notifier and status, ordered; those sent as far as they are kept.

        Of those pending, those that nobody has tried to send because they are not to be sent yet
        (`held`) are told apart.
        """
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
