"""Which incidents are asked for, as SQL; what SQL cannot say is decided on the incident itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select

from monitor.domain import Incident, Severity, State
from monitor.edge import documents
from monitor.edge.store import tables
from monitor.edge.store.changes import mentions


def question(
    state: State | None,
    unresolved: bool,
    since: datetime | None,
    until: datetime | None,
    outcome: str | None,
    method: str | None,
    severity: Severity | None,
    after: tuple[datetime, str] | None,
) -> Select[Any]:
    """Documents of incidents, newest first; see `Store.incidents`."""
    table = tables.incidents.c
    query = select(table.document).order_by(table.opened_at.desc(), table.id.desc())
    if state is not None:
        query = query.where(table.state == state.value)
    if unresolved:
        query = query.where(table.state != State.RESOLVED.value)
    if since is not None:
        still = or_(table.resolved_at.is_(None), table.resolved_at >= since)
        query = query.where(or_(table.opened_at >= since, still))
    if until is not None:
        query = query.where(table.opened_at < until)
    if outcome is not None:
        query = query.where(table.outcome == outcome)
    if method is not None:
        query = query.where(table.method == method)
    if severity is not None:
        # Keys are sorted, written without spaces, and stand once in a document. Those of the
        # first days have none and mean `info`.
        written = {s: table.document.contains(f'"severity":"{s.value}"') for s in Severity}
        others = [~written[s] for s in Severity if s is not severity]
        query = query.where(*(others if severity is Severity.INFO else [written[severity]]))
    if after is not None:
        same_time = and_(table.opened_at == after[0], table.id < after[1])
        query = query.where(or_(table.opened_at < after[0], same_time))
    return query


def found(
    connection: Connection, query: Select[Any], text: str | None, limit: int | None
) -> list[Incident]:
    """The incidents of a question that mention every word of the text."""
    words = (text or "").split()
    if not words:
        return list(_incidents(connection, query.limit(limit)))
    for part in (part for word in words for part in _plain(word)):
        query = query.where(tables.incidents.c.document.icontains(part, autoescape=True))
    return list(islice((i for i in _incidents(connection, query) if mentions(i, words)), limit))


def _incidents(connection: Connection, query: Select[Any]) -> Iterator[Incident]:
    for document in connection.execute(query).scalars():
        yield documents.incident_from(documents.loads(document))


def _plain(word: str) -> list[str]:
    """The parts of a word that stand in a JSON document as they are, whatever the database folds.

    An attribute and its value do not stand side by side there.
    """
    return re.findall(r"[A-Za-z0-9_.:-]+", word)
