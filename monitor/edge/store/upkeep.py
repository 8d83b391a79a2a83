"""Look whether a store is whole, copy it while it is written, and give space back."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from monitor.edge import documents
from monitor.edge.blobs import slice_fault
from monitor.edge.store import StoreError, kept_slices, migrations, tables
from monitor.edge.store.database import Database, keep_private


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    place: str
    """Which table and row."""
    trouble: str


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` saw."""

    revision: str
    rows: dict[str, int]
    """Table → rows."""
    first: datetime | None
    """Start of the oldest slice."""
    last: datetime | None
    unchecked: int
    """Slices without a checksum, of the first releases."""
    findings: tuple[Finding, ...]


def verify(database: Database) -> Report:
    """Read everything, change nothing; beside a running daemon it sees one moment.

    Raises:
        StoreError: it cannot be read at all.
    """
    with database.read() as connection:
        if not migrations.check(connection):
            raise StoreError(
                f"the store has schema version {migrations.current(connection)}, this program "
                f"works with {migrations.head()}: start the monitor once, which brings it there"
            )
        findings = [*_structure(database, connection), *_slices(connection)]
        findings += [*_documents(connection), *_references(connection)]
        edges = connection.execute(
            select(func.min(tables.slices.c.start), func.max(tables.slices.c.start))
        ).one()
        return Report(
            revision=migrations.head(),
            rows={
                str(table.name): connection.scalar(select(func.count()).select_from(table)) or 0
                for table in tables.metadata.sorted_tables
            },
            first=edges[0],
            last=edges[1],
            unchecked=connection.scalar(
                select(func.count())
                .select_from(tables.slices)
                .where(tables.slices.c.checksum.is_(None))
            )
            or 0,
            findings=tuple(findings),
        )


def _structure(database: Database, connection: Connection) -> Iterator[Finding]:
    """Pages and indexes of the file; a server looks after its own."""
    if database.sqlite:
        for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
            if line != "ok":
                yield Finding("the file", line)


def _slices(connection: Connection) -> Iterator[Finding]:
    table = tables.slices.c
    for start in connection.execute(select(table.start).order_by(table.start)).scalars().all():
        query = select(table.data, table.checksum).where(table.start == start)
        data, checksum = connection.execute(query).one()  # one at a time: they may be large
        trouble = kept_slices.fault(data, checksum) or slice_fault(data, start)
        if trouble:
            yield Finding(f"slice {start:%Y-%m-%d %H:%M} UTC", trouble)


def _documents(connection: Connection) -> Iterator[Finding]:
    table = tables.incidents.c
    for name, text_ in connection.execute(select(table.id, table.document).order_by(table.id)):
        try:
            incident = documents.incident_from(documents.loads(text_))
            if incident.id != name:
                yield Finding(f"incident {name}", f"the document is of incident {incident.id}")
        except (ValueError, KeyError, TypeError) as error:
            yield Finding(f"incident {name}", f"its document cannot be read: {error!r}")
    outbox = tables.outbox.c
    for number, text_ in connection.execute(select(outbox.id, outbox.document)):
        try:
            documents.notification_from(documents.loads(text_))
        except (ValueError, KeyError, TypeError) as error:
            yield Finding(f"notification {number}", f"it cannot be read: {error!r}")
    for (text_,) in connection.execute(select(tables.position.c.document)):
        try:
            documents.loads(text_)
        except ValueError as error:
            yield Finding("position of the source", f"it cannot be read: {error!r}")


def _references(connection: Connection) -> Iterator[Finding]:
    """Rows that point to an incident that is not there."""
    for table in (tables.outbox, tables.audit, tables.labels):
        of = tables.incidents.c.id
        lost = (
            select(table.c.incident)
            .distinct()
            .where(~select(of).where(of == table.c.incident).exists())
        )
        for name in connection.execute(lost.limit(20)).scalars():
            yield Finding(table.name, f"a row is of incident {name}, which is not there")


def backup(database: Database, target: Path) -> int:
    """A copy of one moment, made while others read and write; its size in bytes.

    Args:
        database: SQLite.
        target: a file that is not there yet.

    Raises:
        StoreError: another kind of database, or the copy cannot be written.
    """
    if not database.sqlite:
        raise StoreError(
            "a PostgreSQL store is copied by its own tools: "
            f"pg_dump --format=custom --file={target} '{database.address}', "
            "and brought back by pg_restore --clean --if-exists --dbname=…"
        )
    if target.exists():
        raise StoreError(f"{target} is there already; give another name")
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        with database.read() as connection:
            connection.exec_driver_sql("SELECT 1 FROM alembic_version").all()
            raw = connection.connection.dbapi_connection
            assert isinstance(raw, sqlite3.Connection)
            keep_private(part)
            with contextlib.closing(sqlite3.connect(part)) as copy:
                raw.backup(copy)
                # The copy may be moved about alone: no log beside it.
                copy.execute("PRAGMA journal_mode = DELETE")
                (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreError(f"the copy is damaged ({verdict}): so is the store; run `verify`")
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write the copy {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def compact(database: Database) -> tuple[int, int]:
    """Give back what deleted rows took; sizes in bytes before and after.

    SQLite writes the file anew, which needs as much free space as it will have, and keeps
    writers waiting meanwhile.
    """
    before = size(database)
    with database.alone() as connection:
        if database.sqlite:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
        else:
            for table in tables.metadata.sorted_tables:
                connection.execute(text(f"VACUUM (ANALYZE) {table.name}"))
    return before, size(database)


def size(database: Database) -> int:
    """Bytes on disk, an SQLite file's log included."""
    if database.path is not None:
        files = (database.path, Path(f"{database.path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())
    with database.read() as connection:
        return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)
