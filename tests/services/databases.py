"""A real PostgreSQL, started by the tests on a free port and stopped by them."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.services.brokers import TOOLS, brought_libraries, cannot, free_port


class Postgres:
    """A server without a database; every test makes its own.

    A missing server skips the test, with the reason; on CI it fails.
    """

    def __init__(self) -> None:
        places = (Path("/usr/lib/postgresql"), TOOLS / "usr/lib/postgresql")
        found = [programs for place in places for programs in sorted(place.glob("*/bin"))[-1:]]
        if not found:
            cannot("no PostgreSQL server (Debian package postgresql)")
        if find_spec("psycopg") is None:
            cannot("psycopg is not installed (extra postgres)")
        self._programs = found[0]
        self._port = free_port()
        self.folder = tempfile.mkdtemp(prefix="least-monitor-pg-")
        self._names = itertools.count()
        # It refuses to run as root.
        self._user = None
        if os.getuid() == 0:
            known = {account.pw_name for account in pwd.getpwall()}
            self._user = "postgres" if "postgres" in known else "nobody"
            shutil.chown(self.folder, self._user)
        self._environment = dict(os.environ)
        if found[0].is_relative_to(TOOLS):
            self._environment["LD_LIBRARY_PATH"] = brought_libraries()
        try:
            self._run("initdb", "--username=monitor", "--auth=trust", "--no-sync")
        except OSError as error:  # nobody but root may look into the folder, for one
            shutil.rmtree(self.folder)
            cannot(f"{self._user or 'this user'} cannot start PostgreSQL: {error}")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", f"{self.folder}/data", *arguments]
        with Path(self.folder, "output").open("ab") as log:  # a pipe would stay open with it
            subprocess.run(
                command,
                user=self._user,
                cwd="/",
                env=self._environment,
                check=True,
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        """On the same port as before."""
        options = f"-p {self._port} -h 127.0.0.1 -k {self.folder} -F"
        self._run("pg_ctl", "start", "--wait", "-o", options, "-l", f"{self.folder}/log")

    def stop(self) -> None:
        """At once, as in a power cut."""
        if Path(self.folder, "data/postmaster.pid").exists():  # a test may have stopped it
            self._run("pg_ctl", "stop", "-m", "immediate")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def server(self) -> str:
        """User, host and port."""
        return f"monitor@127.0.0.1:{self._port}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Outside any transaction."""
        import psycopg

        url = f"postgresql://{self.server}/{database}"
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def database(self) -> str:
        """The URL of a new, empty one."""
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{self.server}/{name}"
