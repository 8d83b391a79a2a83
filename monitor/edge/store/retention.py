"""What is old enough to be forgotten, so that the store stays as large as its settings say."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, and_, delete, select

from monitor.domain import State
from monitor.edge.store import Work, exhibits, tables


def apply(connection: Connection, work: Work) -> None:
    """Delete what `work` no longer wants."""
    if work.drop_slices_before is not None:
        for table in (tables.slices, tables.damaged_slices):
            connection.execute(delete(table).where(table.c.start < work.drop_slices_before))
    if work.drop_sent_before is not None:
        _drop_sent(connection, work.drop_sent_before)
    if work.drop_course_before is not None:
        exhibits.drop(connection, work.drop_course_before)
    if work.drop_incidents_before is not None:
        _drop_incidents(connection, work.drop_incidents_before)


def _drop_sent(connection: Connection, before: datetime) -> None:
    table, incidents = tables.outbox.c, tables.incidents.c
    over = select(incidents.id).where(incidents.state == State.RESOLVED.value)
    done = table.status.in_(("sent", "skipped"))
    old = and_(done, table.at < before, table.incident.in_(over))
    connection.execute(delete(tables.outbox).where(old))


def _drop_incidents(connection: Connection, before: datetime) -> None:
    """With their history, verdicts and notifications."""
    table = tables.incidents.c
    old = and_(table.state == State.RESOLVED.value, table.resolved_at < before)
    if connection.scalar(select(table.id).where(old).limit(1)) is None:
        return
    ids = select(table.id).where(old)
    for dependent in (
        tables.outbox,
        tables.audit,
        tables.labels,
        tables.courses,
        tables.exhibits,
    ):
        connection.execute(delete(dependent).where(dependent.c.incident.in_(ids)))
    connection.execute(delete(tables.incidents).where(old))
