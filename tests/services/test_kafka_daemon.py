"""The daemon on a real topic: killed, cut off and grown, it holds exactly the topic's rows."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from monitor.config import load
from monitor.domain import Cause
from monitor.edge.metrics import Metrics
from monitor.edge.store import Store, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.pipeline import Pipeline
from monitor.simulation.files import write
from monitor.simulation.plan import Planned
from monitor.simulation.world import SLICE, World
from tests.services.bookings import configuration, expected, records
from tests.services.brokers import Kafka, free_port
from tests.services.daemons import (
    SMALL,
    START,
    TICKS,
    Running,
    launching,
    rows_and_incidents,
)
from tests.services.databases import Postgres

pytestmark = [pytest.mark.service, pytest.mark.slow]

SLICES = 60
SOAK = int(os.environ.get("SOAK", "0"))
AWAY_SECONDS = 600.0 if SOAK else 6.0
"""Of broker, or broker and store; the short one is longer than the lease."""
KILLS = SOAK // 10 or 2
"""Of the whole daemon, which takes seconds to start; test_chaos kills more often."""

FEW_STEPS = f"{TICKS}[learner]\ncold_steps = 40\n"


class Platform:
    """Thirty hours of bookings in a topic; one airline fails towards their end."""

    def __init__(self, broker: Kafka, folder: Path, slices: int = SLICES, url: str = "") -> None:
        self.broker, self.folder, self.slices = broker, folder, slices
        self.url = url or f"sqlite:///{folder / 'live' / 'least-monitor.db'}"
        world = World(seed=23, rows_per_day=12_000, sizes=SMALL)
        cause = Cause.of(airline=world.texts("airline")[0])
        outage = Planned(
            "outage", "airline_maintenance", self.at(42), self.at(54), "reserve",
            strikes=cause, strength=0.5, accept=(cause,),
        )  # fmt: skip
        self.cause, self.world = cause, world.having([outage])
        self.topic = broker.create(f"bookings-{folder.name}", 4, **{"retention.ms": "-1"})
        self.partitions, self.written = 4, 0
        self.port = free_port()
        self.path = configuration(
            f'[source]\nkind = "kafka"\nbootstrap_servers = "{broker.address}"\n'
            f'topics = "{self.topic}"\nstart = "beginning"\npoll = "100ms"',
            folder / "live",
            f'{FEW_STEPS}\n[http]\nport = {self.port}\n[store]\nurl = "{self.url}"\nlease = "5s"',
        )
        self.config = load(self.path, {})

    def at(self, number: int) -> datetime:
        return START + number * SLICE

    def send(self, first: int, last: int, pause: float = 0.0) -> None:
        """Half hours `first` … `last` - 1."""
        for number in range(first, last):
            self.broker.send(self.topic, records(self.world, self.at(number), self.partitions))
            self.written = number + 1
            time.sleep(pause)

    @property
    def store(self) -> Store:
        return open_store(self.url)


@pytest.fixture
def launched() -> Iterator[Callable[..., Running]]:
    def start(platform: Platform, light: bool = False) -> Running:
        """With `light` it does without TensorFlow and learns no graph."""
        log = platform.folder / "daemon.log"
        if not light:
            return Running(platform.path, log, platform.port, platform.at)
        command = [sys.executable, "-m", "tests.services.light"]
        root = {"PYTHONPATH": str(Path(__file__).parents[2])}
        return Running(platform.path, log, platform.port, platform.at, command, root)

    with launching(start) as launch:
        yield launch


def replayed(platform: Platform, folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    """What the same bookings come to when they lie in files and nothing happens."""
    folder.mkdir()
    for number in range(platform.slices):
        at = platform.at(number)
        write(platform.world.slice(at), at, folder, "jsonl")
    path = configuration('[source]\npaths = ["bookings-*"]', folder, FEW_STEPS)
    config, store = load(path, {}), MemoryStore()
    Pipeline(config, store, Metrics(), (), lambda: datetime.now(UTC)).poll()
    return rows_and_incidents(store, config)


def test_kill_9_at_random_instants_changes_neither_rows_nor_incidents(
    kafka: Kafka, tmp_path: Path, launched: Callable[..., Running]
) -> None:
    seed = int(os.environ.get("SEED", "4"))
    dice = random.Random(seed)
    platform = Platform(kafka, tmp_path)
    feeder = threading.Thread(target=platform.send, args=(0, platform.slices, KILLS * 5 / SLICES))
    feeder.start()
    kills = 0
    while kills < KILLS:
        daemon = launched(platform)
        # Starting takes some three seconds: this hits that, the catching up and the ticks.
        deadline = time.monotonic() + dice.uniform(2.0, 9.0)
        while time.monotonic() < deadline and daemon.process.poll() is None:
            time.sleep(0.01)
        daemon.kill()
        kills += 1
    daemon = launched(platform)
    feeder.join()
    daemon.until_ticked(platform.slices - 2)
    daemon.until("read to the end", lambda: daemon.metric("source_state", state="reading") == 1)
    ready = daemon.get("/readyz")
    assert ready is not None
    assert ready.status_code == 200
    daemon.stop()
    rows, incidents = rows_and_incidents(platform.store, platform.config)
    assert rows == expected(platform.world.slice(platform.at(i)) for i in range(SLICES)), seed
    undisturbed_rows, undisturbed = replayed(platform, tmp_path / "files")
    assert rows == undisturbed_rows
    assert [_told(i) for i in incidents] == [_told(i) for i in undisturbed], seed
    assert platform.cause.to_json() in [i["finding"]["cause"] for i in incidents]


def _told(incident: dict[str, Any]) -> dict[str, Any]:
    """An incident in words; sums of floats may differ in their last digits."""

    def tidy(value: Any) -> Any:
        match value:
            case float():
                return float(f"{value:.6g}")
            case dict():
                return {key: tidy(one) for key, one in value.items()}
            case list():
                return [tidy(one) for one in value]
        return value

    found: dict[str, Any] = tidy(incident)
    return found


def test_broker_and_store_away_at_once(tmp_path: Path, launched: Callable[..., Running]) -> None:
    broker, server = Kafka(tmp_path / "broker"), Postgres()
    broker.start()
    try:
        platform = Platform(broker, tmp_path, slices=16, url=server.database())
        platform.send(0, 6)
        daemon = launched(platform, True)
        daemon.until_ticked(4)
        platform.send(6, 10)  # some of it on its way when both go
        server.stop()
        broker.kill()
        daemon.until("the store is away", lambda: daemon.metric("store_up") == 0)
        time.sleep(AWAY_SECONDS)
        healthy = daemon.get("/healthz")
        assert healthy is not None
        assert healthy.status_code == 200, "a restart would not help"
        broker.start()
        platform.send(10, 16)
        server.start()
        daemon.until_ticked(14)
        daemon.until_ready()
        daemon.stop()
        rows, _ = rows_and_incidents(platform.store, platform.config)
        assert rows == expected(platform.world.slice(platform.at(i)) for i in range(16))
    finally:
        broker.kill()
        server.remove()


def test_a_broker_cut_off_and_partitions_added(
    tmp_path: Path, launched: Callable[..., Running]
) -> None:
    broker = Kafka(tmp_path / "broker")
    broker.start()
    try:
        platform = Platform(broker, tmp_path, slices=16)
        platform.send(0, 4)
        daemon = launched(platform, True)
        daemon.until_ticked(2)
        broker.kill()
        daemon.until("away", lambda: daemon.metric("source_state", state="away") == 1)
        time.sleep(AWAY_SECONDS if SOAK else 0.0)
        ready = daemon.get("/readyz")
        assert ready is not None
        assert ready.status_code == 503
        assert "cannot be read" in ready.text
        broker.start()
        platform.send(4, 8)
        daemon.until_ticked(6)
        broker.grow(platform.topic, 6)
        daemon.until(
            "found",
            lambda: daemon.metric("source_idle", partition="5", topic=platform.topic) >= 0,
        )
        platform.partitions = 6
        platform.send(8, 16)
        daemon.until_ticked(14)
        daemon.stop()
        rows, _ = rows_and_incidents(platform.store, platform.config)
        assert rows == expected(platform.world.slice(platform.at(i)) for i in range(16))
        log = [json.loads(line) for line in daemon.log.read_text().splitlines() if line[0] == "{"]
        assert any(line["event"] == "no connection to Kafka" for line in log)
    finally:
        broker.kill()
