"""Slices in the database, each with a checksum; one that no longer fits it is set aside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, func, insert, select, update

from monitor.edge.store import tables
from monitor.edge.store.rows import pairs

Checked = tuple[dict[datetime, bytes], dict[datetime, str]]
"""Whole slices, and of the others what is wrong with them."""


def row(start: datetime, data: bytes) -> dict[str, Any]:
    """As it is written."""
    return {"start": start, "data": data, "checksum": crc32(data)}


def fault(data: bytes, checksum: int | None) -> str:
    """What is wrong; empty when it is as it was written, as far as its checksum can tell.

    Slices of the first releases have none.
    """
    if checksum is None or crc32(data) == checksum:
        return ""
    return f"checksum {crc32(data):08x} instead of {checksum:08x}"


def read(
    connection: Connection, first: datetime | None = None, end: datetime | None = None
) -> Checked:
    """All of them, or those that start in [first, end), in order of time."""
    table = tables.slices.c
    whole: dict[datetime, bytes] = {}
    damaged: dict[datetime, str] = {}
    query = select(table.start, table.data, table.checksum).order_by(table.start)
    if first is not None:
        query = query.where(table.start >= first)
    if end is not None:
        query = query.where(table.start < end)
    for start, data, checksum in connection.execute(query):
        reason = fault(data, checksum)
        if reason:
            damaged[start] = reason
        else:
            whole[start] = data
    return whole, damaged


def sizes(connection: Connection, first: datetime, end: datetime) -> dict[datetime, int]:
    """Bytes of those that start in [first, end), in order of time."""
    table = tables.slices.c
    query = select(table.start, func.length(table.data)).order_by(table.start)
    return pairs(connection.execute(query.where(table.start >= first, table.start < end)))


def set_aside(connection: Connection, faults: Mapping[datetime, tuple[str, bytes]]) -> None:
    """Move slices to `damaged_slices` and put others in their places."""
    table = tables.slices.c
    for start, (reason, instead) in faults.items():
        data = connection.scalar(select(table.data).where(table.start == start))
        if data is None:
            continue
        known = tables.damaged_slices.c
        number = connection.scalar(select(known.id).order_by(known.id.desc()).limit(1)) or 0
        connection.execute(
            insert(tables.damaged_slices).values(
                id=number + 1, start=start, reason=reason, data=data
            )
        )
        fresh = {key: value for key, value in row(start, instead).items() if key != "start"}
        connection.execute(update(tables.slices).where(table.start == start).values(**fresh))
