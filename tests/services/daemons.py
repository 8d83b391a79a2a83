"""`least-monitor run` over files as a process of its own: started, asked, stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from monitor.config import Config, load
from monitor.domain import Cause
from monitor.edge.documents import incident_document
from monitor.edge.metrics import Metrics
from monitor.edge.store import Store, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.pipeline import Pipeline
from monitor.simulation.files import write
from monitor.simulation.plan import Planned
from monitor.simulation.structure import Sizes
from monitor.simulation.world import SLICE, World
from tests.services.bookings import configuration, stored
from tests.services.brokers import free_port
from tests.services.light import without_least

COMMAND = Path(sys.executable).with_name("least-monitor")
ROOT = Path(__file__).parents[2]
"""Where a daemon of the tests' own (`tests.services.light`) is found, wherever it runs."""
SMALL = Sizes(airlines=5, fare_sources=6, cities=12, offices=8, codes=16, regions=2)
START = datetime(2026, 1, 5, tzinfo=UTC)
TICKS = """
[window]
length = "12h"
[detection]
learning = "12h"
"""


@dataclass
class Logs:
    """Bookings in files, one for each half hour; one airline fails towards the end."""

    folder: Path
    slices: int = 60
    rows_per_day: int = 12_000
    url: str = ""
    """Of the store; empty is SQLite in the folder."""
    lease: str = "15s"
    more: str = ""
    """More of the configuration."""
    written: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        world = World(seed=23, rows_per_day=self.rows_per_day, sizes=SMALL)
        cause = Cause.of(airline=world.texts("airline")[0])
        last = self.slices - 6
        outage = Planned(
            "outage", "airline_maintenance", self.at(last - 12), self.at(last), "reserve",
            strikes=cause, strength=0.5, accept=(cause,),
        )  # fmt: skip
        self.cause, self.world = cause, world.having([outage])
        self.logs = self.folder / "logs"
        self.logs.mkdir(parents=True)
        self.url = self.url or f"sqlite:///{self.folder / 'store.db'}"

    def at(self, number: int) -> datetime:
        return START + number * SLICE

    def appear(self, last: int) -> None:
        """The half hours up to `last`, as far as they are not there."""
        for number in range(self.written, last):
            at = self.at(number)
            write(self.world.slice(at), at, self.logs, ("parquet", "jsonl")[number % 2])
        self.written = max(self.written, last)

    def configuration(self, name: str, port: int, more: str = "") -> Path:
        return configuration(
            f'[source]\npaths = ["{self.logs}/bookings-*"]\npoll = "100ms"',
            self.folder / name,
            f'{TICKS}\n[store]\nurl = "{self.url}"\nlease = "{self.lease}"\n'
            f"[http]\nport = {port}\n{self.more}\n{more}",
        )

    def held(self, config: Config) -> tuple[Any, list[dict[str, Any]]]:
        """Rows and incidents in the store."""
        return rows_and_incidents(open_store(self.url), config)

    def undisturbed(self) -> tuple[Any, list[dict[str, Any]]]:
        """Rows and incidents when nothing happens."""
        config, store = load(self.configuration("undisturbed", 0), {}), MemoryStore()
        with without_least():
            Pipeline(config, store, Metrics(), ("log",), lambda: datetime.now(UTC)).poll()
        return rows_and_incidents(store, config)


def rows_and_incidents(store: Store, config: Config) -> tuple[Any, list[dict[str, Any]]]:
    """What the store holds, comparable; the store is closed."""
    try:
        incidents = sorted(store.incidents(), key=lambda i: (i.opened_at, i.id))
        return stored(store, config), [incident_document(i) for i in incidents]
    finally:
        store.close()


class Running:
    """`least-monitor run` as a process of its own.

    Args:
        config: its configuration.
        log: where its log is appended.
        port: of its HTTP server.
        at: when slice number n begins.
        command: other than the installed one.
        environment: more of it.
    """

    def __init__(
        self,
        config: Path,
        log: Path,
        port: int,
        at: Callable[[int], datetime],
        command: Sequence[str] = (str(COMMAND),),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.log, self.port, self._at = config, log, port, at
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*command, "run", "-c", str(config), "--log-format", "json"],
                cwd=config.parent,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ
                | {"LEAST_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
                | dict(environment or {}),
            )

    def get(self, path: str, **how: Any) -> httpx2.Response | None:
        try:
            return httpx2.get(f"http://127.0.0.1:{self.port}{path}", timeout=10, **how)
        except httpx2.TransportError:
            return None

    def ready(self) -> str:
        """What /readyz says; empty while nobody answers."""
        answer = self.get("/readyz")
        return "" if answer is None else answer.text

    def metric(self, name: str, **labels: str) -> float:
        """Its value, or NaN as long as there is none."""
        answer = self.get("/metrics")
        wanted = ",".join(f'{k}="{v}"' for k, v in labels.items())
        start = f"least_monitor_{name}{{{wanted}}} " if wanted else f"least_monitor_{name} "
        for line in answer.text.splitlines() if answer else ():
            if line.startswith(start):
                return float(line.removeprefix(start))
        return float("nan")

    def until(self, what: str, condition: Callable[[], object], seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, f"not {what}: {self.log.read_text()[-4000:]}"
            time.sleep(0.05)

    def until_ready(self) -> None:
        self.until("ready", lambda: self.ready() == "ready")

    def until_ticked(self, number: int) -> None:
        """Until slice `number` has been diagnosed, by this process."""
        end = self._at(number + 1).timestamp()
        self.until(f"at slice {number}", lambda: self.metric("last_tick_timestamp_seconds") >= end)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait(20) == -signal.SIGKILL

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()[-4000:]

    def end(self) -> None:
        """Whatever state it is in."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


Started = TypeVar("Started", bound=Running)


@contextmanager
def launching(start: Callable[..., Started]) -> Iterator[Callable[..., Started]]:
    """Starts daemons; none outlives its test."""
    running: list[Started] = []

    def launch(*arguments: Any) -> Started:
        running.append(start(*arguments))
        return running[-1]

    try:
        yield launch
    finally:
        for daemon in running:
            daemon.end()


class Daemon(Running):
    """One process over `Logs`. With `light` it does without TensorFlow and learns no graph."""

    def __init__(self, logs: Logs, name: str, light: bool = True, more: str = "") -> None:
        port = free_port()
        super().__init__(
            logs.configuration(name, port, more),
            logs.folder / f"{name}.log",
            port,
            logs.at,
            [sys.executable, "-m", "tests.services.light"] if light else [str(COMMAND)],
            {"PYTHONPATH": str(Path(__file__).parents[2])},
        )

    @property
    def config(self) -> Config:
        return load(self.path, {})

    def told(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log with this event."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [entry for entry in map(json.loads, lines) if entry.get("event") == event]

    def until(self, what: str, condition: Callable[[], object], seconds: float = 60) -> None:
        super().until(what, condition, seconds)
