"""Writing rows over others, in both dialects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.schema import Table

Rows = list[dict[str, Any]]


def inserting(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that can say what to do about rows that are there."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def upsert(connection: Connection, table: Table, rows: Rows) -> None:
    """Write rows; those with the same key are replaced."""
    if not rows:
        return
    statement = inserting(connection, table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)


def pairs(found: Iterable[Any]) -> dict[Any, Any]:
    """Rows of two columns."""
    return {row[0]: row[1] for row in found}
