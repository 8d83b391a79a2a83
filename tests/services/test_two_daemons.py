"""Two daemons on one store: one leads, the other stands by, and nothing is diagnosed twice."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.services.daemons import COMMAND, Daemon, Logs
from tests.services.databases import Postgres

pytestmark = [pytest.mark.service, pytest.mark.slow]

TOKEN = "a token of the tests"


@pytest.fixture
def logs(postgres: Postgres, tmp_path: Path) -> Logs:
    # On SQLite: the fence in tests/contracts/test_stores.py, restarts in test_chaos.py.
    return Logs(tmp_path, slices=40, rows_per_day=6_000, url=postgres.database(), lease="5s")


@pytest.fixture
def launched(logs: Logs) -> Iterator[Callable[[str], Daemon]]:
    """Starts daemons; none outlives its test."""
    running: list[Daemon] = []
    token = logs.folder / "token"
    token.write_text(TOKEN)
    logs.more = f'token_file = "{token}"'

    def launch(name: str) -> Daemon:
        running.append(Daemon(logs, name))
        return running[-1]

    yield launch
    for daemon in running:
        with suppress(ProcessLookupError):
            daemon.process.send_signal(signal.SIGCONT)
        daemon.end()


def ticks(*daemons: Daemon) -> list[str]:
    """Ends of all slices that were diagnosed and stored, by the log of each."""
    return [entry["at"] for daemon in daemons for entry in daemon.told("tick")]


def acknowledge(daemon: Daemon, incident: str) -> httpx2.Response:
    return httpx2.post(
        f"http://127.0.0.1:{daemon.port}/api/v1/incidents/{incident}/acknowledge",
        json={"actor": "maria"},
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def test_the_standby_takes_over_when_the_leader_is_killed(
    logs: Logs, launched: Callable[[str], Daemon]
) -> None:
    logs.appear(20)
    leader = launched("first")
    leader.until_ticked(18)
    standby = launched("second")
    standby.until("standing by", lambda: "standby: " in standby.ready())
    assert f"process {leader.process.pid} leads" in standby.ready()
    assert (leader.metric("leader"), standby.metric("leader")) == (1, 0)
    said = standby.get("/api/v1/status")
    assert said is not None
    assert said.json()["role"] == "standby"
    for page in ("/", "/incidents", "/graph", "/api/v1/incidents"):
        shown = standby.get(page)
        assert shown is not None
        assert shown.status_code == 200, page
    refused = acknowledge(standby, "any")
    assert refused.status_code == 409
    assert "leads: change it there" in refused.text
    once = subprocess.run(
        [str(COMMAND), "once", "-c", str(leader.path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert once.returncode == 1
    assert "another least-monitor leads on this store" in once.stderr

    leader.kill()
    began = time.monotonic()
    standby.until_ready()
    assert time.monotonic() - began < 30
    logs.appear(logs.slices)
    standby.until_ticked(logs.slices - 2)
    standby.stop()
    assert logs.held(standby.config) == logs.undisturbed()
    seen = ticks(leader, standby)
    assert len(seen) == len(set(seen)), "a tick diagnosed twice"

    # Who starts again shows the newest tick at once, not only after the next one.
    again = launched("third")
    again.until_ready()
    status = again.get("/api/v1/status")
    assert status is not None
    assert status.json()["tick"] is not None
    again.stop()


def test_a_leader_that_was_stopped_can_write_nothing_when_it_wakes(
    logs: Logs, launched: Callable[[str], Daemon]
) -> None:
    logs.appear(20)
    leader = launched("first")
    leader.until_ticked(18)
    standby = launched("second")
    standby.until("standing by", lambda: "standby: " in standby.ready())
    leader.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    logs.appear(logs.slices)
    standby.until_ready()
    assert time.monotonic() - began < 20  # with the default lease ten seconds later
    standby.until_ticked(logs.slices - 2)

    leader.process.send_signal(signal.SIGCONT)
    leader.until("standing by", lambda: "standby: " in leader.ready())
    assert leader.told("leadership lost")
    assert (leader.metric("leader"), standby.metric("leader")) == (0, 1)
    standby.stop()
    leader.until_ready()  # it resigned: the first leads again
    leader.stop()
    assert logs.held(standby.config) == logs.undisturbed()
    seen = ticks(leader, standby)
    assert len(seen) == len(set(seen)), "a tick diagnosed twice"
