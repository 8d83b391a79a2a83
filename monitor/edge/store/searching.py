"""Which incidents are asked for, as SQL; what SQL cannot say is decided on the incident itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select

from monitor.domain import Incident, Severity, State
from monitor.edge import documents
from monitor.edge.store import tables
from monitor.edge.store.query import IncidentQuery, mentions


def _question(asked: IncidentQuery) -> Select[Any]:
    """Documents of the incidents, newest first, as far as SQL can say it."""
    table = tables.incidents.c
    query = select(table.document).order_by(table.opened_at.desc(), table.id.desc())
    if asked.state is not None:
        query = query.where(table.state == asked.state.value)
    if asked.unresolved:
        query = query.where(table.state != State.RESOLVED.value)
    if asked.since is not None:
        still = or_(table.resolved_at.is_(None), table.resolved_at >= asked.since)
        query = query.where(or_(table.opened_at >= asked.since, still))
    if asked.until is not None:
        query = query.where(table.opened_at < asked.until)
    if asked.outcome is not None:
        query = query.where(table.outcome == asked.outcome)
    if asked.method is not None:
        query = query.where(table.method == asked.method)
    if asked.story is not None:
        query = query.where(table.story == asked.story)
    if asked.severity is not None:
        # Keys are sorted, written without spaces, and stand once in a document. Those of the
        # first days have none and mean `info`.
        written = {s: table.document.contains(f'"severity":"{s.value}"') for s in Severity}
        others = [~written[s] for s in Severity if s is not asked.severity]
        query = query.where(
            *(others if asked.severity is Severity.INFO else [written[asked.severity]])
        )
    if asked.after is not None:
        same_time = and_(table.opened_at == asked.after[0], table.id < asked.after[1])
        query = query.where(or_(table.opened_at < asked.after[0], same_time))
    return query


def found(connection: Connection, asked: IncidentQuery) -> list[Incident]:
    """See `Store.incidents`."""
    query, words = _question(asked), asked.words
    if not words:
        return list(_incidents(connection, query.limit(asked.limit)))
    for part in (part for word in words for part in _plain(word)):
        query = query.where(tables.incidents.c.document.icontains(part, autoescape=True))
    mentioning = (i for i in _incidents(connection, query) if mentions(i, words))
    return list(islice(mentioning, asked.limit))


def _incidents(connection: Connection, query: Select[Any]) -> Iterator[Incident]:
    for document in connection.execute(query).scalars():
        yield documents.incident_from(documents.loads(document))


def _plain(word: str) -> list[str]:
    """The parts of a word that stand in a JSON document as they are, whatever the database folds.

    An attribute and its value do not stand side by side there.
    """
    return re.findall(r"[A-Za-z0-9_.:-]+", word)
