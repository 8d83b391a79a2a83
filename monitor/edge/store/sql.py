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

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.schema import Table

from monitor.domain import Incident, Rejected, Severity, State
from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store import (
    KEPT_REJECTED,
    Audit,
    IncidentNotFoundError,
    OutboxCount,
    OutboxItem,
    Saved,
    StoreError,
    StoreFailedError,
    Verdict,
    Work,
    acknowledged,
    exhibits,
    kept_slices,
    leasing,
    merge,
    migrations,
    only,
    retention,
    searching,
    silenced,
    tables,
)
from monitor.edge.store.database import Database
from monitor.edge.store.lease import LENGTH, Identity, Lease
from monitor.exhibits import Exhibit, Point

_Rows = list[dict[str, Any]]


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
        self._insert = sqlite.insert if self._database.sqlite else postgresql.insert
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

    def _upsert(self, connection: Connection, table: Table, rows: _Rows) -> None:
        if not rows:
            return
        statement = self._insert(table)
        keys = [column.name for column in table.primary_key]
        changed = {name: statement.excluded[name] for name in rows[0] if name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)

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
        self._upsert(
            connection,
            tables.slices,
            [kept_slices.row(start, data) for start, data in work.slices.items()],
        )
        if work.position is not None:
            document = documents.dumps(dict(work.position)).decode()
            self._upsert(connection, tables.position, [{"id": 1, "document": document}])
        self._upsert(
            connection,
            tables.state,
            [{"name": name, "data": data} for name, data in work.state.items()],
        )
        self._write_incidents(connection, work.incidents)
        self._queue(connection, work)
        self._reject(connection, work.rejected)
        if work.material is not None:
            exhibits.write(connection, self._upsert, work.material)
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

    def _write_incidents(self, connection: Connection, incoming: Sequence[Incident]) -> None:
        if not incoming:
            return
        stored = self._stored(connection, [incident.id for incident in incoming])
        history: _Rows = []
        for incident in incoming:
            incident, kinds = merge(stored.get(incident.id), incident)
            stored[incident.id] = incident
            history += [
                _audit_row(incident.id, incident.updated_at, kind, "monitor", "") for kind in kinds
            ]
        self._upsert(
            connection,
            tables.incidents,
            [_incident_row(stored[i]) for i in dict.fromkeys(i.id for i in incoming)],
        )
        if history:
            connection.execute(insert(tables.audit), history)

    def _stored(self, connection: Connection, ids: Sequence[str]) -> dict[str, Incident]:
        table = tables.incidents.c
        found = connection.execute(select(table.document).where(table.id.in_(ids))).scalars()
        return {i.id: i for i in map(_incident, found)}

    def _queue(self, connection: Connection, work: Work) -> None:
        rows = [
            {
                "notifier": name,
                "incident": notification.incident.id,
                "change": notification.change.value,
                "at": notification.at,
                "document": documents.dumps(documents.notification_document(notification)).decode(),
                "status": "pending",
                "attempts": 0,
                "next_at": tables.AT_ONCE,
                "error": "",
            }
            for notification in work.notifications
            for name in work.notifiers
        ]
        if rows:
            connection.execute(self._insert(tables.outbox).on_conflict_do_nothing(), rows)

    def _reject(self, connection: Connection, rejected: Sequence[Rejected]) -> None:
        if not rejected:
            return
        counts: dict[str, int] = {}
        for one in rejected:
            counts[one.reason] = counts.get(one.reason, 0) + one.count
        table = tables.rejected_counts
        statement = self._insert(table)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["reason"],
                set_={"count": table.c.count + statement.excluded["count"]},
            ),
            [{"reason": reason, "count": count} for reason, count in counts.items()],
        )
        records = tables.rejected_records.c
        kept = _pairs(
            connection.execute(
                select(records.reason, func.count())
                .where(records.reason.in_(list(counts)))
                .group_by(records.reason)
            )
        )
        rows: _Rows = []
        for one in rejected:
            if kept.get(one.reason, 0) < KEPT_REJECTED:
                kept[one.reason] = kept.get(one.reason, 0) + 1
                rows.append(
                    {
                        "reason": one.reason,
                        "place": one.where,
                        "detail": one.detail,
                        "count": one.count,
                        "raw": one.raw,
                    }
                )
        if rows:
            connection.execute(insert(tables.rejected_records), rows)

    def load(self) -> Saved:
        """See `Store`. Reads one consistent moment."""
        with self._read() as connection:
            self._has_seen(_commits(connection))
            slices, damaged = kept_slices.read(connection)
            where = connection.scalar(select(tables.position.c.document))
            state = _pairs(connection.execute(select(tables.state.c.name, tables.state.c.data)))
            return Saved(
                slices=slices,
                position=None if where is None else documents.loads(where),
                state=state,
                incidents=_unresolved(connection),
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
            return _unresolved(connection)

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
        """See `Store`."""
        with self._read() as connection:
            anchor = None if after is None else self._get(connection, after)
            query = searching.question(
                state, unresolved, since, until, outcome, method, severity, anchor
            )
            return searching.found(connection, query, text, limit)

    def open_counts(self, method: str | None = None) -> dict[str, int]:
        """See `Store`."""
        table = tables.incidents.c
        query = select(table.outcome, func.count()).where(table.state != State.RESOLVED.value)
        if method is not None:
            query = query.where(table.method == method)
        with self._read() as connection:
            found = connection.execute(query.group_by(table.outcome).order_by(table.outcome))
            return _pairs(found)

    def _get(self, connection: Connection, incident_id: str) -> Incident:
        found = self._stored(connection, [incident_id])
        if incident_id not in found:
            raise IncidentNotFoundError(f"no incident {incident_id!r}")
        return found[incident_id]

    def incident(self, id_or_prefix: str) -> Incident:
        """See `Store`."""
        table = tables.incidents.c
        query = select(table.id).where(table.id.startswith(id_or_prefix, autoescape=True))
        with self._read() as connection:
            # LIKE ignores case in SQLite.
            found = [
                name
                for name in connection.execute(query.order_by(table.id)).scalars()
                if name.startswith(id_or_prefix)
            ]
            exact = id_or_prefix if id_or_prefix in found else only(id_or_prefix, found)
            return self._get(connection, exact)

    def audit(self, incident_id: str) -> list[Audit]:
        """See `Store`."""
        table = tables.audit.c
        query = select(table.at, table.kind, table.actor, table.note)
        with self._read() as connection:
            found = connection.execute(
                query.where(table.incident == incident_id).order_by(table.id)
            )
            return [Audit(*row) for row in found]

    def acknowledge(self, incident_id: str, at: datetime, actor: str, note: str = "") -> Incident:
        """See `Store`."""
        with self._write() as connection:
            stored = self._get(connection, incident_id)
            changed = acknowledged(stored)
            if changed != stored:
                self._upsert(connection, tables.incidents, [_incident_row(changed)])
                row = _audit_row(incident_id, at, "acknowledged", actor, note)
                connection.execute(insert(tables.audit), [row])
            return changed

    def label(
        self, incident_id: str, verdict: Verdict, at: datetime, actor: str, note: str = ""
    ) -> None:
        """See `Store`."""
        with self._write() as connection:
            self._get(connection, incident_id)
            self._upsert(
                connection, tables.labels, [{"incident": incident_id, "verdict": verdict.value}]
            )
            row = _audit_row(incident_id, at, f"labelled_{verdict.value}", actor, note)
            connection.execute(insert(tables.audit), [row])

    def labels(self) -> dict[str, Verdict]:
        """See `Store`."""
        table = tables.labels.c
        with self._read() as connection:
            found = connection.execute(select(table.incident, table.verdict).order_by("incident"))
            return {incident: Verdict(verdict) for incident, verdict in found}

    def rejected(self) -> dict[str, int]:
        """See `Store`."""
        table = tables.rejected_counts.c
        with self._read() as connection:
            found = connection.execute(select(table.reason, table.count).order_by(table.reason))
            return _pairs(found)

    def rejected_records(self, limit: int = 100) -> list[Rejected]:
        """See `Store`."""
        table = tables.rejected_records.c
        query = select(table.reason, table.place, table.detail, table.count, table.raw)
        with self._read() as connection:
            found = connection.execute(query.order_by(table.reason, table.id).limit(limit))
            return [Rejected(*row) for row in found]

    def due(self, now: datetime, limit: int = 1000) -> list[OutboxItem]:
        """See `Store`."""
        waiting, earlier = tables.outbox.c, tables.outbox.alias().c
        overtakes = (
            select(earlier.id)
            .where(
                earlier.status == "pending",
                earlier.next_at > now,
                earlier.notifier == waiting.notifier,
                earlier.incident == waiting.incident,
                earlier.id < waiting.id,
            )
            .exists()
        )
        query = _items().where(
            and_(waiting.status == "pending", waiting.next_at <= now, ~overtakes)
        )
        with self._read() as connection:
            return [_item(row) for row in connection.execute(query.order_by("id").limit(limit))]

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
        values: dict[str, Any] = {"attempts": tables.outbox.c.attempts + 1, "error": error}
        values |= {"status": "parked"} if retry_at is None else {"next_at": retry_at}
        self._mark([item], values)

    def _mark(self, items: Sequence[OutboxItem], values: Mapping[str, Any]) -> None:
        with self._write() as connection:
            leasing.confirm(connection, self._me, self._epoch)
            ids = tables.outbox.c.id.in_([item.id for item in items])
            connection.execute(update(tables.outbox).where(ids).values(**values))

    def fates(self, notifier: str, incidents: Iterable[str]) -> dict[str, frozenset[str]]:
        """See `Store`."""
        table, wanted = tables.outbox.c, list(incidents)
        query = select(table.incident, table.status).distinct()
        query = query.where(table.notifier == notifier, table.status != "pending")
        found: dict[str, frozenset[str]] = dict.fromkeys(wanted, frozenset())
        with self._read() as connection:
            for incident, status in connection.execute(query.where(table.incident.in_(wanted))):
                found[incident] |= {status}
        return found

    def add_silence(self, silence: Silence) -> None:
        """See `Store`."""
        with self._write() as connection:
            silenced.add(connection, silence)

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """See `Store`."""
        with self._write() as connection:
            return silenced.expire(connection, id_or_prefix, at, actor)

    def silences(self, active_at: datetime | None = None, limit: int = 100) -> list[Silence]:
        """See `Store`."""
        with self._read() as connection:
            return silenced.find(connection, active_at, limit)

    def told(self, notifier: str) -> tuple[Incident, ...]:
        """See `Store`."""
        table = tables.outbox.c
        sent = select(table.incident).where(table.notifier == notifier, table.status == "sent")
        with self._read() as connection:
            return _unresolved(connection, tables.incidents.c.id.in_(sent))

    def outbox(self) -> list[OutboxCount]:
        """See `Store`."""
        table = tables.outbox.c
        query = select(table.notifier, table.status, func.count())
        with self._read() as connection:
            found = connection.execute(
                query.group_by(table.notifier, table.status).order_by(table.notifier, table.status)
            )
            return [OutboxCount(*row) for row in found]

    def parked(self, limit: int = 100) -> list[OutboxItem]:
        """See `Store`."""
        table = tables.outbox.c
        query = _items().where(table.status == "parked").order_by(table.id.desc()).limit(limit)
        with self._read() as connection:
            return [_item(row) for row in connection.execute(query)]

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


def _unresolved(connection: Connection, *also: ColumnElement[bool]) -> tuple[Incident, ...]:
    table = tables.incidents.c
    found = connection.execute(
        select(table.document)
        .where(table.state != State.RESOLVED.value, *also)
        .order_by(table.opened_at, table.id)
    )
    return tuple(map(_incident, found.scalars()))


def _incident(document: str) -> Incident:
    return documents.incident_from(documents.loads(document))


def _incident_row(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "state": incident.state.value,
        "method": incident.finding.method.value,
        "outcome": incident.finding.outcome,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "document": documents.dumps(documents.incident_document(incident)).decode(),
    }


def _audit_row(incident: str, at: datetime, kind: str, actor: str, note: str) -> dict[str, Any]:
    return {"incident": incident, "at": at, "kind": kind, "actor": actor, "note": note}


def _pairs(found: Iterable[Any]) -> dict[Any, Any]:
    return {row[0]: row[1] for row in found}


def _items() -> Select[Any]:
    table = tables.outbox.c
    return select(table.id, table.notifier, table.document, table.attempts, table.error)


def _item(row: Sequence[Any]) -> OutboxItem:
    number, notifier, document, attempts, error = row
    notification = documents.notification_from(documents.loads(document))
    return OutboxItem(number, notifier, notification, attempts, error)
