"""Digests of slices in the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, select

from monitor.edge.store import Work, tables
from monitor.edge.store.rows import pairs, upsert


def write(connection: Connection, work: Work) -> None:
    """What a commit makes, instead of what it has made untrue."""
    table = tables.digests
    if work.stale_digests:
        connection.execute(delete(table).where(table.c.start.in_(work.stale_digests)))
    rows = [
        {"start": start, "attribute": name, "data": data}
        for (start, name), data in work.digests.items()
    ]
    upsert(connection, table, rows)
    if work.drop_slices_before is not None:
        connection.execute(delete(table).where(table.c.start < work.drop_slices_before))


def read(
    connection: Connection, first: datetime, end: datetime, attribute: str
) -> dict[datetime, bytes]:
    """Those of blocks that start in [first, end)."""
    table = tables.digests.c
    query = select(table.start, table.data).where(table.attribute == attribute)
    found = connection.execute(query.where(table.start >= first, table.start < end))
    return pairs(found)


def starts(connection: Connection) -> frozenset[datetime]:
    """Of all blocks that have one."""
    return frozenset(connection.execute(select(tables.digests.c.start).distinct()).scalars())
