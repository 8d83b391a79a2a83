"""The lease in the database; every function works inside the caller's transaction."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from monitor.edge.store import LeadershipLostError, StoreError, tables
from monitor.edge.store.lease import Identity, Lease, is_gone, leads


def _now(connection: Connection) -> datetime:
    """The database's own clock, one for all; an SQLite file's is that of its machine."""
    if connection.dialect.name == "sqlite":
        return datetime.fromtimestamp(time.time(), UTC)
    at: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return at


def _row(connection: Connection) -> Any:
    return connection.execute(select(tables.lease)).one_or_none()


def held(connection: Connection, me: Identity) -> Lease | None:
    """The lease as it stands; None before anybody led, and after the last leader resigned."""
    row = _row(connection)
    if row is None or not row.token:
        return None
    return Lease(row.owner, row.epoch, row.token == me.token, row.until - _now(connection))


def can_be_taken(connection: Connection, me: Identity) -> bool:
    """Free, ours, over, or its owner gone."""
    row = _row(connection)
    if row is None or row.token in ("", me.token):
        return True
    return bool(row.until <= _now(connection)) or is_gone(row.token)


def take(connection: Connection, me: Identity, length: timedelta) -> Lease:
    """Take the lease if it is free, over, or its owner gone; else tell whose it is."""
    row, now = _row(connection), _now(connection)
    if not can_be_taken(connection, me):
        return Lease(row.owner, row.epoch, False, row.until - now)
    values = {"owner": me.owner, "token": me.token, "until": now + length}
    if row is None:
        connection.execute(insert(tables.lease).values(id=1, epoch=1, **values))
        return Lease(me.owner, 1, True, length)
    epoch = row.epoch + (row.token != me.token)
    connection.execute(update(tables.lease).values(epoch=epoch, **values))
    return Lease(me.owner, epoch, True, length)


def renew(connection: Connection, me: Identity, epoch: int, length: timedelta) -> None:
    """Go on leading. A lease that is over but that nobody took is still ours.

    Raises:
        LeadershipLostError: another one took it.
    """
    confirm(connection, me, epoch)
    connection.execute(update(tables.lease).values(until=_now(connection) + length))


def resign(connection: Connection, me: Identity) -> None:
    """Let the next one lead at once; nothing happens if another one leads already."""
    table = tables.lease.c
    connection.execute(
        update(tables.lease).where(table.token == me.token).values(token="", owner="")
    )


def confirm(connection: Connection, me: Identity, epoch: int | None) -> None:
    """The fence.

    Args:
        connection: of the transaction that wants to write.
        me: the writer.
        epoch: of its lease; None: it never took one, as a command that runs once in a while.

    Raises:
        LeadershipLostError: it led, and another one has taken over.
        StoreError: it has no lease, and another one leads.
    """
    row = _row(connection)
    if epoch is not None:
        if row is None or row.token != me.token or row.epoch != epoch:
            by = f"{row.owner} leads" if row is not None and row.token else "nobody leads"
            raise LeadershipLostError(f"the lease of this process was taken from it: now {by}")
    elif not can_be_taken(connection, me):
        raise StoreError(leads(row.owner))
