"""Slices carry a checksum, and damaged ones have a place of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.tables import Instant

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Slices written before have no checksum: they are trusted until they are rewritten."""
    op.create_table(
        "damaged_slices",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("start", Instant(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("slices", sa.Column("checksum", sa.BigInteger(), nullable=True))
