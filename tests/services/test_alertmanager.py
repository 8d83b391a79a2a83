"""An incident's life as a real Alertmanager tells it to its receiver."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from monitor.domain import Cause, Change, Finding, Incident, Method, Notification, Severity, State
from monitor.edge.notifiers.alertmanager import AlertmanagerNotifier
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from tests.services.brokers import TOOLS, cannot

pytestmark = [pytest.mark.service, pytest.mark.slow]

TEMPLATES = TOOLS / "usr/share/prometheus/alertmanager"
"""Where the Alertmanager brought reads them: where it runs."""

OPENED_AT = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=3)
FINDING = Finding(
    method=Method.EXCESS,
    outcome="reserve",
    cause=Cause.of(airline="AC"),
    path=("airline=AC", "reserve"),
    score=112.4,
    p_value=2e-40,
    q_value=0.002,
    observed=440,
    expected=23.2,
    rows=2100,
    horizon=timedelta(hours=1),
    began=OPENED_AT,
    rate_before=0.011,
    rate_now=0.21,
)
OPENED = Incident("a1", State.OPEN, OPENED_AT, OPENED_AT, OPENED_AT, FINDING, FINDING)


class Alertmanager:
    """A real one that can be stopped and started again on the same data."""

    def __init__(self, folder: Path, hook: str) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "alertmanager.yml").write_text(
            "route: {receiver: hook, group_by: [outcome], group_wait: 100ms, "
            "group_interval: 300ms, repeat_interval: 1h}\n"
            f"receivers: [{{name: hook, webhook_configs: [{{url: '{hook}'}}]}}]\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        if program is None:
            cannot("no Alertmanager (Debian package prometheus-alertmanager)")
        here = TEMPLATES if Path(program).is_relative_to(TOOLS) else None
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={self._folder / 'alertmanager.yml'}",
                    f"--storage.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=here,
            )
        wait_for(self._ready)

    def _ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/-/ready").is_success
        except httpx2.TransportError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


def wait_for(done: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@contextmanager
def pager() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What Alertmanager would call in the night, and what it was told."""
    told: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def alerts(message: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((a["labels"]["incident"], a["status"]) for a in message["alerts"])


def test_the_receiver_sees_an_incident_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    store = MemoryStore()

    def tick(*news: tuple[Incident, Change]) -> None:
        at = datetime.now(UTC)
        told_now = tuple(Notification(incident, change, at) for incident, change in news)
        store.commit(
            Work(
                incidents=tuple(incident for incident, _ in news),
                notifications=told_now,
                notifiers=("alertmanager",),
            )
        )
        outbox.deliver()

    with pager() as (hook, told):
        manager = Alertmanager(tmp_path, hook)
        notifier = AlertmanagerNotifier([manager.url], console_url="http://console")
        notifier.every = timedelta(0)
        outbox = Outbox(store, [notifier])
        manager.start()
        try:
            tick((OPENED, Change.OPENED))
            wait_for(lambda: told)

            finer = replace(FINDING, cause=Cause.of(airline="AC", office="BKK"))
            refined = replace(OPENED, finding=finer, latest=finer)
            tick((refined, Change.REFINED))
            store.acknowledge("a1", datetime.now(UTC), "maria", "on it")

            manager.stop()
            manager.start()  # it remembers whom it told, but not what is firing
            outbox.refresh()
            time.sleep(1)
            assert len(told) == 1, "refinement, acknowledgement or the restart rang again"
            shown = httpx2.get(f"{manager.url}/api/v2/alerts").json()
            notes = [(a["annotations"]["cause"], a["annotations"]["state"]) for a in shown]
            assert notes == [("airline=AC & office=BKK", "acknowledged")]

            # A second cause of the same outcome joins the group.
            other = replace(FINDING, cause=Cause.of(airline="MU"), path=("airline=MU", "reserve"))
            second = replace(OPENED, id="b2", finding=other, latest=other)
            tick((second, Change.OPENED))
            wait_for(lambda: len(told) == 2)

            over = {"state": State.RESOLVED, "resolved_at": datetime.now(UTC)}
            tick((replace(refined, **over), Change.RESOLVED))
            wait_for(lambda: len(told) == 3)
            tick((replace(second, **over), Change.RESOLVED))
            wait_for(lambda: len(told) == 4)
            for _ in range(3):
                outbox.refresh()
                time.sleep(0.4)
        finally:
            manager.stop()
            notifier.close()
    assert [(t["status"], alerts(t)) for t in told] == [
        ("firing", [("a1", "firing")]),
        ("firing", [("a1", "firing"), ("b2", "firing")]),
        ("firing", [("a1", "resolved"), ("b2", "firing")]),
        ("resolved", [("b2", "resolved")]),
    ]
    alert = told[0]["alerts"][0]
    assert alert["labels"]["outcome"] == "reserve"
    assert alert["generatorURL"] == "http://console/incidents/a1"
    assert datetime.fromisoformat(alert["startsAt"]) == OPENED_AT
    last = told[2]["alerts"]
    assert {a["annotations"]["cause"] for a in last} == {
        "airline=AC & office=BKK",
        "airline=MU",
    }


def test_an_alertmanager_that_was_away_hears_of_it_once_afterwards(tmp_path: Path) -> None:
    """Away for an hour by a simulated clock: what still burns rings once, what is over never."""
    store = MemoryStore()
    over = replace(OPENED, id="over")
    ended = replace(over, state=State.RESOLVED, resolved_at=OPENED_AT + timedelta(minutes=2))

    def commit(incident: Incident, change: Change, minutes: int) -> None:
        at = OPENED_AT + timedelta(minutes=minutes)
        store.commit(
            Work(
                incidents=(incident,),
                notifications=(Notification(incident, change, at),),
                notifiers=("alertmanager",),
            )
        )

    commit(OPENED, Change.OPENED, 0)
    commit(over, Change.OPENED, 0)
    ahead = timedelta(0)
    with pager() as (hook, told):
        manager = Alertmanager(tmp_path, hook)
        notifier = AlertmanagerNotifier([manager.url])
        notifier.every = timedelta(0)
        outbox = Outbox(store, [notifier], now=lambda: datetime.now(UTC) + ahead)
        for minutes in range(0, 60, 5):
            ahead = timedelta(minutes=minutes)
            assert outbox.deliver() == 0
        commit(replace(OPENED, severity=Severity.CRITICAL), Change.WORSENED, 1)
        commit(ended, Change.RESOLVED, 2)
        manager.start()
        try:
            assert outbox.deliver() == 0  # it waits for its next attempt
            ahead = timedelta(hours=2)
            assert outbox.deliver() == 2
            for _ in range(3):
                outbox.refresh()
                time.sleep(0.4)
        finally:
            manager.stop()
            notifier.close()
    assert [(t["status"], alerts(t)) for t in told] == [("firing", [("a1", "firing")])]
    assert told[0]["alerts"][0]["annotations"]["severity"] == "critical"
    fates = {count.status: count.count for count in store.outbox()}
    assert fates == {"sent": 2, "skipped": 2}
