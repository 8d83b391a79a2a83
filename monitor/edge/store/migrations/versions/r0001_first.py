"""The tables as of Alembic's arrival; databases made before it are taken over as they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.edge.store.migrations import newer
from monitor.edge.store.tables import Instant

revision = "0001"
down_revision = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make everything, unless a release from before Alembic has done so."""
    if sa.inspect(op.get_bind()).has_table("schema_version"):
        _take_over()
        return
    _generation()
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("method", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=200), nullable=False),
        sa.Column("opened_at", Instant(), nullable=False),
        sa.Column("resolved_at", Instant(), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("incidents_newest", "incidents", ["opened_at", "id"])
    op.create_index("incidents_state", "incidents", ["state"])

    op.create_table(
        "position",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "rejected_counts",
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("reason"),
    )
    op.create_table(
        "rejected_records",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("rejected_reason", "rejected_records", ["reason"])

    op.create_table(
        "slices",
        sa.Column("start", Instant(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("start"),
    )
    op.create_table(
        "state",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "audit",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("incident", sa.String(length=200), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident"],
            ["incidents.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_incident", "audit", ["incident"])

    op.create_table(
        "labels",
        sa.Column("incident", sa.String(length=200), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident"],
            ["incidents.id"],
        ),
        sa.PrimaryKeyConstraint("incident"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("notifier", sa.String(length=200), nullable=False),
        sa.Column("incident", sa.String(length=200), nullable=False),
        sa.Column("change", sa.String(length=20), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", Instant(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident"],
            ["incidents.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("notifier", "incident", "change", "at"),
    )
    op.create_index("outbox_due", "outbox", ["status", "notifier", "incident", "id"])
    _start_counting()


def _take_over() -> None:
    version = op.get_bind().scalar(sa.text("SELECT max(version) FROM schema_version"))
    if version > 2:
        raise newer(f"{version} (from before Alembic)")
    if version == 1:
        _generation()
        _start_counting()
    # What is left of the old numbering would let an old release think that it understands.
    op.drop_table("schema_version")


def _generation() -> None:
    op.create_table(
        "generation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("commits", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _start_counting() -> None:
    op.execute("INSERT INTO generation (id, commits) VALUES (1, 0)")
