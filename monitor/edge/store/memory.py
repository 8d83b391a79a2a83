"""A store that forgets at exit: for dry runs and tests. Same contract as the lasting ones."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.domain import Incident, Notification, Rejected, State
from monitor.edge.silences import Silence
from monitor.edge.store import (
    KEPT_REJECTED,
    Audit,
    IncidentNotFoundError,
    OutboxCount,
    OutboxItem,
    Saved,
    Seen,
    Verdict,
    Work,
)
from monitor.edge.store.changes import (
    acknowledged,
    expired,
    history,
    only,
    only_silence,
    unchanged,
)
from monitor.edge.store.lease import LENGTH, Lease
from monitor.edge.store.query import EVERY_INCIDENT, IncidentQuery
from monitor.exhibits import Exhibit, Material, Point


@dataclass(slots=True)
class _Outgoing:
    item: OutboxItem
    status: str
    next_at: datetime | None
    """None is at once."""

    @property
    def told_as(self) -> str:
        """Its status, as `Store.outbox` has it."""
        held = self.status == "pending" and not self.item.attempts and self.item.error
        return "held" if held else self.status


class MemoryStore:
    """`Store` in dictionaries under one lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._slices: dict[datetime, bytes] = {}
        self._digests: dict[tuple[datetime, str], bytes] = {}
        self._position: dict[str, object] | None = None
        self._state: dict[str, bytes] = {}
        self._incidents: dict[str, Incident] = {}
        self._audit: dict[str, list[Audit]] = {}
        self._labels: dict[str, Verdict] = {}
        self._rejected: Counter[str] = Counter()
        self._records: dict[str, list[Rejected]] = {}
        self._outbox: dict[tuple[str, str, str, datetime], _Outgoing] = {}
        self._queued = 0
        self._silences: dict[str, Silence] = {}
        self._shown = Material()

    def commit(self, work: Work) -> None:
        """Cannot fail half-way: nothing here raises."""
        with self._lock:
            self._slices.update(work.slices)
            before = work.drop_slices_before
            if before is not None:
                self._slices = {at: blob for at, blob in self._slices.items() if at >= before}
            gone = work.stale_digests
            fresh = {key: data for key, data in self._digests.items() if key[0] not in gone}
            self._digests = fresh | dict(work.digests)
            if before is not None:
                self._digests = {k: data for k, data in self._digests.items() if k[0] >= before}
            if work.position is not None:
                self._position = dict(work.position)
            self._state.update(work.state)
            for incoming in work.incidents:
                told = [n for n in work.notifications if n.incident.id == incoming.id]
                incident, entries = history(self._incidents.get(incoming.id), incoming, told)
                self._incidents[incident.id] = incident
                for at, kind in entries:
                    self._note(incident.id, Audit(at, kind, "monitor"))
            for notification in work.notifications:
                for name in work.notifiers:
                    self._queue(name, notification)
            for rejected in work.rejected:
                self._rejected[rejected.reason] += rejected.count
                kept = self._records.setdefault(rejected.reason, [])
                if len(kept) < KEPT_REJECTED:
                    kept.append(rejected)
            if work.material is not None:
                self._shown.add(work.material)
            if work.drop_course_before is not None:
                self._drop_course(work.drop_course_before)
            if work.drop_sent_before is not None:
                self._drop_sent(work.drop_sent_before)
            if work.drop_incidents_before is not None:
                self._drop_incidents(work.drop_incidents_before)

    def _note(self, incident_id: str, entry: Audit) -> None:
        self._audit.setdefault(incident_id, []).append(entry)

    def _queue(self, name: str, notification: Notification) -> None:
        key = (name, notification.incident.id, notification.change.value, notification.at)
        if key not in self._outbox:
            self._queued += 1
            item = OutboxItem(self._queued, name, notification, 0)
            self._outbox[key] = _Outgoing(item, "pending", None)

    def _drop_sent(self, before: datetime) -> None:
        self._outbox = {
            key: outgoing
            for key, outgoing in self._outbox.items()
            if outgoing.status not in ("sent", "skipped")
            or outgoing.item.notification.at >= before
            or self._get(outgoing.item.notification.incident.id).state is not State.RESOLVED
        }

    def _drop_course(self, before: datetime) -> None:
        going_on = [
            points
            for name, points in self._shown.series.items()
            if self._incidents[name].state is not State.RESOLVED
        ]
        for points in (*going_on, *self._shown.totals.values()):
            for start in [start for start in points if start < before]:
                del points[start]

    def _drop_incidents(self, before: datetime) -> None:
        old = {
            i.id
            for i in self._incidents.values()
            if i.state is State.RESOLVED and i.resolved_at is not None and i.resolved_at < before
        }
        shown = self._shown
        for kept in (self._incidents, self._audit, self._labels, shown.series, shown.exhibits):
            for name in old & kept.keys():
                del kept[name]
        self._outbox = {
            key: outgoing
            for key, outgoing in self._outbox.items()
            if outgoing.item.notification.incident.id not in old
        }

    def course(self, incident_id: str) -> list[Point]:
        """See `Store`."""
        with self._lock:
            points = self._shown.series.get(incident_id, {})
            return [points[start] for start in sorted(points)]

    def totals(self, since: datetime) -> dict[str, list[Point]]:
        """See `Store`."""
        with self._lock:
            found = {
                outcome: [points[start] for start in sorted(points) if start >= since]
                for outcome, points in sorted(self._shown.totals.items())
            }
        return {outcome: points for outcome, points in found.items() if points}

    def exhibit(self, incident_id: str) -> Exhibit | None:
        """See `Store`."""
        return self._shown.exhibits.get(incident_id)

    def slices(self, first: datetime, end: datetime) -> dict[datetime, bytes]:
        """See `Store`."""
        with self._lock:
            return {at: self._slices[at] for at in sorted(self._slices) if first <= at < end}

    def slice_sizes(self, first: datetime, end: datetime) -> dict[datetime, int]:
        """See `Store`."""
        return {start: len(data) for start, data in self.slices(first, end).items()}

    def digests(self, first: datetime, end: datetime, attribute: str) -> dict[datetime, bytes]:
        """See `Store`."""
        with self._lock:
            return {
                start: data
                for (start, name), data in self._digests.items()
                if name == attribute and first <= start < end
            }

    def digested(self) -> frozenset[datetime]:
        """See `Store`."""
        with self._lock:
            return frozenset(start for start, _ in self._digests)

    def set_aside(self, faults: Mapping[datetime, tuple[str, bytes]]) -> None:
        """Nothing is damaged here but by its writer."""
        with self._lock:
            self._slices.update({start: instead for start, (_, instead) in faults.items()})

    def load(self) -> Saved:
        """Copies; later commits do not show in it."""
        with self._lock:
            return Saved(
                slices=dict(sorted(self._slices.items())),
                position=None if self._position is None else dict(self._position),
                state=dict(self._state),
                incidents=self.open_incidents(),
            )

    def state(self, name: str) -> bytes | None:
        """See `Store`."""
        return self._state.get(name)

    def open_incidents(self) -> tuple[Incident, ...]:
        """See `Store`."""
        with self._lock:
            unresolved = [i for i in self._incidents.values() if i.state is not State.RESOLVED]
        return tuple(sorted(unresolved, key=lambda i: (i.opened_at, i.id)))

    def incidents(self, asked: IncidentQuery = EVERY_INCIDENT) -> list[Incident]:
        """See `Store`."""
        with self._lock:
            chosen = [i for i in self._incidents.values() if asked.accepts(i)]
        chosen.sort(key=lambda i: (i.opened_at, i.id), reverse=True)
        return chosen[: asked.limit]

    def open_counts(self, method: str | None = None) -> dict[str, int]:
        """See `Store`."""
        counts = Counter(
            i.finding.outcome
            for i in self.open_incidents()
            if method in (None, i.finding.method.value)
        )
        return dict(sorted(counts.items()))

    def _get(self, incident_id: str) -> Incident:
        try:
            return self._incidents[incident_id]
        except KeyError:
            raise IncidentNotFoundError(f"no incident {incident_id!r}") from None

    def incident(self, id_or_prefix: str) -> Incident:
        """See `Store`."""
        with self._lock:
            if id_or_prefix in self._incidents:
                return self._incidents[id_or_prefix]
            found = [i for i in sorted(self._incidents) if i.startswith(id_or_prefix)]
            return self._get(only(id_or_prefix, found))

    def audit(self, incident_id: str) -> list[Audit]:
        """See `Store`."""
        with self._lock:
            return list(self._audit.get(incident_id, []))

    def acknowledge(
        self,
        incident_id: str,
        at: datetime,
        actor: str,
        note: str = "",
        seen: Seen | None = None,
    ) -> Incident:
        """See `Store`."""
        with self._lock:
            stored = self._get(incident_id)
            unchanged(seen, stored, len(self.audit(incident_id)))
            changed = acknowledged(stored)
            if changed != stored:
                self._incidents[incident_id] = changed
                self._note(incident_id, Audit(at, "acknowledged", actor, note))
            return changed

    def label(
        self,
        incident_id: str,
        verdict: Verdict,
        at: datetime,
        actor: str,
        note: str = "",
        seen: Seen | None = None,
    ) -> None:
        """See `Store`."""
        with self._lock:
            unchanged(seen, self._get(incident_id), len(self.audit(incident_id)))
            self._labels[incident_id] = verdict
            self._note(incident_id, Audit(at, f"labelled_{verdict.value}", actor, note))

    def labels(self) -> dict[str, Verdict]:
        """See `Store`."""
        with self._lock:
            return dict(self._labels)

    def rejected(self) -> dict[str, int]:
        """See `Store`."""
        with self._lock:
            return dict(sorted(self._rejected.items()))

    def rejected_records(self, limit: int = 100) -> list[Rejected]:
        """See `Store`."""
        with self._lock:
            return [r for reason in sorted(self._records) for r in self._records[reason]][:limit]

    def due(
        self, now: datetime, limit: int = 1000, notifier: str | None = None
    ) -> list[OutboxItem]:
        """See `Store`."""
        with self._lock:
            waiting: set[tuple[str, str]] = set()
            found = []
            for outgoing in self._outbox.values():
                if outgoing.status == "pending":
                    item = outgoing.item
                    key = (item.notifier, item.notification.incident.id)
                    if outgoing.next_at is not None and outgoing.next_at > now:
                        waiting.add(key)
                    if key not in waiting and notifier in (None, item.notifier):
                        found.append(item)
            return found[:limit]

    def _find(self, item: OutboxItem) -> _Outgoing:
        return next(o for o in self._outbox.values() if o.item.id == item.id)

    def sent(self, *items: OutboxItem) -> None:
        """See `Store`."""
        with self._lock:
            for item in items:
                self._find(item).status = "sent"

    def held(self, items: Sequence[OutboxItem], reason: str, until: datetime) -> None:
        """See `Store`."""
        with self._lock:
            for item in items:
                outgoing = self._find(item)
                outgoing.item, outgoing.next_at = replace(outgoing.item, error=reason), until

    def skipped(self, items: Sequence[OutboxItem], reason: str) -> None:
        """See `Store`."""
        with self._lock:
            for item in items:
                outgoing = self._find(item)
                outgoing.item, outgoing.status = replace(outgoing.item, error=reason), "skipped"

    def fates(self, notifier: str, incidents: Iterable[str]) -> dict[str, frozenset[str]]:
        """See `Store`."""
        with self._lock:
            found: dict[str, frozenset[str]] = dict.fromkeys(incidents, frozenset())
            for outgoing in self._outbox.values():
                item = outgoing.item
                known = item.notification.incident.id in found
                if item.notifier == notifier and known and outgoing.status != "pending":
                    found[item.notification.incident.id] |= {outgoing.status}
            return found

    def failed(self, item: OutboxItem, error: str, retry_at: datetime | None) -> None:
        """See `Store`."""
        with self._lock:
            outgoing = self._find(item)
            outgoing.item = replace(outgoing.item, attempts=outgoing.item.attempts + 1, error=error)
            if retry_at is None:
                outgoing.status = "parked"
            else:
                outgoing.next_at = retry_at

    def add_silence(self, silence: Silence) -> None:
        """See `Store`."""
        with self._lock:
            self._silences[silence.id] = silence

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """See `Store`."""
        with self._lock:
            silence = expired(self.silence(id_or_prefix), at, actor)
            self._silences[silence.id] = silence
            return silence

    def silence(self, id_or_prefix: str) -> Silence:
        """See `Store`."""
        with self._lock:
            found = [s for s in self._silences.values() if s.id.startswith(id_or_prefix)]
        return only_silence(id_or_prefix, found)

    def silences(self, active_at: datetime | None = None, limit: int = 100) -> list[Silence]:
        """See `Store`."""
        with self._lock:
            found = [s for s in self._silences.values() if active_at is None or s.active(active_at)]
        found.sort(key=lambda s: (s.created_at, s.id), reverse=True)
        return found[:limit] if active_at is None else found

    def told(self, notifier: str) -> tuple[Incident, ...]:
        """See `Store`."""
        with self._lock:
            known = {
                o.item.notification.incident.id
                for o in self._outbox.values()
                if o.status == "sent" and o.item.notifier == notifier
            }
            burning = (
                i
                for i in self._incidents.values()
                if i.id in known and (i.state is not State.RESOLVED or i.story_goes_on)
            )
            return tuple(sorted(burning, key=lambda i: (i.opened_at, i.id)))

    def outbox(self) -> list[OutboxCount]:
        """See `Store`."""
        with self._lock:
            counts = Counter((o.item.notifier, o.told_as) for o in self._outbox.values())
        return [OutboxCount(*key, count) for key, count in sorted(counts.items())]

    def parked(self, limit: int = 100) -> list[OutboxItem]:
        """See `Store`."""
        with self._lock:
            given_up = [o.item for o in self._outbox.values() if o.status == "parked"]
        return given_up[::-1][:limit]

    def take_lease(self, length: timedelta = LENGTH) -> Lease:
        """Nobody else can reach this store."""
        return Lease("this process", 1, True, length)

    def renew_lease(self, length: timedelta = LENGTH) -> None:
        """See `take_lease`."""

    def confirm_lease(self) -> None:
        """See `take_lease`."""

    def resign(self) -> None:
        """See `take_lease`."""

    def lease(self) -> Lease | None:
        """Only this process can lead; when, nobody asks."""
        return None

    def close(self) -> None:
        """Nothing to release."""
