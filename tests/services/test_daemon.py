"""The daemon as operators run it: files appear, it ticks, tells, is scraped, and is killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from monitor.domain import Cause
from monitor.edge.blobs import arrays_from_bytes, slice_from_bytes
from monitor.edge.notifiers.webhook import SIGNATURE, check_signature
from monitor.edge.store import open_store
from monitor.simulation.files import write
from monitor.simulation.plan import Planned
from monitor.simulation.world import SLICE, World
from tests.services.brokers import cannot, free_port
from tests.services.daemons import SMALL, Running, launching

pytestmark = [pytest.mark.service, pytest.mark.slow]

DAYS = 3
SECRET = "a key of the tests"


class Receiver:
    """A local address that takes webhooks."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.forged = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                signature = self.headers[SIGNATURE]
                if check_signature(SECRET, signature, body, datetime.now(UTC)):
                    receiver.heard.append(json.loads(body))
                else:
                    receiver.forged += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    yield listening
    listening.server.shutdown()
    listening.server.server_close()


class Platform:
    """Three days of bookings, half hour by half hour.

    One airline fails on the last evening; another did on the day before.
    """

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.logs.mkdir()
        self.start = datetime(2026, 1, 5, tzinfo=UTC)  # the same days whenever the test runs
        self.slices = DAYS * 48
        world = World(seed=17, rows_per_day=12_000, sizes=SMALL)
        self.airline = world.texts("airline")[0]
        cause = Cause.of(airline=self.airline)
        outage = Planned(
            "outage", "airline_maintenance", self.at(130), self.at(143), "reserve",
            strikes=cause, strength=0.5, accept=(cause,),
        )  # fmt: skip
        past = Cause.of(airline=world.texts("airline")[1])
        over = Planned(
            "over", "airline_maintenance", self.at(64), self.at(72), "reserve",
            strikes=past, strength=0.6, accept=(past,),
        )  # fmt: skip
        self.world = world.having([over, outage])
        self.written = 0
        (folder / "secret").write_text(SECRET)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / "monitor.toml"
        self.config.write_text(
            f"""
            [source]
            paths = ["logs/bookings-*"]
            poll = "200ms"
            [schema]
            time = "time"
            zone = "UTC"
            tiers = ["place", "airline", "fare_source"]
            attributes = [
              {{ name = "agent_office", tier = "place" }},
              {{ name = "departure_city", tier = "place" }},
              {{ name = "arrival_city", tier = "place" }},
              {{ name = "airline", tier = "airline" }},
              {{ name = "fare_source", tier = "fare_source" }},
            ]
            error_code = "error_code"
            outcomes = [
              {{ name = "reserve", when = 'failed_step == "reserve"' }},
              {{ name = "pay", when = 'failed_step == "pay"' }},
            ]
            [detection]
            learning = "1d"
            [learner]
            cold_steps = 40
            [[notifiers]]
            kind = "webhook"
            url = "{receiver.url}"
            secret_file = "secret"
            [http]
            port = {self.port}
            """
        )

    def at(self, number: int) -> datetime:
        return self.start + number * SLICE

    def appear(self, first: int, last: int) -> None:
        """The files of half hours `first` … `last` − 1; odd ones as JSON lines."""
        for number in range(first, last):
            bookings = self.world.slice(self.at(number))
            write(bookings, self.at(number), self.logs, ("parquet", "jsonl")[number % 2])
            self.written += bookings.num_rows

    def stored(self) -> int:
        """Rows in the store: diagnosed, still filling, or set aside."""
        store = open_store(f"sqlite:///{self.folder / 'least-monitor.db'}")
        try:
            saved = store.load()
            rows = sum(slice_from_bytes(b).slice.rows for b in saved.slices.values())
            filling = arrays_from_bytes(saved.state["filling"])
            rows += sum(int(a.sum()) for name, a in filling.items() if name.endswith(".weight"))
            return rows + sum(store.rejected().values())
        finally:
            store.close()


@pytest.fixture
def platform(tmp_path: Path, receiver: Receiver) -> Platform:
    return Platform(tmp_path, receiver)


@pytest.fixture
def launched() -> Iterator[Callable[[Platform], Running]]:
    def start(platform: Platform) -> Running:
        log = platform.folder / "daemon.log"
        return Running(platform.config, log, platform.port, platform.at)

    with launching(start) as launch:
        yield launch


def scraped(url: str, folder: Path, question: str) -> list[dict[str, Any]]:
    """What a real Prometheus answers after it has scraped the daemon."""
    program = shutil.which("prometheus")
    if program is None:
        cannot("prometheus is not installed (Debian package prometheus)")
    port = free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
        "scrape_configs: [{job_name: monitor, static_configs: [{targets: ['"
        + url.removeprefix("http://")
        + "']}]}]\n"
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                answer = httpx2.get(
                    f"http://127.0.0.1:{port}/api/v1/query", params={"query": question}
                ).json()
            except httpx2.TransportError:
                continue
            if found := answer["data"]["result"]:
                return list(found)
        raise AssertionError(f"no answer to {question}")
    finally:
        process.terminate()
        process.wait(20)


def test_a_day_in_the_life_of_the_daemon(
    platform: Platform, receiver: Receiver, launched: Callable[[Platform], Running]
) -> None:
    platform.appear(0, 100)
    daemon = launched(platform)
    daemon.until_ready()
    daemon.until_ticked(98)
    daemon.until("caught up", lambda: daemon.metric("catching_up") == 0)
    over = daemon.get("/api/v1/incidents?state=resolved")
    assert over is not None
    assert over.json()["incidents"], "an outage of yesterday is on record"
    assert receiver.heard == [], "and no news"

    # Files go on appearing, and with them an outage.
    platform.appear(100, platform.slices)
    daemon.until_ticked(platform.slices - 2)
    daemon.until("told", lambda: receiver.heard)
    first = receiver.heard[0]
    assert first["change"] == "opened"
    assert first["incident"]["finding"]["outcome"] == "reserve"
    assert first["incident"]["finding"]["cause"]["airline"] == [platform.airline]
    assert receiver.forged == 0
    assert daemon.metric("slice_errors", outcome="reserve") >= 0
    assert daemon.metric("events_total", result="accepted") == platform.written

    # Its metrics are what Prometheus wants.
    exposition = daemon.get("/metrics")
    assert exposition is not None
    if shutil.which("promtool"):
        judged = subprocess.run(
            ["promtool", "check", "metrics"], input=exposition.text, capture_output=True, text=True
        )
        assert (judged.returncode, judged.stderr) == (0, "")
    (up,) = scraped(platform.url, platform.folder, "least_monitor_slice_rows > 0")
    assert up["metric"]["job"] == "monitor"

    # A late file is folded into its slice.
    late = platform.world.slice(platform.at(120)).slice(0, 25)
    write(late, platform.at(120) + timedelta(minutes=1), platform.logs, "jsonl")
    platform.written += late.num_rows
    daemon.until("late rows in", lambda: daemon.metric("events_total", result="late") == 25)
    shown = daemon.get("/api/v1/incidents")
    assert shown is not None
    assert first["incident"]["id"] in shown.text

    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0, daemon.log.read_text()[-4000:]
    assert time.monotonic() - began < 10
    assert platform.stored() == platform.written


def test_kill_9_loses_and_doubles_nothing(
    platform: Platform, receiver: Receiver, launched: Callable[[Platform], Running]
) -> None:
    platform.appear(0, 24)
    daemon = launched(platform)
    daemon.until_ticked(6)  # in the middle of its work
    daemon.process.kill()
    assert daemon.process.wait(20) == -signal.SIGKILL
    platform.appear(24, 36)
    late = platform.world.slice(platform.at(4))  # which came as Parquet: it is no copy of a file
    write(late, platform.at(4) + timedelta(minutes=1), platform.logs, "jsonl")
    platform.written += late.num_rows
    daemon = launched(platform)
    daemon.until_ticked(34)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0
    assert platform.stored() == platform.written
    assert receiver.heard == []
