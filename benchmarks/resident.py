"""Memory of the daemon at 10 million rows a day: `python -m benchmarks.resident --json OUT`.

A parent writes the rows as files, and starts a child that is what `least-monitor run` is without
its threads: files → slices → ticks → store. T, T′ and two days of history are full when it is
measured. `--wide` adds attributes and values to the simulated bookings: 12 and some 3,000. The
do-nothing row is the same child before its first row, with everything imported. Linux only.

A few half hours are simulated and repeated at other times: memory is the same, and the rows need
not wait for the simulator.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks._report import arguments, machine, publish

START = datetime(2026, 1, 5, tzinfo=UTC)
CONFIG = Path("examples/bookings/monitor.toml")
HALF_HOUR = timedelta(minutes=30)
DISTINCT = 4
"""Half hours that are simulated."""
WIDE = {"device": 20, "browser": 150, "campaign": 700, "partner": 500, "payment": 30, "fare": 850}
"""Further attributes of `--wide`, and how many values each has; the frequent ones are few."""


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows-per-day", type=float, default=10_000_000)
    parser.add_argument("--slices", type=int, default=2 * 48 + 6, help="half hours in all")
    parser.add_argument("--fits", type=int, default=4, help="LEAST learns in the last ticks")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(child(asked.child, asked.slices, asked.fits)))
        return
    where = machine()
    with TemporaryDirectory() as folder:
        configure(Path(folder), wide=asked.wide)
        write_rows(Path(folder), asked.rows_per_day, asked.slices, wide=asked.wide)
        arguments_ = ["--slices", str(asked.slices), "--fits", str(asked.fits), "--child", folder]
        out = subprocess.run(
            [sys.executable, "-m", "benchmarks.resident", *arguments_],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip
    rows = json.loads(out.splitlines()[-1])
    kind = "12 attributes" if asked.wide else "6 attributes"
    publish(f"{asked.rows_per_day:,.0f} rows a day, {kind}", rows, where, asked.json)


def configure(folder: Path, *, wide: bool) -> None:
    """The bookings' configuration, reading from the folder."""
    text = CONFIG.read_text().replace('slice_length = "5m"', 'slice_length = "30m"')
    text = text.replace('"bookings*.parquet", "bookings*.jsonl"', f'"{folder}/bookings*.parquet"')
    if wide:
        first = '  { name = "agent_office", tier = "place" },\n'
        text = text.replace(
            first, first + "".join(f'  {{ name = "{name}", tier = "place" }},\n' for name in WIDE)
        )
    (folder / "monitor.toml").write_text(text)


def write_rows(folder: Path, rows_per_day: float, slices: int, *, wide: bool) -> None:
    """One file per half hour."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from monitor.simulation.files import write
    from monitor.simulation.world import World

    world, dice = World(7, rows_per_day), np.random.default_rng(7)
    base = []
    for k in range(DISTINCT):
        at = START + k * timedelta(hours=24 / DISTINCT)
        table = world.slice(at)
        # A mean half hour, whatever the time of day.
        size = min(round(rows_per_day / 48), table.num_rows)
        table = table.take(pa.array(np.sort(dice.choice(table.num_rows, size, replace=False))))
        for name, values in WIDE.items() if wide else ():
            share = 1 / np.arange(1, values + 1) ** 0.8
            code = dice.choice(values, table.num_rows, p=share / share.sum()).astype(np.int32)
            texts = pa.array([f"{name}-{v}" for v in range(values)])
            table = table.append_column(name, pa.DictionaryArray.from_arrays(code, texts))
        base.append((at, table))
    for number in range(slices):
        at, table = base[number % DISTINCT]
        shift = pa.scalar((START + number * HALF_HOUR) - at, pa.duration("us"))
        times = pc.add(table.column("time"), shift)
        moved = table.set_column(table.schema.get_field_index("time"), "time", times)
        write(moved, START + number * HALF_HOUR, folder, "parquet")


def child(folder: Path, slices: int, fits: int) -> list[dict[str, Any]]:
    """The daemon's work; what its process holds on the way."""
    from monitor.config import load
    from monitor.edge.allocator import hand_back_at_once
    from monitor.edge.metrics import Metrics
    from monitor.edge.store import open_store
    from monitor.pipeline import Pipeline

    hand_back_at_once()
    config = load(folder / "monitor.toml", {})
    end = START + slices * HALF_HOUR
    store = open_store(str(folder / "store.db"))
    pipeline = Pipeline(config, store, Metrics(), (), lambda: end)
    monitor = pipeline.session.monitor
    learner, monitor.learner = monitor.learner, None
    rows = [_row("do nothing", 0, 0, 0.0, 0.0)]
    nodes = 0
    began, ticks, rest = time.perf_counter(), 0, [0.0]

    def committed(fresh: list[Any]) -> None:
        nonlocal ticks, nodes
        for tick in fresh:
            ticks += 1
            nodes = tick.diagnosis.nodes
            seconds = tick.diagnosis.seconds
            if ticks > 48:
                rest.append(sum(seconds.values()) - seconds["fit"])
            if ticks == slices - fits - 1:
                monitor.learner = learner
            if ticks in (48, 96):
                rows.append(
                    _row(f"{ticks} slices", tick.diagnosis.nodes, ticks,
                         time.perf_counter() - began, float(np.median(rest)))
                )  # fmt: skip

    pipeline.committed = committed
    pipeline.poll()
    while pipeline.source.status().flow.name == "CATCHING_UP":
        pipeline.poll()
    rows.append(
        _row("with LEAST, at rest", nodes, ticks,
             time.perf_counter() - began, float(np.median(rest[1:])))
    )  # fmt: skip
    if os.environ.get("PARTS"):
        _parts(monitor)
    pipeline.close()
    store.close()
    return rows


def _row(when: str, nodes: int, ticks: int, seconds: float, rest: float) -> dict[str, Any]:
    status = Path("/proc/self/status").read_text()
    held = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if "kB" in line}
    return {
        "when": when,
        "resident MB": int(held["VmRSS"]) / 1024,
        "peak MB": int(held["VmHWM"]) / 1024,
        "nodes": nodes,
        "ticks": ticks,
        "seconds": seconds,
        "tick without fit s": rest,
    }


def _parts(monitor: Any) -> None:
    """What the arrays of the memory sum to, on stderr."""

    def size(thing: Any, seen: set[int]) -> int:
        if isinstance(thing, np.ndarray):
            whole = (
                thing
                if thing.base is None or not isinstance(thing.base, np.ndarray)
                else thing.base
            )
            if id(whole) in seen:
                return 0
            seen.add(id(whole))
            return int(whole.nbytes)
        if isinstance(thing, (list, tuple)) or type(thing).__name__ == "deque":
            return sum(size(one, seen) for one in thing)
        if isinstance(thing, dict):
            return sum(size(one, seen) for one in thing.values())
        slots = [*getattr(thing, "__slots__", ()), *getattr(thing, "__dict__", ())]
        return sum(size(getattr(thing, name, None), seen) for name in slots)

    seen: set[int] = set()
    for name in ("window", "tables", "failures", "history", "gram", "baseline", "dispersion"):
        print(f"{name:12} {size(getattr(monitor, name), seen) / 1e6:8.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
