"""Kill -9 at random instants: every row is counted once, every incident told, none invented.

The short run is part of every test run; ``make soak`` sets SOAK to the number of kills of the
long one. A failure prints the seed: ``SEED=… pytest tests/services/test_chaos.py`` repeats it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from monitor.config import load
from monitor.domain import Notification
from monitor.edge.documents import time_text
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.store import Store, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.pipeline import Pipeline
from tests.services.bookings import configuration
from tests.services.chaos_host import TRAPS
from tests.services.daemons import ROOT, TICKS, Logs, rows_and_incidents
from tests.services.light import without_least

pytestmark = [pytest.mark.service, pytest.mark.slow]

SOAK = int(os.environ.get("SOAK", "0"))
"""Kills of the long run; 0 is the short one of CI."""
ROWS = int(os.environ.get("SOAK_ROWS", "2000000"))
"""Of the long run."""

Told = Counter[tuple[str, str, str]]
"""(incident, change, time) → how often it arrived."""


class Receiver:
    """A local address that takes webhooks."""

    def __init__(self) -> None:
        self.told: Told = Counter()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.told[(body["incident"]["id"], body["change"], body["at"])] += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Recorder:
    """Hears of everything in an undisturbed run."""

    name = "1-webhook"

    def __init__(self) -> None:
        self.told: Told = Counter()

    def send(self, notification: Notification) -> None:
        at = time_text(notification.at)
        self.told[(notification.incident.id, notification.change.value, at)] += 1


class Host:
    """The process that forks daemons."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.chaos_host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"LEAST_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )

    def launch(self, config: Path, trap: str | None = None, hit: int = 0) -> int:
        """The number of a new daemon's process."""
        order = {"config": str(config), "log": str(self.log), "trap": trap, "hit": hit}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self._answer()["process"])

    def ended(self) -> int:
        """Wait for its end: the exit status, or minus the signal."""
        return int(self._answer()["ended"])

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the host has died"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    yield listening
    listening.server.shutdown()
    listening.server.server_close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "daemons.log")
    yield made
    made.stop()


def undisturbed(logs: Logs, folder: Path) -> tuple[Any, Any, Told]:
    """Rows, incidents and what is told when nothing happens."""
    path = configuration(
        f'[source]\npaths = ["{logs.logs}/bookings-*"]', folder / "undisturbed", TICKS
    )
    config, store, recorder = load(path, {}), MemoryStore(), Recorder()
    outbox = Outbox(store, [recorder])
    with without_least():
        Pipeline(config, store, Metrics(), outbox.names, lambda: datetime.now(UTC)).poll()
    outbox.deliver()
    return *rows_and_incidents(store, config), recorder.told


def quiet(store: Store, logs: Logs) -> bool:
    """Everything is diagnosed, and everybody told."""
    saved = store.load()
    last = max(saved.slices, default=None)
    return (
        last is not None
        and last >= logs.at(logs.slices - 2)
        and not [count for count in store.outbox() if count.status == "pending"]
    )


def storm(logs: Logs, host: Host, config: Path, dice: random.Random, kills: int) -> Counter[str]:
    """Kill after kill while rows flow; how often each trap has closed."""
    closed: Counter[str] = Counter()
    for number in range(kills):
        logs.appear(max(2, logs.slices * (number + 1) // (kills + 1)))
        # Half by traps, at exact places; half by the clock, wherever it happens to be.
        trap = dice.choice(sorted(TRAPS)) if dice.random() < 0.5 else None
        process = host.launch(config, trap, hit=dice.choice((1, 1, 2, 3)))
        patience = dice.uniform(0.02, 1.2)
        killer = threading.Timer(patience, kill, [process])
        killer.start()
        ended = host.ended()
        killer.cancel()
        killer.join()
        assert ended == -signal.SIGKILL, host.log.read_text()[-4000:]
        closed[trap or "by the clock"] += 1
    return closed


def kill(process: int) -> None:
    with suppress(ProcessLookupError):  # the trap was faster
        os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_kill_9_at_random_instants_changes_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, host: Host, receiver: Receiver
) -> None:
    seed = int(os.environ.get("SEED", "20261128"))
    dice = random.Random(f"{seed} {kind}")
    share = 0.75 if kind == "sqlite" else 0.25
    kills = round(SOAK * share) if SOAK else {"sqlite": 12, "postgres": 6}[kind]
    url = "" if kind == "sqlite" else request.getfixturevalue("postgres").database()
    slices = 480 if SOAK else 60
    rows_per_day = int(ROWS * share / (slices / 48)) if SOAK else 6_000
    logs = Logs(tmp_path, slices, rows_per_day, url)
    config = logs.configuration(
        "live", 0, f'[[notifiers]]\nkind = "webhook"\nurl = "{receiver.url}"'
    )
    print(f"SEED={seed}, {kills} kills, {rows_per_day * slices // 48} rows")

    began = time.monotonic()
    closed = storm(logs, host, config, dice, kills)
    logs.appear(logs.slices)
    process = host.launch(config)
    store = open_store(logs.url)
    deadline = time.monotonic() + (600 if SOAK else 60)
    while not quiet(store, logs):
        assert time.monotonic() < deadline, host.log.read_text()[-4000:]
        time.sleep(0.1)
    store.close()
    os.kill(process, signal.SIGTERM)
    assert host.ended() == 0
    print(f"{kills} kills in {time.monotonic() - began:.0f} s: {dict(sorted(closed.items()))}")

    rows, incidents, told = undisturbed(logs, tmp_path)
    assert incidents, "a run without incidents proves little"
    assert told, "so does one without news"
    held_rows, held_incidents = logs.held(load(config, {}))
    assert held_rows == rows
    assert held_incidents == incidents
    assert set(receiver.told) == set(told), "each told at least once, and nothing else"
