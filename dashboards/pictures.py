"""Pictures of the dashboards' data: `python -m dashboards.pictures docs/pictures`.

Replays the demo's simulated bookings, lets a real Prometheus scrape every tick, asks it what each
panel would ask, and draws the answers. Half a second stands for half an hour, so an hour in an
expression's window becomes a second. Needs the program `prometheus`.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest

from dashboards.generate import generate
from monitor.commands.demo import _simulate
from monitor.config import load
from monitor.diagnosis import Tick
from monitor.edge.metrics import Metrics
from monitor.edge.store.memory import MemoryStore
from monitor.pipeline import Pipeline

SHOWN_TICKS = 48
TICK_SECONDS = 0.5
COLOURS = ("#2f6fde", "#d3453b", "#1e8a5a", "#b07d12", "#7b4fc9", "#0f8b9d", "#8a5a44", "#5b6470")
MOST_LINES = 8
SEEN_TICKS = 5
"""Of an open incident, before the picture is taken."""

Query = Callable[[str, bool], list[dict[str, Any]]]
"""Expression, and whether only the newest values count → series with their values."""


def main(folder: Path) -> None:
    """Draw all dashboards into `folder`."""
    metrics = Metrics(false_alarms_per_week=1.0)
    with (
        tempfile.TemporaryDirectory() as work,
        _exporter(metrics) as port,
        _prometheus(Path(work), port) as url,
    ):
        begun = time.time()
        _replay(Path(work), metrics)
        ended = time.time()

        def ask(expression: str, instant: bool) -> list[dict[str, Any]]:
            start = max(begun, ended - SHOWN_TICKS * TICK_SECONDS)
            return _ask(url, expression, ended if instant else start, ended)

        for name, text in generate().items():
            picture = _board(json.loads(text), ask)
            (folder / name).with_suffix(".svg").write_text(picture, encoding="utf-8")


def _replay(folder: Path, metrics: Metrics) -> None:
    from monitor.commands import demo

    logs = folder / "logs"
    logs.mkdir()
    _simulate(logs)
    config = folder / "bookings.toml"
    example = (Path(demo.__file__).parents[1] / "demo" / "bookings.toml").read_text("utf-8")
    config.write_text(f'[source]\npaths = ["{logs}/*.parquet"]\nfollow = false\n{example}')
    store = MemoryStore()
    end = demo.SIMULATED_DAYS * 48
    pipeline = Pipeline(load(config, {}), store, metrics, (), lambda: datetime.now(UTC))
    ticks = 0
    seen: dict[str, int] = {}

    def committed(fresh: list[Tick]) -> None:
        nonlocal ticks
        ticks += len(fresh)
        metrics.incidents(store.open_incidents())
        if ticks >= end - SHOWN_TICKS:
            time.sleep(TICK_SECONDS)
        for incident in store.open_incidents():
            seen[incident.id] = seen.get(incident.id, 0) + len(fresh)

    # In the middle of the incident, as one would see it in the night.
    pipeline.stopping = lambda: max(seen.values(), default=0) >= SEEN_TICKS
    pipeline.committed = committed
    pipeline.poll()
    pipeline.close()


@contextmanager
def _exporter(metrics: Metrics) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(generate_latest(metrics.registry))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@contextmanager
def _prometheus(folder: Path, target: int) -> Iterator[str]:
    program = shutil.which("prometheus")
    if program is None:
        sys.exit("no prometheus (Debian package prometheus)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"
        "scrape_configs: [{job_name: least-monitor, static_configs: "
        f"[{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    process = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _ask(url: str, expression: str, start: float, end: float) -> list[dict[str, Any]]:
    """What Grafana would ask, on the picture's own time scale."""
    seconds = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}

    def scaled(window: re.Match[str]) -> str:
        return f"[{max(1500, round(1000 * int(window[1]) * seconds[window[2]]))}ms]"

    expression = re.sub(r"\[(\d+)([mhdw])\]", scaled, expression.replace("$instance", ".*"))
    if start == end:
        path, asked = "query", {"query": expression, "time": f"{end:.3f}"}
    else:
        path = "query_range"
        asked = {"query": expression, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": "0.5"}
    address = f"{url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(address, timeout=20) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return [one if "values" in one else one | {"values": [one["value"]]} for one in found]


def _board(board: dict[str, Any], ask: Query) -> str:
    unit_x, unit_y = 40, 26
    parts, bottom = [], 0
    for panel in board["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * unit_x, place["y"] * unit_y + 30
        width, height = place["w"] * unit_x - 8, place["h"] * unit_y - 8
        bottom = max(bottom, y + height)
        inside = _panel(panel, ask, width, height)
        title = escape(panel["title"])
        parts.append(
            f'<g transform="translate({x},{y})"><rect class="panel" width="{width}" '
            f'height="{height}" rx="4"/><text class="title" x="8" y="16">{title}</text>{inside}</g>'
        )
    width = 24 * unit_x
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 8}" '
        'font-family="system-ui, sans-serif" font-size="11">\n'
        "<style>.panel{fill:#fff;stroke:#d5dae1}.title{font-weight:600;fill:#20262e}"
        ".figure{font-size:26px;fill:#20262e}.note{fill:#5b6470}polyline{fill:none;"
        "stroke-width:1.5}</style>\n"
        f'<rect width="{width}" height="{bottom + 8}" fill="#f4f6f8"/>\n'
        f'<text x="8" y="20" font-size="15" font-weight="700">{escape(board["title"])}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(panel: dict[str, Any], ask: Query, width: int, height: int) -> str:
    answers = [(t, ask(t["expr"], bool(t.get("instant")))) for t in panel["targets"]]
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    if panel["type"] == "stat":
        series = answers[0][1]
        value = float(series[0]["values"][-1][1]) if series else float("nan")
        text = _number(value, unit)
        return f'<text class="figure" x="8" y="{height - 18}">{text}</text>'
    if panel["type"] in ("table", "nodeGraph"):
        return _rows(answers, height)
    return _lines(answers, width, height, unit)


def _number(value: float, unit: str) -> str:
    if value != value:
        return "–"
    if unit == "percentunit":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def _rows(answers: list[tuple[dict[str, Any], list[dict[str, Any]]]], height: int) -> str:
    """What a table or a graph is made of, at the end: one line a row."""
    rows: dict[str, list[str]] = {}
    for target, series in answers:
        latest = max((one["values"][-1][0] for one in series), default=0)
        for one in series:
            labels = one["metric"]
            if one["values"][-1][0] < latest:
                continue  # gone by then
            key = " ".join(
                labels[name]
                for name in ("incident", "title", "subtitle", "outcome", "id", "source", "target")
                if labels.get(name)
            )
            shown = labels.get("mainstat") or f"{float(one['values'][-1][1]):,.4g}"
            rows.setdefault(key, []).append(f"{target['refId']} {shown}")
    lines = [f"{key}:  {',  '.join(values)}" for key, values in rows.items()]
    most = (height - 28) // 14
    return "".join(
        f'<text class="note" x="8" y="{34 + 14 * i}">{escape(line[:110])}</text>'
        for i, line in enumerate(lines[:most])
    )


def _lines(
    answers: list[tuple[dict[str, Any], list[dict[str, Any]]]], width: int, height: int, unit: str
) -> str:
    lines = [(target.get("legendFormat", ""), one) for target, found in answers for one in found]
    points = [[(at, float(v)) for at, v in one["values"]] for _, one in lines]
    finite = [(at, v) for line in points for at, v in line if abs(v) < float("inf")]
    if not finite:
        return f'<text class="note" x="8" y="{height // 2}">no series: nothing of the kind</text>'
    left, top, bottom = 52, 26, height - 32
    first, last = min(at for at, _ in finite), max(at for at, _ in finite)
    low, high = min(0.0, min(v for _, v in finite)), max(v for _, v in finite)
    high = high if high > low else low + 1

    def place(at: float, v: float) -> str:
        x = left + (width - left - 8) * (at - first) / max(last - first, 1e-9)
        return f"{x:.0f},{bottom - (bottom - top) * (v - low) / (high - low):.0f}"

    drawn = []
    for i, line in enumerate(points[:MOST_LINES]):
        path = " ".join(place(at, v) for at, v in line if abs(v) < float("inf"))
        drawn.append(f'<polyline stroke="{COLOURS[i % len(COLOURS)]}" points="{path}"/>')
        labels = lines[i][1]["metric"]
        legend = _legend(lines[i][0], labels)
        x, y = left + (i % 4) * (width - left) // 4, height - 18 + 12 * (i // 4)
        drawn.append(
            f'<text x="{x}" y="{y}" fill="{COLOURS[i % len(COLOURS)]}">{escape(legend[:24])}</text>'
        )
    axis = (
        f'<text class="note" x="4" y="{top + 6}">{_number(high, unit)}</text>'
        f'<text class="note" x="4" y="{bottom}">{_number(low, unit)}</text>'
    )
    return axis + "".join(drawn)


def _legend(form: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), form)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
