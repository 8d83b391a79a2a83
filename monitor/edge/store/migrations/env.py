"""Alembic runs this file for every command; see `monitor.edge.store.migrations`."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context

from monitor.edge.store import tables


def _render(kind: str, item: Any, autogenerate: Any) -> str | Literal[False]:
    if kind == "type" and isinstance(item, tables.Instant):
        autogenerate.imports.add("from monitor.edge.store.tables import Instant")
        return "Instant()"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
    render_as_batch=True,  # SQLite cannot change a column: Alembic copies the table
    render_item=_render,
)
context.run_migrations()
