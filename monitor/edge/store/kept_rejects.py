"""Rejected records in the database: all are counted, the first few of each reason kept."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, insert, select

from monitor.domain import Rejected
from monitor.edge.store import KEPT_REJECTED, tables
from monitor.edge.store.rows import Rows, inserting, pairs


def add(connection: Connection, rejected: Sequence[Rejected]) -> None:
    """More of them."""
    if not rejected:
        return
    fresh: dict[str, int] = {}
    for one in rejected:
        fresh[one.reason] = fresh.get(one.reason, 0) + one.count
    table = tables.rejected_counts
    statement = inserting(connection, table)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["reason"],
            set_={"count": table.c.count + statement.excluded["count"]},
        ),
        [{"reason": reason, "count": count} for reason, count in fresh.items()],
    )
    known = tables.rejected_records.c
    kept = pairs(
        connection.execute(
            select(known.reason, func.count())
            .where(known.reason.in_(list(fresh)))
            .group_by(known.reason)
        )
    )
    rows: Rows = []
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


def counts(connection: Connection) -> dict[str, int]:
    """See `Store.rejected`."""
    table = tables.rejected_counts.c
    return pairs(connection.execute(select(table.reason, table.count).order_by(table.reason)))


def records(connection: Connection, limit: int) -> list[Rejected]:
    """See `Store.rejected_records`."""
    table = tables.rejected_records.c
    query = select(table.reason, table.place, table.detail, table.count, table.raw)
    found = connection.execute(query.order_by(table.reason, table.id).limit(limit))
    return [Rejected(*row) for row in found]
