"""Records a second out of Apache Kafka: `python -m benchmarks.kafka --json OUT`.

A real broker on this machine, twelve partitions, JSON records of 250 bytes. The peer, in the same
run and pinned to the same core: kafka-python polling and orjson decoding each record, and nothing
more; with Python's cyclic garbage collector as it comes, and as the daemon sets it, which alone
makes that loop a third faster. Beside it our source (records → events in columns, with exact
positions and watermarks), and the source with slices and the store's transactions behind it. The
broker has the other core.

`--hours` also starts a monitor on that much history at two million rows a day: from Kafka, and
again from the store.
"""

from __future__ import annotations

import gc
import os
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks._report import arguments, machine, publish
from monitor.config import Config, load
from monitor.edge.kafka import KafkaSource, calm_the_collector
from monitor.edge.metrics import Metrics
from monitor.edge.source import Flow
from monitor.edge.store import open_store
from monitor.pipeline import Pipeline
from monitor.simulation.files import json_lines
from monitor.simulation.world import SLICE, World
from monitor.vocabulary import Vocabulary
from tests.services.brokers import Kafka

BYTES = 250
PARTITIONS = 12
ROWS_PER_DAY = 2_000_000
START = datetime(2026, 1, 5, 9, tzinfo=UTC)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--repeats", type=int, default=3, help="the best counts")
    parser.add_argument("--hours", type=float, default=0, help="of history to start with")
    asked = parser.parse_args()
    where = machine()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        broker = Kafka(Path(folder) / "broker", heap="1g")
        broker.start()
        try:
            rows = _ingest(broker, Path(folder), asked.rows, asked.repeats)
            title = f"{asked.rows:,} records of {BYTES} bytes, {PARTITIONS} partitions, one core"
            publish(title, rows, where, asked.json)
            if asked.hours:
                _start(broker, Path(folder), asked.hours, where)
        finally:
            broker.kill()


def _ingest(broker: Kafka, folder: Path, count: int, repeats: int) -> list[dict[str, Any]]:
    topic = broker.create("ingest", PARTITIONS, **{"retention.ms": "-1"})
    _fill(broker, topic, count)
    config = _config(broker, topic, folder / "ingest")
    everyone = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(everyone)})
    calm = calm_the_collector
    runs: dict[str, Callable[[], None]] = {
        "kafka-python poll + orjson": lambda: _bare(broker, topic, count),
        "the same, collector as we set it": lambda: (calm(), _bare(broker, topic, count))[1],
        "source: events in columns": lambda: (calm(), _source(config, count))[1],
        "source, slices and store": lambda: (calm(), _pipeline(config, count, folder))[1],
    }
    as_python_has_it = gc.get_threshold()
    best = dict.fromkeys(runs, (float("inf"), float("inf")))
    for _ in range(repeats):  # in turn, so that a busy moment hits all alike
        for name, run in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            gc.set_threshold(*as_python_has_it)
            run()
            took = time.perf_counter() - wall, time.process_time() - cpu
            best[name] = (min(best[name][0], took[0]), min(best[name][1], took[1]))
    os.sched_setaffinity(0, everyone)
    peer = best["kafka-python poll + orjson"]
    return [
        {
            "": name,
            "records/s": round(count / wall),
            "of the peer": f"{peer[0] / wall:.0%}",
            "records/CPU s": round(count / cpu),
            "of the peer, CPU": f"{peer[1] / cpu:.0%}",
        }
        for name, (wall, cpu) in best.items()
    ]


def _fill(broker: Kafka, topic: str, count: int) -> None:
    """Bookings, padded to `BYTES` as other fields of a real log would."""
    producer = KafkaProducer(bootstrap_servers=broker.address, linger_ms=50, batch_size=1 << 18)
    world, at, sent = World(7, ROWS_PER_DAY), START, 0
    while sent < count:
        bookings = world.slice(at)
        stamps = bookings.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        for line, stamp in zip(json_lines(bookings).splitlines(), stamps.to_pylist(), strict=True):
            if sent == count:
                break
            padding = b"x" * max(0, BYTES - len(line) - len(b',"note":""'))
            value = line[:-1] + b',"note":"' + padding + b'"}'
            producer.send(topic, value, partition=sent % PARTITIONS, timestamp_ms=stamp // 1000)
            sent += 1
        at += SLICE
    producer.flush()
    producer.close()


def _config(broker: Kafka, topic: str, folder: Path, more: str = "") -> Config:
    folder.mkdir(parents=True)
    example = Path("examples/bookings/monitor.toml").read_text()
    schema = example[example.index("[schema]") :]
    (folder / "monitor.toml").write_text(
        f'[source]\nkind = "kafka"\nbootstrap_servers = "{broker.address}"\ntopics = "{topic}"\n'
        f'start = "beginning"\n{schema}\n{more}'
    )
    return load(folder / "monitor.toml", {})


def _bare(broker: Kafka, topic: str, count: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=None,
        max_poll_records=10_000,
        metrics_enabled=False,
    )
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    seen = 0
    while seen < count:
        for records in consumer.poll(timeout_ms=1000).values():
            for record in records:
                orjson.loads(record.value)
            seen += len(records)
    consumer.close()


def _source(config: Config, count: int) -> None:
    source = KafkaSource(config, Vocabulary(config.settings.schema), lambda: datetime.now(UTC))
    seen, position = 0, None
    while seen < count:
        for batch in source.batches(position):
            seen += len(batch.events)
            position = batch.position
    source.close()


class _NoTicks(Pipeline):
    """Taking in alone: slices are closed and let go; what a tick costs, `tick` measures."""

    closed = 0

    def _close(self) -> list[Any]:
        for start in sorted(self.filling):
            if self.watermark is not None and start + self._step <= self.watermark:
                self.closed += self.filling.pop(start).rows
        return []


def _pipeline(config: Config, count: int, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as state:
        store = open_store(f"sqlite:///{state}/state.db")
        pipeline = _NoTicks(config, store, Metrics(), (), lambda: datetime.now(UTC))
        while pipeline.closed + sum(s.rows for s in pipeline.filling.values()) < count:
            pipeline.poll()
        pipeline.close()
        store.close()


def _start(broker: Kafka, folder: Path, hours: float, where: dict[str, Any]) -> None:
    """How long until a monitor is ready with so much history behind it."""
    count = round(ROWS_PER_DAY * hours / 24)
    topic = broker.create("history", PARTITIONS, **{"retention.ms": "-1"})
    _fill(broker, topic, count)
    config = _config(broker, topic, folder / "history")
    url = f"sqlite:///{folder}/history.db"
    rows = []
    for name in ("from Kafka", "from the store"):
        store = open_store(url)
        began = time.perf_counter()
        pipeline = Pipeline(config, store, Metrics(), (), lambda: datetime.now(UTC))
        ticks = len(pipeline.poll())
        while pipeline.source.status().flow is not Flow.READING:
            ticks += len(pipeline.poll())
        took = time.perf_counter() - began
        pipeline.close()
        store.close()
        rows.append(
            {
                "start": name,
                "seconds": took,
                "ticks": ticks,
                "resident GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            }
        )
    publish(f"ready with {timedelta(hours=hours)} of history, {count:,} rows", rows, where, None)


if __name__ == "__main__":
    main()
