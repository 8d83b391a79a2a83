"""Thirty simulated days at full speed: memory, store and ticks: `python -m benchmarks.soak`.

The whole way from files to the store, one pass a day, history kept for a week: from the tenth day
on everything that is kept is full, so memory and store should stay where they are. A message for
every incident goes to a notifier that only counts. `--no-graph` leaves LEAST out: then the figures
are those of ingest, statistics and store.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._bookings import configured
from benchmarks._report import arguments, machine, publish
from monitor.domain import Notification
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.store import KEPT_SENT, open_store
from monitor.edge.store.database import Database
from monitor.edge.store.upkeep import size
from monitor.pipeline import Pipeline
from monitor.simulation.files import write
from monitor.simulation.plan import plan_incidents
from monitor.simulation.world import SLICE, World

START = datetime(2026, 1, 5, tzinfo=UTC)
HISTORY = timedelta(days=7)
FULL_AFTER = 10
"""Days until every retention has begun to delete."""


class _Counting:
    name = "1-counting"

    def __init__(self) -> None:
        self.sent = 0

    def send(self, notification: Notification) -> None:
        self.sent += 1


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run the soak; ends with 1 when a figure is out of its bounds."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows-per-day", type=float, default=100_000)
    parser.add_argument("--no-graph", action="store_true", help="without LEAST")
    asked = parser.parse_args()
    if asked.days <= FULL_AFTER:
        parser.error(f"--days must be more than {FULL_AFTER}: before, nothing has settled")
    where = machine()
    if asked.no_graph:
        from tests.services.light import install

        install()
    rows: list[dict[str, Any]] = []
    ticks = 0
    with TemporaryDirectory() as folder:
        config = configured()
        logs, path = Path(folder, "logs"), Path(folder, "store.db")
        logs.mkdir()
        detection = replace(config.settings.detection, history=HISTORY)
        config = replace(
            config,
            settings=replace(config.settings, detection=detection),
            source=replace(config.source, paths=(f"{logs}/bookings-*",), max_rejected_ratio=1.0),
        )
        config = replace(config, store=replace(config.store, keep=KEPT_SENT))
        store, database = open_store(str(path)), Database(str(path))
        notifier = _Counting()
        outbox = Outbox(store, [notifier])
        end = START + timedelta(days=asked.days)
        pipeline = Pipeline(config, store, Metrics(), outbox.names, lambda: end)
        world = World(seed=11, rows_per_day=int(asked.rows_per_day))
        world = world.having(plan_incidents(world, START, asked.days, asked.days, seed=11))
        for day in range(asked.days):
            for number in range(day * 48, day * 48 + 48):
                write(world.slice(START + number * SLICE), START + number * SLICE, logs, "parquet")
            began = time.perf_counter()
            ticks += len(pipeline.poll())
            outbox.deliver()
            seconds = time.perf_counter() - began
            for old in logs.iterdir():
                old.unlink()
            rows.append(
                {
                    "day": day + 1,
                    "seconds": seconds,
                    "ticks": ticks,
                    "resident_mb": resident_bytes() / 1e6,
                    "store_mb": size(database) / 1e6,
                    "incidents_kept": len(store.incidents()),
                    "sent": notifier.sent,
                }
            )
        store.close()
        database.close()
    publish("thirty days", rows, where, asked.json)
    settled = [row for row in rows if row["day"] >= FULL_AFTER]
    memory = settled[-1]["resident_mb"] / settled[0]["resident_mb"] - 1
    bounded = max(r["store_mb"] for r in settled) / settled[0]["store_mb"] - 1
    wanted = asked.days * 48 - 1
    print(f"from day {FULL_AFTER}: memory {memory:+.1%}, store at most {bounded:+.1%}")
    print(f"ticks {ticks} of {wanted}")
    if memory > 0.05 or ticks < wanted:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
