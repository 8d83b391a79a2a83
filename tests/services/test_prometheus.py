"""A real Prometheus scrapes the server and answers questions about it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from monitor.domain import (
    Incident,
    State,
)
from monitor.edge.http import serve
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store.memory import MemoryStore
from tests.samples import finding, tick
from tests.services.brokers import cannot

pytestmark = [pytest.mark.service, pytest.mark.slow]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FINDING = finding(
    outcome="pay",
    path=("airline=AC", "pay"),
    score=12.5,
    p_value=1e-9,
    q_value=1e-6,
    observed=40,
    expected=3.5,
    rows=200,
    horizon=timedelta(minutes=30),
    began=NOON,
    rate_before=0.01,
    rate_now=0.2,
)
TICK = tick(
    FINDING,
    seconds={"learn": 1.25},
)


@pytest.fixture
def monitor_url() -> Iterator[str]:
    metrics = Metrics(false_alarms_per_week=1)
    metrics.observe(TICK)
    metrics.incidents([Incident("a", State.OPEN, NOON, NOON, NOON, FINDING, FINDING)])
    handle = serve(LiveState(MemoryStore(), metrics, Status(stage="", diagnosis=TICK)))
    yield handle.url
    handle.stop()


@pytest.fixture
def prometheus_url(monitor_url: str, tmp_path: Path) -> Iterator[str]:
    program = shutil.which("prometheus")
    if program is None:
        cannot("prometheus is not installed (Debian package prometheus)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = monitor_url.removeprefix("http://")
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
        f"scrape_configs: [{{job_name: monitor, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def ask(url: str, question: str) -> list[dict[str, Any]]:
    """The answer to a PromQL query, once there is one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            response = httpx2.get(f"{url}/api/v1/query", params={"query": question})
        except httpx2.TransportError:
            time.sleep(0.1)
            continue
        if response.status_code == 503:  # it listens before it is ready
            time.sleep(0.1)
            continue
        answer = response.json()
        if answer["data"]["result"]:
            found: list[dict[str, Any]] = answer["data"]["result"]
            return found
        time.sleep(0.1)
    raise AssertionError(f"no answer to {question}")


def test_prometheus_scrapes_the_monitor_and_answers_in_promql(prometheus_url: str) -> None:
    assert ask(prometheus_url, "up == 1")
    ratio = ask(
        prometheus_url,
        "least_monitor_errors_total / least_monitor_expected_errors_total",
    )
    assert [(r["metric"]["outcome"], r["value"][1]) for r in ratio] == [("pay", "4")]
    assert ask(prometheus_url, 'least_monitor_incidents{state="open"}')[0]["value"][1] == "1"
    # The two queries of Grafana's node graph panel: an edge's ends are among the nodes.
    nodes = {n["metric"]["id"] for n in ask(prometheus_url, "least_monitor_graph_node_strength")}
    edges = ask(prometheus_url, "least_monitor_graph_edge_weight")
    assert {e["metric"][end] for e in edges for end in ("source", "target")} == nodes
    shown = ask(
        prometheus_url,
        'count_values by (id, source, target) ("mainstat", '
        "round(least_monitor_graph_edge_weight, 0.01))",
    )
    assert {s["metric"]["mainstat"] for s in shown} == {"0.7", "0.4"}
