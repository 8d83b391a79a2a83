"""Incidents in the database, with their history and what operators say of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, or_, select

from monitor.domain import Incident, Notification, State
from monitor.edge import documents
from monitor.edge.store import Audit, IncidentNotFoundError, Seen, Verdict, tables
from monitor.edge.store.changes import acknowledged, only, unchanged
from monitor.edge.store.changes import history as changed
from monitor.edge.store.rows import Rows, pairs, upsert


def write(
    connection: Connection, incoming: Sequence[Incident], news: Sequence[Notification] = ()
) -> None:
    """New and changed ones, and in the history what changed."""
    if not incoming:
        return
    stored = _stored(connection, [incident.id for incident in incoming])
    rows: Rows = []
    for incident in incoming:
        told = [n for n in news if n.incident.id == incident.id]
        incident, entries = changed(stored.get(incident.id), incident, told)
        stored[incident.id] = incident
        rows += [_audit_row(incident.id, at, kind, "monitor", "") for at, kind in entries]
    upsert(
        connection,
        tables.incidents,
        [_row(stored[i]) for i in dict.fromkeys(i.id for i in incoming)],
    )
    if rows:
        connection.execute(insert(tables.audit), rows)


def unresolved(connection: Connection) -> tuple[Incident, ...]:
    """See `Store.open_incidents`."""
    return _oldest_first(connection, tables.incidents.c.state != State.RESOLVED.value)


def burning(connection: Connection, among: ColumnElement[bool]) -> tuple[Incident, ...]:
    """Those whose end has not been told: they, or their stories, go on."""
    table = tables.incidents.c
    # Keys are sorted, written without spaces, and stand once in a document.
    in_story = table.document.contains('"story_goes_on":true')
    return _oldest_first(connection, or_(table.state != State.RESOLVED.value, in_story), among)


def _oldest_first(connection: Connection, *which: ColumnElement[bool]) -> tuple[Incident, ...]:
    table = tables.incidents.c
    found = connection.execute(
        select(table.document).where(*which).order_by(table.opened_at, table.id)
    )
    return tuple(map(_incident, found.scalars()))


def open_counts(connection: Connection, method: str | None) -> dict[str, int]:
    """See `Store.open_counts`."""
    table = tables.incidents.c
    query = select(table.outcome, func.count()).where(table.state != State.RESOLVED.value)
    if method is not None:
        query = query.where(table.method == method)
    return pairs(connection.execute(query.group_by(table.outcome).order_by(table.outcome)))


def get(connection: Connection, incident_id: str) -> Incident:
    """The one with exactly this id.

    Raises:
        IncidentNotFoundError: there is none.
    """
    found = _stored(connection, [incident_id])
    if incident_id not in found:
        raise IncidentNotFoundError(f"no incident {incident_id!r}")
    return found[incident_id]


def look_up(connection: Connection, id_or_prefix: str) -> Incident:
    """See `Store.incident`."""
    table = tables.incidents.c
    query = select(table.id).where(table.id.startswith(id_or_prefix, autoescape=True))
    # LIKE ignores case in SQLite.
    found = [
        name
        for name in connection.execute(query.order_by(table.id)).scalars()
        if name.startswith(id_or_prefix)
    ]
    return get(connection, id_or_prefix if id_or_prefix in found else only(id_or_prefix, found))


def history(connection: Connection, incident_id: str) -> list[Audit]:
    """See `Store.audit`."""
    table = tables.audit.c
    query = select(table.at, table.kind, table.actor, table.note)
    found = connection.execute(query.where(table.incident == incident_id).order_by(table.id))
    return [Audit(*row) for row in found]


def _as_seen(connection: Connection, incident_id: str, seen: Seen | None) -> Incident:
    stored = get(connection, incident_id)
    if seen is not None:
        table = tables.audit.c
        entries = select(func.count()).where(table.incident == incident_id)
        unchanged(seen, stored, connection.scalar(entries) or 0)
    return stored


def acknowledge(
    connection: Connection,
    incident_id: str,
    at: datetime,
    actor: str,
    note: str,
    seen: Seen | None,
) -> Incident:
    """See `Store.acknowledge`."""
    stored = _as_seen(connection, incident_id, seen)
    changed = acknowledged(stored)
    if changed != stored:
        upsert(connection, tables.incidents, [_row(changed)])
        row = _audit_row(incident_id, at, "acknowledged", actor, note)
        connection.execute(insert(tables.audit), [row])
    return changed


def label(
    connection: Connection,
    incident_id: str,
    verdict: Verdict,
    at: datetime,
    actor: str,
    note: str,
    seen: Seen | None,
) -> None:
    """See `Store.label`."""
    _as_seen(connection, incident_id, seen)
    upsert(connection, tables.labels, [{"incident": incident_id, "verdict": verdict.value}])
    row = _audit_row(incident_id, at, f"labelled_{verdict.value}", actor, note)
    connection.execute(insert(tables.audit), [row])


def labels(connection: Connection) -> dict[str, Verdict]:
    """See `Store.labels`."""
    table = tables.labels.c
    found = connection.execute(select(table.incident, table.verdict).order_by("incident"))
    return {incident: Verdict(verdict) for incident, verdict in found}


def _stored(connection: Connection, ids: Sequence[str]) -> dict[str, Incident]:
    table = tables.incidents.c
    found = connection.execute(select(table.document).where(table.id.in_(ids))).scalars()
    return {i.id: i for i in map(_incident, found)}


def _incident(document: str) -> Incident:
    return documents.incident_from(documents.loads(document))


def _row(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "state": incident.state.value,
        "method": incident.finding.method.value,
        "outcome": incident.finding.outcome,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "document": documents.dumps(documents.incident_document(incident)).decode(),
        "story": incident.story,
    }


def _audit_row(incident: str, at: datetime, kind: str, actor: str, note: str) -> dict[str, Any]:
    return {"incident": incident, "at": at, "kind": kind, "actor": actor, "note": note}
