"""Courses and exhibits of incidents: what their pages show."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.tables import Instant

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Incidents of before have neither; their pages say so."""

    def points() -> list[sa.Column[object]]:
        return [
            sa.Column("start", Instant(), autoincrement=False, nullable=False),
            sa.Column("rows", sa.BigInteger(), nullable=False),
            sa.Column("observed", sa.BigInteger(), nullable=False),
            sa.Column("expected", sa.Double(), nullable=False),
        ]

    op.create_table(
        "courses",
        sa.Column("incident", sa.String(length=200), nullable=False),
        *points(),
        sa.ForeignKeyConstraint(["incident"], ["incidents.id"]),
        sa.PrimaryKeyConstraint("incident", "start"),
    )
    op.create_table(
        "totals",
        sa.Column("outcome", sa.String(length=200), nullable=False),
        *points(),
        sa.PrimaryKeyConstraint("outcome", "start"),
    )
    op.create_table(
        "exhibits",
        sa.Column("incident", sa.String(length=200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["incident"], ["incidents.id"]),
        sa.PrimaryKeyConstraint("incident"),
    )
