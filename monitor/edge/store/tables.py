"""The tables as they are now; `migrations` turns those of older releases into them.

Written so that SQLite and PostgreSQL both take it. Documents are JSON text; what is searched
or sorted has a column of its own. Times are microseconds since 1970 in UTC, because ISO texts
with and without a fraction do not sort.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

AT_ONCE = _EPOCH
"""Due whatever the clock says: a replayed day may lie in the past or the future."""


class Instant(TypeDecorator[datetime]):
    """Aware datetime ↔ microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """SQLite keeps a time in its row id only if the column is called INTEGER."""
        kind = Integer() if dialect.name == "sqlite" else BigInteger()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Exact: no floating point on the way."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Inverse of `process_bind_param`.

        What lies beyond the calendar, as an older release may have stored it, is its end: one row
        must not keep all others from being read.
        """
        if value is None:
            return None
        return _EPOCH + min(max(value, _FIRST), _LAST) * _MICROSECOND


_Serial = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

generation = Table(
    "generation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # Ticks committed so far: tells a writer that another one has been here.
    Column("commits", BigInteger, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("owner", String(200), nullable=False),
    # Empty: the last leader has resigned.
    Column("token", String(200), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Instant, nullable=False),
)

slices = Table(
    "slices",
    metadata,
    Column("start", Instant, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    # CRC-32 of the data; none on slices of the first releases.
    Column("checksum", BigInteger),
)

# Some slices in a row, summed up; the attribute is empty where it is every value in every slice.
digests = Table(
    "digests",
    metadata,
    Column("attribute", String(200), primary_key=True),
    Column("start", Instant, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

damaged_slices = Table(
    "damaged_slices",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("start", Instant, nullable=False),
    Column("reason", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

state = Table(
    "state",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

position = Table(
    "position",
    metadata,
    # One source a store, so one row.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("state", String(20), nullable=False),
    Column("method", String(20), nullable=False),
    Column("outcome", String(200), nullable=False),
    Column("opened_at", Instant, nullable=False),
    Column("resolved_at", Instant),
    Column("document", Text, nullable=False),
    # Id of the first incident of the same outage.
    Column("story", String(200)),
    Index("incidents_story", "story"),
    Index("incidents_newest", "opened_at", "id"),
    Index("incidents_state", "state"),
)


def _incident() -> Column[str]:
    return Column("incident", String(200), ForeignKey("incidents.id"), nullable=False)


audit = Table(
    "audit",
    metadata,
    Column("id", _Serial, primary_key=True),
    _incident(),
    Column("at", Instant, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("note", Text, nullable=False),
    Index("audit_incident", "incident"),
)

labels = Table(
    "labels",
    metadata,
    Column("incident", String(200), ForeignKey("incidents.id"), primary_key=True),
    Column("verdict", String(20), nullable=False),
)


def _points() -> list[Column[Any]]:
    return [
        Column("start", Instant, primary_key=True, autoincrement=False),
        Column("rows", BigInteger, nullable=False),
        Column("observed", BigInteger, nullable=False),
        Column("expected", Double, nullable=False),
    ]


# Slice by slice: rows of an incident's cause, and all rows of an outcome.
courses = Table(
    "courses",
    metadata,
    Column("incident", String(200), ForeignKey("incidents.id"), primary_key=True),
    *_points(),
)

totals = Table("totals", metadata, Column("outcome", String(200), primary_key=True), *_points())

exhibits = Table(
    "exhibits",
    metadata,
    Column("incident", String(200), ForeignKey("incidents.id"), primary_key=True),
    Column("document", Text, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("notifier", String(200), nullable=False),
    _incident(),
    Column("change", String(20), nullable=False),
    Column("at", Instant, nullable=False),
    Column("document", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("error", Text, nullable=False),
    # A tick computed twice must not ring twice.
    UniqueConstraint("notifier", "incident", "change", "at"),
    Index("outbox_due", "status", "notifier", "incident", "id"),
)

silences = Table(
    "silences",
    metadata,
    Column("id", String(40), primary_key=True),
    # JSON list of matchers as texts.
    Column("matchers", Text, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("note", Text, nullable=False),
    Column("expired_by", String(200)),
    Index("silences_end", "ends_at"),
)

rejected_counts = Table(
    "rejected_counts",
    metadata,
    Column("reason", String(200), primary_key=True),
    Column("count", BigInteger, nullable=False),
)

rejected_records = Table(
    "rejected_records",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("reason", String(200), nullable=False),
    Column("place", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Index("rejected_reason", "reason"),
)
