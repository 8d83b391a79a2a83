"""Records that cannot be understood, written to a topic of their own with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError

from monitor.config import KafkaSettings
from monitor.edge.kafka.connection import connect_producer
from monitor.edge.kafka.pieces import Record
from monitor.edge.source import SourceAwayError

PREFIX = "least-monitor."

_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Letter:
    """One record with what is wrong with it."""

    record: Record
    reason: str
    detail: str

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """Those of the record, and ours behind them."""
        record = self.record
        ours = {
            "reason": self.reason,
            "detail": self.detail[:1000],
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": str(record.timestamp),
        }
        if record.value is None:
            ours["value"] = "null"
        return [*record.headers, *((PREFIX + name, text.encode()) for name, text in ours.items())]

    @property
    def value(self) -> bytes | None:
        """That of the record; empty where it has neither value nor key, which cannot be sent."""
        value, key = self.record.value, self.record.key
        return b"" if value is None and key is None else value


class DeadLetters:
    """The dead-letter topic. A process killed between writing and committing writes a letter
    again; origin and offset in its headers tell that it is the same one.

    Args:
        settings: of the source; without a topic, nothing is written.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: Any = None
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """Reason → letters written."""
        return dict(self._counts)

    def write(self, letters: Iterable[Letter]) -> None:
        """Return once all brokers have them.

        Raises:
            SourceAwayError: some could not be written; write them all again.
        """
        topic, letters = self._settings.dead_letter_topic, list(letters)
        if topic is None or not letters:
            return
        try:
            if self._producer is None:
                self._producer = connect_producer(self._settings)
            sent = [
                self._producer.send(
                    topic, letter.value, key=letter.record.key, headers=letter.headers
                )
                for letter in letters
            ]
            self._producer.flush(_SECONDS)
            for one in sent:
                one.get(_SECONDS)
        except (KafkaError, OSError) as error:
            self.close()
            raise SourceAwayError(
                f"dead letters cannot be written to topic `{topic}` ({error!r}): does it exist, "
                "and may we write to it? Reading waits"
            ) from None
        self._counts.update(letter.reason for letter in letters)

    def close(self) -> None:
        """Let go of the producer."""
        if self._producer is not None:
            self._producer.close(timeout=1)
            self._producer = None
