"""Readers of console and API while the monitor ticks: `python -m benchmarks.readers --json OUT`.

The daemon's parts in one process, as in the daemon: a session over SQLite that ticks with LEAST,
and the HTTP server; 1,000 incidents in the store. Fifty readers in another process ask for pages
and documents in turn, once without a pause (as fast as two cores give) and once with a second in
between (people and dashboards). A request counts as "during a tick" when a tick or its commit ran
at any moment of it. `/healthz` alone, without ticks, is the row to compare with: the server itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks._bookings import configured
from benchmarks._report import arguments, machine, publish
from benchmarks.tick import _slices
from monitor.domain import Cause, Finding, Incident, Method, Severity, State
from monitor.edge.http import serve
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store import IncidentQuery, Work, open_store
from monitor.learning import LeastLearner
from monitor.session import Session
from monitor.simulation.world import SLICE, World

START = datetime(2026, 1, 5, tzinfo=UTC)
INCIDENTS = 1000
READERS = 50
REST_SECONDS = 1.0


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows-per-day", type=float, default=400_000)
    parser.add_argument("--days", type=float, default=2.25, help="history before the ticks")
    parser.add_argument("--seconds", type=float, default=40, help="of reading, each way")
    asked = parser.parse_args()
    where = machine()
    with TemporaryDirectory() as folder:
        rows, ticks = _measure(Path(folder), asked.rows_per_day, asked.days, asked.seconds)
    title = f"{READERS} readers, {INCIDENTS:,} incidents, {ticks} ticks"
    publish(title, rows, where | {"ticks": ticks}, asked.json)


def _measure(
    folder: Path, rows_per_day: float, days: float, seconds: float
) -> tuple[list[dict[str, Any]], int]:
    config = configured()
    store = open_store(f"sqlite:///{folder / 'monitor.db'}")
    session = Session(config.settings, store)
    monitor = session.monitor
    learner, monitor.learner = monitor.learner, None
    assert isinstance(learner, LeastLearner)
    world, at, waiting = World(7, rows_per_day), START, []
    while at < START + timedelta(days=days):
        for piece in _slices(world, at, config, session.vocabulary):
            session.tick(piece)
        at += SLICE
    for _ in range(24):
        waiting.extend(_slices(world, at, config, session.vocabulary))
        at += SLICE
    monitor.learner = learner
    session.tick(waiting.pop(0))  # fits cold
    session.commit()
    store.commit(Work(incidents=tuple(_incident(i, at) for i in range(INCIDENTS))))
    state = LiveState(store, Metrics(), Status(stage="", started_at=START, method="excess"))
    server = serve(state, token="s3cret")
    host, _, port = server.url.removeprefix("http://").partition(":")
    found = store.incidents(IncidentQuery(limit=40))
    pages = ["/", "/incidents", "/graph", "/silences"]
    documents = ["/api/v1/incidents", "/api/v1/status", "/api/v1/graph", "/metrics"]
    some = [f"/incidents/{i.id}" for i in found[::8]] + [
        f"/api/v1/incidents/{i.id}" for i in found[3::8]
    ]
    spans: list[tuple[float, float]] = []
    fit_seconds: list[float] = []

    def tick() -> None:
        piece = waiting.pop(0)
        began = time.monotonic()
        ticked = session.tick(piece)
        session.commit()
        state.status = replace(state.status, diagnosis=ticked.diagnosis)
        spans.append((began, time.monotonic()))
        fit_seconds.append(ticked.diagnosis.seconds["fit"])

    tick()
    rows = []
    try:
        ways: list[tuple[str, list[str], float, Callable[[], None] | None]] = [
            ("the server alone, no tick", ["/healthz"], 0.0, None),
            ("no pause, no tick", [*pages, *documents, *some], 0.0, None),
            ("no pause", [*pages, *documents, *some], 0.0, tick),
            ("a second's pause", [*pages, *documents, *some], 1.0, tick),
        ]
        for name, paths, pause, work in ways:
            spans.clear()
            before = len(fit_seconds)
            length = seconds if work else seconds / 4
            answers = _read(host, int(port), paths, pause, length, work, waiting)
            during = [any(b < e2 and e > b2 for b2, e2 in spans) for b, e, *_ in answers]
            chosen = (
                answers if work is None else [a for a, d in zip(answers, during, strict=True) if d]
            )
            assert {code for *_, code in answers} == {200}
            rows.append(_row(name, chosen, length))
            if work:
                row = rows[-1]
                row["tick s"] = float(np.mean([e - b for b, e in spans]))
                row["fit s"] = float(np.mean(fit_seconds[before:]))
    finally:
        server.stop()
        store.close()
    return rows, len(fit_seconds)


def _read(
    host: str,
    port: int,
    paths: list[str],
    pause: float,
    seconds: float,
    work: Callable[[], None] | None,
    waiting: list[Any],
) -> list[tuple[float, float, str, int]]:
    asked = {"host": host, "port": port, "paths": paths, "pause": pause, "seconds": seconds,
             "readers": READERS}  # fmt: skip
    command = [sys.executable, "-m", "benchmarks._reading", json.dumps(asked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        over = threading.Event()
        thread = None
        if work is not None:

            def ticking() -> None:
                while not over.wait(REST_SECONDS) and waiting:
                    work()

            thread = threading.Thread(target=ticking)
            thread.start()
        text, _ = client.communicate()
        over.set()
        if thread is not None:
            thread.join()
    assert client.returncode == 0
    return [tuple(row) for row in json.loads(text)]  # type: ignore[misc]


def _row(name: str, answers: list[tuple[float, float, str, int]], length: float) -> dict[str, Any]:
    took = np.array([1000 * (ended - began) for began, ended, *_ in answers])
    return {
        "readers": name,
        "requests": len(took),
        "p50 ms": float(np.median(took)),
        "p99 ms": float(np.quantile(took, 0.99)),
        "max ms": float(took.max()),
        "tick s": float("nan"),
        "fit s": float("nan"),
    }


def _incident(i: int, now: datetime) -> Incident:
    """One of many, of every kind: most are over."""
    opened = now - timedelta(hours=i)
    cause = Cause.of(airline=f"A{i % 37}", office=f"O{i % 101}")
    finding = Finding(
        method=Method.EXCESS, outcome=("reserve", "pay")[i % 2], cause=cause,
        path=(f"airline=A{i % 37}", f"fare_source={i % 9}", ("reserve", "pay")[i % 2]),
        score=20.0 + i % 90, p_value=1e-9, q_value=1e-4, observed=50.0 + i, expected=3.5,
        rows=900, horizon=timedelta(hours=1), began=opened - SLICE, rate_before=0.01, rate_now=0.3,
        chain=(Cause(), cause), codes=("E1",),
        runners_up=tuple((Cause.of(airline=f"B{k}"), 9.0 - k) for k in range(5)),
    )  # fmt: skip
    over = i >= 20
    return Incident(
        f"bench{i:05}", State.RESOLVED if over else State.OPEN, opened, opened, opened, finding,
        finding, resolved_at=opened + timedelta(minutes=45) if over else None, causes=(cause,),
        severity=tuple(Severity)[i % 3],
    )  # fmt: skip


if __name__ == "__main__":
    main()
