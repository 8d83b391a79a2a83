"""A topic of bookings and a source over it, for the tests of Kafka."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from monitor.config import Config, load
from monitor.domain import Batch
from monitor.edge.kafka import KafkaSource
from monitor.edge.source import Flow
from monitor.vocabulary import Vocabulary
from tests.services.brokers import Cluster, Kafka

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count()


def record(number: int, at: datetime | None = None, **more: Any) -> bytes:
    """One booking, known by its number."""
    when = at or NOW - timedelta(hours=1) + timedelta(seconds=number)
    told = {"at": when.isoformat(), "id": number, "failed": False, **more}
    return json.dumps(told).encode()


class Desk:
    """A topic, and a monitor's source that may be closed and opened again."""

    def __init__(self, kafka: Kafka | Cluster, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self.address = kafka.address
        self.also: dict[str, str] = {}
        """Other ways to the same brokers."""
        self.topic = f"bookings-{next(_numbers)}"
        self.now = NOW
        self.sources: list[KafkaSource] = []
        self.position: dict[str, object] | None = None
        self.rejected: Counter[str] = Counter()

    def config(self, **settings: object) -> Config:
        values = {"start": "beginning"} | settings
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        path = self.folder / "monitor.toml"
        path.write_text(
            f'[source]\nkind = "kafka"\nbootstrap_servers = {json.dumps(self.address.split(","))}\n'
            f'topics = "{self.topic}"\n{lines}'
            '[schema]\ntime = "at"\nattributes = ["id"]\noutcomes = ["failed"]\n'
        )
        return load(path, {})

    def open(self, **settings: object) -> KafkaSource:
        config = self.config(**settings)
        self.vocabulary = Vocabulary(config.settings.schema)
        source = KafkaSource(config, self.vocabulary, lambda: self.now)
        self.sources.append(source)
        return source

    def numbers(self, batch: Batch) -> list[str]:
        codes = batch.events.values[:, 0].tolist()
        return [self.vocabulary.text(0, code) for code in codes]

    def take(self, source: KafkaSource, seconds: float = 20) -> list[Batch]:
        """Passes until everything there is has been handed over and stored."""
        batches: list[Batch] = []
        deadline = time.monotonic() + seconds
        while True:
            for batch in source.batches(self.position):
                batches.append(batch)
                self.position = json.loads(json.dumps(batch.position))
                for one in batch.rejected:
                    self.rejected[one.reason] += one.count
            if source.status().flow is Flow.READING:
                return batches
            assert time.monotonic() < deadline, source.status()

    def read(self, source: KafkaSource) -> list[str]:
        return [number for batch in self.take(source) for number in self.numbers(batch)]

    def until(self, source: KafkaSource, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            list(source.batches(self.position))
            assert time.monotonic() < deadline, source.status()
            time.sleep(0.05)
