"""Silences in a database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store import tables
from monitor.edge.store.changes import expired, only_silence
from monitor.matching import Matcher


def add(connection: Connection, silence: Silence) -> None:
    """See `Store.add_silence`."""
    row = {
        "id": silence.id,
        "matchers": documents.dumps([str(m) for m in silence.matchers]).decode(),
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_at": silence.created_at,
        "actor": silence.actor,
        "note": silence.note,
        "expired_by": silence.expired_by,
    }
    connection.execute(insert(tables.silences), [row])


def expire(connection: Connection, prefix: str, at: datetime, actor: str) -> Silence:
    """See `Store.expire_silence`."""
    silence = expired(one(connection, prefix), at, actor)
    connection.execute(
        update(tables.silences)
        .where(tables.silences.c.id == silence.id)
        .values(ends_at=silence.ends_at, expired_by=actor)
    )
    return silence


def one(connection: Connection, prefix: str) -> Silence:
    """See `Store.silence`."""
    found = _read(connection, 2, tables.silences.c.id.startswith(prefix, autoescape=True))
    return only_silence(prefix, found)


def find(connection: Connection, active_at: datetime | None, limit: int) -> list[Silence]:
    """See `Store.silences`."""
    table = tables.silences.c
    if active_at is None:
        return _read(connection, limit)
    return _read(connection, None, table.starts_at <= active_at, table.ends_at > active_at)


def _read(connection: Connection, limit: int | None, *where: ColumnElement[bool]) -> list[Silence]:
    table = tables.silences
    query = select(table).where(*where).order_by(table.c.created_at.desc(), table.c.id.desc())
    return [_silence(row) for row in connection.execute(query.limit(limit)).mappings()]


def _silence(row: Any) -> Silence:
    matchers = tuple(Matcher.stored(text) for text in documents.loads(row["matchers"]))
    return Silence(**{**row, "matchers": matchers})
