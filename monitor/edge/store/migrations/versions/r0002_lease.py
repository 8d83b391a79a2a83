"""Who leads, when several daemons share the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.tables import Instant

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nobody leads yet: the first daemon that starts will."""
    op.create_table(
        "lease",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("token", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
