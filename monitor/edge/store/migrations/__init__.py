"""How an older database becomes a newer one: Alembic's revisions, run when a store is opened.

Everything happens in one transaction under the store's write lock, so of two programs that
start at once one migrates and the other finds it done; a migration that fails leaves the
database as it was. Alembic is imported only when there is something to do.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from monitor.edge.store import StoreError

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent

_alembic = threading.Lock()
"""Alembic keeps its context in module globals: one migration at a time in a process."""


def revisions() -> list[str]:
    """The numbers of all known revisions, oldest first, by their files: ``r0001_….py``."""
    return sorted(path.name[1:5] for path in (FOLDER / "versions").glob("r[0-9]*.py"))


def head() -> str:
    """The newest revision: what this program works with."""
    return revisions()[-1]


def current(connection: Connection) -> str | None:
    """The database's revision; None when Alembic has not been here."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def newer(version: str) -> StoreError:
    """The database has a revision that this program does not know."""
    return StoreError(
        f"the store has schema version {version}, this release knows up to {head()}: a newer "
        "least-monitor wrote it. Upgrade this one, or point [store] url to another place"
    )


def check(connection: Connection) -> bool:
    """True when the database is at `head`, False when it needs `migrate`.

    Raises:
        StoreError: a newer release of least-monitor wrote it.
    """
    version = current(connection)
    if version is not None and version not in revisions():
        raise newer(version)
    return version == head()


def configuration(connection: Connection) -> Config:
    """For Alembic's commands, which then use this connection and its transaction."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def migrate(connection: Connection, to: str = "head") -> None:
    """Bring the database to the newest revision, inside the caller's transaction.

    Args:
        connection: of `Database.restructure`.
        to: another revision to stop at; for tests.

    Raises:
        StoreError: a newer release of least-monitor wrote it.
    """
    if check(connection):  # another program was faster
        return
    from alembic import command

    with _alembic:
        command.upgrade(configuration(connection), to)
