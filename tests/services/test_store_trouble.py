"""The store fails under a running daemon: it says so, loses nothing, and goes on by itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.daemons import Daemon, Logs, launching
from tests.services.databases import Postgres

pytestmark = [pytest.mark.service, pytest.mark.slow]

SLICES = 40


@pytest.fixture
def launched() -> Iterator[Callable[[Logs], Daemon]]:
    with launching(lambda logs: Daemon(logs, "live")) as launch:
        yield launch


def until_in_trouble(daemon: Daemon, trouble: str) -> None:
    series = f'store_failures_total{{trouble="{trouble}"}}'
    daemon.until(trouble, lambda: daemon.metric(series) > 0)
    daemon.until("not ready", lambda: daemon.ready().startswith("store: "))
    daemon.until("down", lambda: daemon.metric("store_up") == 0)
    said = daemon.told("the store does not work")
    assert [entry["trouble"] for entry in said] == [trouble], "once, not at every poll"


def until_whole(daemon: Daemon, logs: Logs) -> None:
    """It has caught up, and holds what an undisturbed run would."""
    daemon.until_ready()
    daemon.until_ticked(logs.slices - 2)
    # a tick is shown before it is committed, and only then the store has worked
    daemon.until("told", lambda: daemon.told("the store works again"))
    assert daemon.metric("store_up") == 1
    daemon.stop()
    assert logs.held(daemon.config) == logs.undisturbed()


def test_sqlite_full_then_locked_then_read_only(
    tmp_path: Path, launched: Callable[[Logs], Daemon]
) -> None:
    logs = Logs(tmp_path, SLICES, 6_000)
    logs.appear(12)
    daemon = launched(logs)
    daemon.until_ticked(10)

    # A full file system needs root, and a limit on pages is each connection's own: here the
    # database refuses in the same words. tests/contracts/test_stores.py has a file that is full.
    path = tmp_path / "store.db"
    other = sqlite3.connect(path, isolation_level=None, timeout=20)
    for trouble, words in (("disk_full", "database or disk is full"), ("read_only", "readonly")):
        before = daemon.metric("ticks_total")
        other.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON slices "
            f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
        )
        logs.appear(logs.written + 6)
        series = f'store_failures_total{{trouble="{trouble}"}}'
        daemon.until(trouble, lambda series=series: daemon.metric(series) > 0)
        daemon.until("not ready", lambda: daemon.ready().startswith("store: "))
        assert daemon.metric("store_up") == 0
        assert (
            len([e for e in daemon.told("the store does not work") if e["trouble"] == trouble]) == 1
        )
        other.execute("DROP TRIGGER broken")
        daemon.until_ready()
        daemon.until("going on", lambda before=before: daemon.metric("ticks_total") > before)

    # Another program holds the write lock for longer than anybody waits.
    other.execute("BEGIN IMMEDIATE")
    logs.appear(logs.slices)
    locked = 'store_failures_total{trouble="locked"}'
    daemon.until("locked", lambda: daemon.metric(locked) > 0)
    assert "database is locked" in daemon.ready()
    page = daemon.get("/incidents")
    assert page is not None
    assert page.status_code == 200, "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    until_whole(daemon, logs)


def test_postgres_is_away_and_comes_back(
    tmp_path: Path, launched: Callable[[Logs], Daemon]
) -> None:
    server = Postgres()  # of its own: others must not be cut off
    try:
        logs = Logs(tmp_path, SLICES, 6_000, url=server.database(), lease="5s")
        logs.appear(20)
        daemon = launched(logs)
        daemon.until_ticked(18)
        server.stop()
        logs.appear(logs.slices)
        until_in_trouble(daemon, "away")
        time.sleep(6)  # longer than the lease
        healthy = daemon.get("/healthz")
        assert healthy is not None
        assert healthy.status_code == 200, "a restart would not help"
        server.start()
        until_whole(daemon, logs)
    finally:
        server.remove()
