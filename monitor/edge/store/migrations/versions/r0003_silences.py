"""Silences: incidents that nobody is to be told of for a while."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.tables import Instant

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """From 0002 to 0003; there is no way back but a backup."""
    op.create_table(
        "silences",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("matchers", sa.Text(), nullable=False),
        sa.Column("starts_at", Instant(), nullable=False),
        sa.Column("ends_at", Instant(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("expired_by", sa.String(length=200), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("silences_end", "silences", ["ends_at"])
