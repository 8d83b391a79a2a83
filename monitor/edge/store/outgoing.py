"""The outbox in the database: notifications and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, case, func, select, update

from monitor.domain import Incident
from monitor.edge import documents
from monitor.edge.store import OutboxCount, OutboxItem, Work, kept_incidents, tables
from monitor.edge.store.rows import inserting


def queue(connection: Connection, work: Work) -> None:
    """Every new notification, for every notifier; those that are there already stay."""
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
        connection.execute(inserting(connection, tables.outbox).on_conflict_do_nothing(), rows)


def due(
    connection: Connection, now: datetime, limit: int, notifier: str | None
) -> list[OutboxItem]:
    """See `Store.due`."""
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
    query = _items().where(and_(waiting.status == "pending", waiting.next_at <= now, ~overtakes))
    if notifier is not None:
        query = query.where(waiting.notifier == notifier)
    return [_item(row) for row in connection.execute(query.order_by("id").limit(limit))]


def mark(connection: Connection, items: Sequence[OutboxItem], values: Mapping[str, Any]) -> None:
    """Change columns of some of them."""
    ids = tables.outbox.c.id.in_([item.id for item in items])
    connection.execute(update(tables.outbox).where(ids).values(**values))


def after_failure(error: str, retry_at: datetime | None) -> dict[str, Any]:
    """The columns that a failed attempt changes."""
    values: dict[str, Any] = {"attempts": tables.outbox.c.attempts + 1, "error": error}
    return values | ({"status": "parked"} if retry_at is None else {"next_at": retry_at})


def fates(
    connection: Connection, notifier: str, incidents: Iterable[str]
) -> dict[str, frozenset[str]]:
    """See `Store.fates`."""
    table, wanted = tables.outbox.c, list(incidents)
    query = select(table.incident, table.status).distinct()
    query = query.where(table.notifier == notifier, table.status != "pending")
    found: dict[str, frozenset[str]] = dict.fromkeys(wanted, frozenset())
    for incident, status in connection.execute(query.where(table.incident.in_(wanted))):
        found[incident] |= {status}
    return found


def told(connection: Connection, notifier: str) -> tuple[Incident, ...]:
    """See `Store.told`."""
    table = tables.outbox.c
    sent = select(table.incident).where(table.notifier == notifier, table.status == "sent")
    return kept_incidents.burning(connection, tables.incidents.c.id.in_(sent))


def counts(connection: Connection) -> list[OutboxCount]:
    """See `Store.outbox`."""
    table = tables.outbox.c
    waits = and_(table.status == "pending", table.attempts == 0, table.error != "")
    status = case((waits, "held"), else_=table.status).label("told_as")
    query = select(table.notifier, status, func.count())
    query = query.group_by(table.notifier, status).order_by(table.notifier, status)
    return [OutboxCount(*row) for row in connection.execute(query)]


def parked(connection: Connection, limit: int) -> list[OutboxItem]:
    """See `Store.parked`."""
    table = tables.outbox.c
    query = _items().where(table.status == "parked").order_by(table.id.desc()).limit(limit)
    return [_item(row) for row in connection.execute(query)]


def _items() -> Select[Any]:
    table = tables.outbox.c
    return select(table.id, table.notifier, table.document, table.attempts, table.error)


def _item(row: Sequence[Any]) -> OutboxItem:
    number, notifier, document, attempts, error = row
    notification = documents.notification_from(documents.loads(document))
    return OutboxItem(number, notifier, notification, attempts, error)
