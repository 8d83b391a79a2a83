"""Incidents of one outage are one story."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Every older incident is a story of its own."""
    op.add_column("incidents", sa.Column("story", sa.String(length=200), nullable=True))
    op.execute("UPDATE incidents SET story = id")
    op.create_index("incidents_story", "incidents", ["story"])
