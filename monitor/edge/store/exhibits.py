"""Courses and exhibits of incidents in the database: what their pages show."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from monitor.domain import State
from monitor.edge import documents
from monitor.edge.exhibit_documents import exhibit_document, exhibit_from
from monitor.edge.store import tables
from monitor.edge.store.rows import upsert
from monitor.exhibits import Exhibit, Material, Point


def write(connection: Connection, material: Material) -> None:
    """Everything that was gathered since the last commit; its incidents are stored already."""
    course = tables.courses
    for name in sorted(material.anew):
        connection.execute(delete(course).where(course.c.incident == name))
    upsert(
        connection,
        course,
        [
            {"incident": name} | _row(point)
            for name, points in material.series.items()
            for point in points.values()
        ],
    )
    upsert(
        connection,
        tables.totals,
        [
            {"outcome": name} | _row(point)
            for name, points in material.totals.items()
            for point in points.values()
        ],
    )
    upsert(
        connection,
        tables.exhibits,
        [
            {"incident": name, "document": documents.dumps(exhibit_document(exhibit)).decode()}
            for name, exhibit in material.exhibits.items()
        ],
    )


def _row(point: Point) -> dict[str, Any]:
    return {
        "start": point.start,
        "rows": point.rows,
        "observed": point.observed,
        "expected": point.expected,
    }


def course(connection: Connection, incident: str) -> list[Point]:
    """The points of one incident, oldest first."""
    table = tables.courses.c
    query = select(table.start, table.rows, table.observed, table.expected)
    found = connection.execute(query.where(table.incident == incident).order_by(table.start))
    return [Point(*row) for row in found]


def totals(connection: Connection, since: datetime) -> dict[str, list[Point]]:
    """Outcome → points of all rows, oldest first."""
    table = tables.totals.c
    query = select(table.outcome, table.start, table.rows, table.observed, table.expected)
    out: dict[str, list[Point]] = {}
    ordered = query.where(table.start >= since).order_by(table.outcome, table.start)
    for outcome, *point in connection.execute(ordered):
        out.setdefault(outcome, []).append(Point(*point))
    return out


def exhibit(connection: Connection, incident: str) -> Exhibit | None:
    """None for an incident of a release that kept none."""
    table = tables.exhibits.c
    text = connection.scalar(select(table.document).where(table.incident == incident))
    return None if text is None else exhibit_from(documents.loads(text))


def drop(connection: Connection, before: datetime) -> None:
    """Totals, and what is so old of incidents that still go on."""
    connection.execute(delete(tables.totals).where(tables.totals.c.start < before))
    incidents = tables.incidents.c
    going_on = select(incidents.id).where(incidents.state != State.RESOLVED.value)
    table = tables.courses
    old = table.c.incident.in_(going_on) & (table.c.start < before)
    connection.execute(delete(table).where(old))
