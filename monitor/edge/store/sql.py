"""The lasting store: SQLite by default, PostgreSQL by URL, through SQLAlchemy Core.

SQLite runs in WAL mode with ``synchronous=NORMAL``: a killed process loses nothing; a power
cut may take back the last commits, but each whole, and the source's position with them, so the
events are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select, update

from monitor.domain import Incident, Rejected
from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store import (
    Audit,
    OutboxCount,
    OutboxItem,
    Saved,
    Seen,
    StoreError,
    StoreFailedError,
    Verdict,
    Work,
    exhibits,
    kept_digests,
    kept_incidents,
    kept_rejects,
    kept_slices,
    leasing,
    migrations,
    outgoing,
    retention,
    searching,
    silenced,
    tables,
)
from monitor.edge.store.database import Database
from monitor.edge.store.lease import LENGTH, Identity, Lease
from monitor.edge.store.query import EVERY_INCIDENT, IncidentQuery
from monitor.edge.store.rows import pairs, upsert
from monitor.exhibits import Exhibit, Point


class SqlStore:
    """`Store` in a database.

    Args:
        url: an SQLAlchemy URL, or the path of an SQLite file (made if it is not there).
        busy_timeout_seconds: how long to wait for another process to finish writing.
        create: make a missing SQLite file.

    Raises:
        StoreError: it cannot be opened, is no database, or a newer release wrote it.
    """

    def __init__(self, url: str, busy_timeout_seconds: float = 10.0, create: bool = True) -> None:
        self._database = Database(url, busy_timeout_seconds, create)
        self._read, self._write = self._database.read, self._database.write
        try:
            self._migrate()
            with self._read() as connection:
                self._seen = _commits(connection)
        except BaseException:
            self._database.close()
            raise
        self._seen_lock = threading.Lock()
        self._me = Identity.new()
        self._epoch: int | None = None
        self._uncertain: Work | None = None

    def _migrate(self) -> None:
        # Looking first costs no write lock: pages and commands open while a tick is written.
        with self._read() as connection:
            ready = migrations.check(connection)
        if not ready:
            with self._database.restructure() as connection:
                migrations.migrate(connection)

    def commit(self, work: Work) -> None:
        """See `Store`. Refused when another process has committed since the last `load`.

        When the connection broke during the commit, nobody knows whether it succeeded: the same
        work, given again, is then written only if it is not there.
        """
        try:
            self._commit(work)
        except StoreFailedError:
            self._uncertain = work
            raise
        self._uncertain = None

    def _commit(self, work: Work) -> None:
        with self._write() as connection:
            leasing.confirm(connection, self._me, self._epoch)
            if self._has_landed(connection, work):
                claimed = self._seen + 1
            else:
                claimed = self._claim(connection)
                self._write_work(connection, work)
        self._has_seen(claimed)

    def _has_landed(self, connection: Connection, work: Work) -> bool:
        """The commit before was ours, although we were told that it failed."""
        if self._uncertain is None or self._epoch is None:
            return False
        landed = _commits(connection) == self._seen + 1
        assert not landed or work == self._uncertain, "other work before the last was written"
        return landed

    def _write_work(self, connection: Connection, work: Work) -> None:
        upsert(
            connection,
            tables.slices,
            [kept_slices.row(start, data) for start, data in work.slices.items()],
        )
        kept_digests.write(connection, work)
        if work.position is not None:
            document = documents.dumps(dict(work.position)).decode()
            upsert(connection, tables.position, [{"id": 1, "document": document}])
        upsert(
            connection,
            tables.state,
            [{"name": name, "data": data} for name, data in work.state.items()],
        )
        kept_incidents.write(connection, work.incidents, work.notifications)
        outgoing.queue(connection, work)
        kept_rejects.add(connection, work.rejected)
        if work.material is not None:
            exhibits.write(connection, work.material)
        retention.apply(connection, work)

    def _claim(self, connection: Connection) -> int:
        table, seen = tables.generation, self._seen
        claim = update(table).where(table.c.commits == seen).values(commits=seen + 1)
        if connection.execute(claim).rowcount != 1:
            raise StoreError(
                f"store {self._database.name}: another least-monitor has written to it since "
                "this one read it. Only one may run: end the other and start this one again, "
                "which goes on from there; or give each a [store] url of its own"
            )
        return seen + 1

    def _has_seen(self, commits: int) -> None:
        # Pages may load in one thread while a tick commits in another: never go back.
        with self._seen_lock:
            self._seen = max(self._seen, commits)

    def load(self) -> Saved:
        """See `Store`. Reads one consistent moment."""
        with self._read() as connection:
            self._has_seen(_commits(connection))
            slices, damaged = kept_slices.read(connection)
            where = connection.scalar(select(tables.position.c.document))
            state = pairs(connection.execute(select(tables.state.c.name, tables.state.c.data)))
            return Saved(
                slices=slices,
                position=None if where is None else documents.loads(where),
                state=state,
                incidents=kept_incidents.unresolved(connection),
                damaged=damaged,
            )

    def course(self, incident_id: str) -> list[Point]:
        """See `Store`."""
        with self._read() as connection:
            return exhibits.course(connection, incident_id)

    def totals(self, since: datetime) -> dict[str, list[Point]]:
        """See `Store`."""
        with self._read() as connection:
            return exhibits.totals(connection, since)

    def exhibit(self, incident_id: str) -> Exhibit | None:
        """See `Store`."""
        with self._read() as connection:
            return exhibits.exhibit(connection, incident_id)

    def slices(self, first: datetime, end: datetime) -> dict[datetime, bytes]:
        """See `Store`."""
        with self._read() as connection:
            return kept_slices.read(connection, first, end)[0]

    def slice_sizes(self, first: datetime, end: datetime) -> dict[datetime, int]:
        """See `Store`."""
        with self._read() as connection:
            return kept_slices.sizes(connection, first, end)

    def digests(self, first: datetime, end: datetime, attribute: str) -> dict[datetime, bytes]:
        """See `Store`."""
        with self._read() as connection:
            return kept_digests.read(connection, first, end, attribute)

    def digested(self) -> frozenset[datetime]:
        """See `Store`."""
        with self._read() as connection:
            return kept_digests.starts(connection)

    def set_aside(self, faults: Mapping[datetime, tuple[str, bytes]]) -> None:
        """See `Store`."""
        with self._write() as connection:
            leasing.confirm(connection, self._me, self._epoch)
            kept_slices.set_aside(connection, faults)

    def state(self, name: str) -> bytes | None:
        """See `Store`."""
        query = select(tables.state.c.data).where(tables.state.c.name == name)
        with self._read() as connection:
            data: bytes | None = connection.scalar(query)
            return data

    def open_incidents(self) -> tuple[Incident, ...]:
        """See `Store`."""
        with self._read() as connection:
            return kept_incidents.unresolved(connection)

    def incidents(self, asked: IncidentQuery = EVERY_INCIDENT) -> list[Incident]:
        """See `Store`."""
        with self._read() as connection:
            return searching.found(connection, asked)

    def open_counts(self, method: str | None = None) -> dict[str, int]:
        """See `Store`."""
        with self._read() as connection:
            return kept_incidents.open_counts(connection, method)

    def incident(self, id_or_prefix: str) -> Incident:
        """See `Store`."""
        with self._read() as connection:
            return kept_incidents.look_up(connection, id_or_prefix)

    def audit(self, incident_id: str) -> list[Audit]:
        """See `Store`."""
        with self._read() as connection:
            return kept_incidents.history(connection, incident_id)

    def acknowledge(
        self,
        incident_id: str,
        at: datetime,
        actor: str,
        note: str = "",
        seen: Seen | None = None,
    ) -> Incident:
        """See `Store`."""
        with self._write() as connection:
            return kept_incidents.acknowledge(connection, incident_id, at, actor, note, seen)

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
        with self._write() as connection:
            kept_incidents.label(connection, incident_id, verdict, at, actor, note, seen)

    def labels(self) -> dict[str, Verdict]:
        """See `Store`."""
        with self._read() as connection:
            return kept_incidents.labels(connection)

    def rejected(self) -> dict[str, int]:
        """See `Store`."""
        with self._read() as connection:
            return kept_rejects.counts(connection)

    def rejected_records(self, limit: int = 100) -> list[Rejected]:
        """See `Store`."""
        with self._read() as connection:
            return kept_rejects.records(connection, limit)

    def due(
        self, now: datetime, limit: int = 1000, notifier: str | None = None
    ) -> list[OutboxItem]:
        """See `Store`."""
        with self._read() as connection:
            return outgoing.due(connection, now, limit, notifier)

    def sent(self, *items: OutboxItem) -> None:
        """See `Store`."""
        self._mark(items, {"status": "sent"})

    def held(self, items: Sequence[OutboxItem], reason: str, until: datetime) -> None:
        """See `Store`."""
        self._mark(items, {"error": reason, "next_at": until})

    def skipped(self, items: Sequence[OutboxItem], reason: str) -> None:
        """See `Store`."""
        self._mark(items, {"status": "skipped", "error": reason})

    def failed(self, item: OutboxItem, error: str, retry_at: datetime | None) -> None:
        """See `Store`."""
        self._mark([item], outgoing.after_failure(error, retry_at))

    def _mark(self, items: Sequence[OutboxItem], values: Mapping[str, Any]) -> None:
        with self._write() as connection:
            leasing.confirm(connection, self._me, self._epoch)
            outgoing.mark(connection, items, values)

    def fates(self, notifier: str, incidents: Iterable[str]) -> dict[str, frozenset[str]]:
        """See `Store`."""
        with self._read() as connection:
            return outgoing.fates(connection, notifier, incidents)

    def add_silence(self, silence: Silence) -> None:
        """See `Store`."""
        with self._write() as connection:
            silenced.add(connection, silence)

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """See `Store`."""
        with self._write() as connection:
            return silenced.expire(connection, id_or_prefix, at, actor)

    def silence(self, id_or_prefix: str) -> Silence:
        """See `Store`."""
        with self._read() as connection:
            return silenced.one(connection, id_or_prefix)

    def silences(self, active_at: datetime | None = None, limit: int = 100) -> list[Silence]:
        """See `Store`."""
        with self._read() as connection:
            return silenced.find(connection, active_at, limit)

    def told(self, notifier: str) -> tuple[Incident, ...]:
        """See `Store`."""
        with self._read() as connection:
            return outgoing.told(connection, notifier)

    def outbox(self) -> list[OutboxCount]:
        """See `Store`."""
        with self._read() as connection:
            return outgoing.counts(connection)

    def parked(self, limit: int = 100) -> list[OutboxItem]:
        """See `Store`."""
        with self._read() as connection:
            return outgoing.parked(connection, limit)

    def take_lease(self, length: timedelta = LENGTH) -> Lease:
        """See `Store`."""
        with self._read() as connection:  # looking costs those who wait no write
            lease = leasing.held(connection, self._me)
            waiting = lease is not None and not leasing.can_be_taken(connection, self._me)
        if lease is not None and waiting:
            return lease
        with self._write() as connection:
            lease = leasing.take(connection, self._me, length)
        if lease.mine:
            self._epoch = lease.epoch
        return lease

    def renew_lease(self, length: timedelta = LENGTH) -> None:
        """See `Store`."""
        assert self._epoch is not None, "take it first"
        with self._write() as connection:
            leasing.renew(connection, self._me, self._epoch, length)

    def confirm_lease(self) -> None:
        """See `Store`."""
        with self._read() as connection:
            leasing.confirm(connection, self._me, self._epoch)

    def resign(self) -> None:
        """See `Store`."""
        with self._write() as connection:
            leasing.resign(connection, self._me)
        self._epoch = None

    def lease(self) -> Lease | None:
        """See `Store`."""
        with self._read() as connection:
            return leasing.held(connection, self._me)

    def close(self) -> None:
        """See `Store`."""
        self._database.close()


def _commits(connection: Connection) -> int:
    return int(connection.execute(select(tables.generation.c.commits)).scalar_one())
