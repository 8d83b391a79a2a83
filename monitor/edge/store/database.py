"""A connection to SQLite or PostgreSQL: opened, set up, and its troubles put into plain words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from monitor.edge.store import StoreError, StoreFailedError, Trouble
from monitor.edge.store.errors import StoreMissingError

_WRITER_LOCK = 0x1EA57
"""PostgreSQL advisory lock: one writer at a time, as SQLite has it anyway."""

_POSTGRES = {
    "connect_timeout": 10,
    # A database made where no locale was set is of SQL_ASCII, and psycopg would hand out bytes.
    "client_encoding": "utf8",
    # A host that vanished without a word is noticed in seconds, not after a quarter of an hour.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 5,
    "tcp_user_timeout": 15_000,
    # A leader stopped in the middle of a commit must not keep the next one out: the server
    # takes its transaction back.
    "options": "-c idle_in_transaction_session_timeout=10s -c lock_timeout=20s",
}
"""For libpq."""


class Database:
    """Transactions on one database.

    Args:
        url: an SQLAlchemy URL, or the path of an SQLite file.
        busy_timeout_seconds: how long to wait for another process to finish writing (SQLite).
        create: make a missing SQLite file.

    Raises:
        StoreError: it cannot be opened; by every method, when the database fails.
    """

    def __init__(self, url: str, busy_timeout_seconds: float = 10.0, create: bool = True) -> None:
        if "://" not in url:
            url = f"sqlite:///{url}"
        try:
            parsed = make_url(url)
            self.name = parsed.render_as_string(hide_password=True)
            self.sqlite = parsed.get_backend_name() == "sqlite"
            if not self.sqlite and parsed.get_backend_name() != "postgresql":
                raise StoreError(f"store {self.name}: only SQLite and PostgreSQL are known")
            self.path: Path | None = None
            """Of an SQLite file."""
            self.address = self.name.replace("+psycopg2", "").replace("+psycopg", "")
            """As other programs know it; without the password."""
            if self.sqlite:
                if parsed.database in (None, "", ":memory:"):
                    raise StoreError("use 'memory:' for a store that forgets at exit")
                path = Path(str(parsed.database))
                if not create and not path.exists():
                    raise StoreMissingError(
                        f"there is no store at {path.absolute()}: nothing has run with it yet, "
                        "or [store] url is relative to another directory"
                    )
                self.path = path
                path.parent.mkdir(parents=True, exist_ok=True)
                if create:
                    keep_private(path)
                timeout = {"timeout": busy_timeout_seconds}
                self._engine = create_engine(parsed, connect_args=timeout)
            else:
                # A server may restart between two ticks.
                self._engine = create_engine(
                    parsed,
                    pool_pre_ping=True,
                    connect_args=_POSTGRES if parsed.get_driver_name().startswith("psyco") else {},
                )
        except (ArgumentError, NoSuchModuleError) as error:
            raise StoreError(f"[store] url is not understood: {error}") from error
        except ModuleNotFoundError as error:
            raise StoreError(
                f"store {self.name}: this needs the Python package {error.name!r}; "
                "for PostgreSQL install least-monitor[postgres]"
            ) from error
        except OSError as error:
            raise StoreError(f"cannot make the folder of the store: {error}") from error
        self._file: tuple[int, int] | None = None
        """Device and number of the file that is open; None until one is."""
        if self.sqlite:
            _prepare_sqlite(self._engine)

    def _check_file(self) -> None:
        """Connections go on with a file that was deleted: what they write is gone with them.

        Raises:
            StoreFailedError: the file at the path is no longer the one that was opened.
        """
        if self.path is None:
            return
        try:
            found = self.path.stat()
            now = found.st_dev, found.st_ino
        except FileNotFoundError:
            now = None
        except OSError:
            return  # the driver says better what is wrong
        if self._file is None:
            self._file = now
        elif now != self._file:
            what = "is gone" if now is None else "is another one than before"
            raise StoreFailedError(
                f"store {self.name}: the file {what}; nothing is written any more. Put it back, or "
                "restart the daemon: it goes on with what is there, or makes a new one and reads "
                "the source again",
                Trouble.AWAY,
            )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent moment; waits for nobody."""
        self._check_file()
        with self._translated(), self._engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: committed at the end, taken back on an exception. One at a time."""
        # SQLite must take its write lock at the start: a reader that turns writer in the
        # middle is refused at once instead of waiting.
        self._check_file()
        with self._translated(), self._engine.connect() as connection:
            connection = connection.execution_options(write=True)
            if not self.sqlite:
                # What is read behind the lock must be what the writer before has left.
                connection = connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                if not self.sqlite:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"))
                yield connection

    @contextmanager
    def restructure(self) -> Iterator[Connection]:
        """A `write` that may rebuild tables, as SQLite needs it to change a column."""
        with self._translated(), self._engine.connect() as connection:
            if self.sqlite:
                # Dropping the old copy of a table must not touch the rows that point to it;
                # inside a transaction the switch has no effect.
                _foreign_keys(connection, "OFF")
            try:
                connection = connection.execution_options(write=True)
                with connection.begin():
                    if not self.sqlite:
                        connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"))
                    yield connection
                    if self.sqlite:
                        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                        assert broken is None, f"a migration left a row without its other: {broken}"
            finally:
                if self.sqlite:
                    _foreign_keys(connection, "ON")

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """Outside any transaction, for what cannot be done in one."""
        with self._translated(), self._engine.connect() as connection:
            if self.sqlite:
                yield connection.execution_options(autocommit=True)
            else:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise _failure(self.name, error) from error

    def close(self) -> None:
        """Release files and connections."""
        self._engine.dispose()


def keep_private(path: Path) -> None:
    """A file that its owner alone may read; what SQLite puts beside it takes after it.

    It is made if it is not there. One that belongs to somebody else is left as it is.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            with suppress(OSError):
                if one.stat().st_mode & 0o077:
                    one.chmod(one.stat().st_mode & 0o700)
    except OSError:
        return  # SQLite says better what is wrong


def _foreign_keys(connection: Connection, switch: str) -> None:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    raw.execute(f"PRAGMA foreign_keys = {switch}")


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # Python's own transaction handling would begin late and end early; we do it below.
        connection.isolation_level = None
        for pragma in (
            "page_size = 16384",  # blobs of 100 KB; counts only for a new file
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
            "journal_size_limit = 67108864",  # one long reader must not leave a huge log behind
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("autocommit", False):
            return
        write = connection.get_execution_options().get("write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _failure(name: str, error: SQLAlchemyError) -> StoreFailedError:
    """What went wrong and what to do, from the driver's own words."""
    words = " ".join(str(getattr(error, "orig", None) or error).split())
    for trouble, fix, signs in _ADVICE:
        if any(sign in words for sign in signs):
            return StoreFailedError(f"store {name}: {words}. {fix}", trouble)
    away = isinstance(error, DBAPIError) and error.connection_invalidated
    return StoreFailedError(f"store {name}: {words}", Trouble.AWAY if away else Trouble.OTHER)


_ADVICE: tuple[tuple[Trouble, str, tuple[str, ...]], ...] = (
    (
        Trouble.LOCKED,
        "Another process is writing to it: is a second least-monitor running, or a backup?",
        ("database is locked", "due to lock timeout"),
    ),
    (
        Trouble.DISK_FULL,
        "Nothing of this tick was written. Free some space or shorten the retention; the "
        "monitor goes on from the last commit",
        ("disk is full", "No space left on device", "could not extend file"),
    ),
    (
        Trouble.DAMAGED,
        "The file is damaged. Restore a backup, or move it away and start afresh: the source "
        "is then read again",
        ("malformed",),
    ),
    (
        Trouble.DAMAGED,
        "The file is not SQLite's (or its start is damaged). Point [store] url to another path",
        ("not a database",),
    ),
    (
        Trouble.READ_ONLY,
        "The file or its folder may not be written: check owner and permissions",
        ("readonly", "in a read-only transaction"),
    ),
    (
        Trouble.READ_ONLY,
        "Check that the folder exists and that this user may write there",
        ("unable to open",),
    ),
    (
        Trouble.OTHER,
        "The disk failed to read or write: check the disk, its quota and its mount",
        ("disk I/O error",),
    ),
    (
        Trouble.AWAY,
        "Is the server up, and are host, port and password right?",
        (
            "could not connect",
            "onnection refused",
            "connection failed",
            "closed the connection",
            "consuming input failed",
            "connection is lost",
            "the database system is",
            "terminating connection",
            "connection timeout",
        ),
    ),
)
