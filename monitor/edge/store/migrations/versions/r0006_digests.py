"""Digests of slices, for questions that somebody asks later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.tables import Instant

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """The daemon makes those of older slices, one a commit."""
    op.create_table(
        "digests",
        sa.Column("attribute", sa.String(length=200), nullable=False),
        sa.Column("start", Instant(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attribute", "start"),
    )
