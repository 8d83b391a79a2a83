"""The thread that polls: it fetches into a bounded buffer and never waits for a diagnosis."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from monitor.config import KafkaSettings
from monitor.edge.kafka.beginnings import Beginnings, Lost
from monitor.edge.kafka.buffer import Buffer
from monitor.edge.kafka.connection import (
    ANSWER_MS,
    CONNECT_MS,
    connect,
    forget_trouble,
    last_trouble,
)
from monitor.edge.kafka.pieces import RECORD_OVERHEAD_BYTES, Piece
from monitor.edge.kafka.places import Place, Position
from monitor.edge.kafka.shown_offsets import ShownOffsets

CHECK_SECONDS = 2.0
"""Between two looks at the ends of the partitions."""

SHOW_SECONDS = 10.0
"""Between two times that the offsets are shown in Kafka."""

AWAY_SECONDS = 5.0
"""Silence of the brokers that is called away."""

STALLED_SECONDS = 60.0
"""A partition that has records and gives none for so long is connected to anew."""

CONNECTING = "connecting"

_POLL_MS = 200
_WAIT_SECONDS = (0.5, 1.0, 2.0, 5.0)

_log = structlog.get_logger("kafka")


@dataclass(frozen=True, slots=True)
class View:
    """What the thread knows, at one moment."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offset behind the last record that may be read."""
    fetched: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offset of the next record to fetch, when the ends were looked up."""
    connected: bool = False
    problem: str = CONNECTING
    """Why it is not connected."""
    heard: float = field(default_factory=time.monotonic)
    """Monotonic; when the brokers last answered."""

    @property
    def at_end(self) -> bool:
        """All that could be fetched was, of all partitions that are known."""
        return all(self.fetched.get(one, -1) >= end for one, end in self.ends.items())


class Poller:
    """Reads all partitions of the topics from a position on.

    It assigns itself every partition instead of joining the group: the windows live in one
    process, and offsets in the store. One leader reads; a standby begins where the store stands.

    Args:
        settings: of the source.
        position: where the store stands.
        since: where a partition begins when nothing is known of any; None: `settings.start`.
        remember_ms: read so far back before the position, for the ids.

    Attributes:
        buffer: what was read and waits to be taken.
        view: what is known of the brokers.
        read_bytes: of values, so far.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        position: Position,
        since: datetime | None,
        remember_ms: int = 0,
    ) -> None:
        self._settings = settings
        self._beginnings = Beginnings(settings, position, since, remember_ms)
        self._shown = ShownOffsets(settings)
        self._next: dict[TopicPartition, int] = {}
        self._again: dict[TopicPartition, int] = {}
        """Where records begin that were not handed over yet."""
        self._committed: dict[TopicPartition, int] = {}
        self._told = threading.Lock()
        self._places: dict[TopicPartition, Place] = {}
        self._lost: list[Lost] = []
        self._moved: dict[TopicPartition, tuple[int, float]] = {}
        """Partitions with records to fetch: where they stood, and since when."""
        self._stop = threading.Event()
        self.buffer = Buffer(settings.buffer_bytes)
        self.view = View()
        self.read_bytes = 0
        forget_trouble()
        self._thread = threading.Thread(target=self._run, name="kafka", daemon=True)
        self._thread.start()

    # -- for the thread that takes in ---------------------------------------------------

    def began(self) -> dict[TopicPartition, Place]:
        """Partitions that are read since the last call, and where each begins."""
        with self._told:
            fresh, self._places = self._places, {}
            return fresh

    def lost(self) -> list[Lost]:
        """What is found to be lost since the last call."""
        with self._told:
            lost, self._lost = self._lost, []
            return lost

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The store has these; show them in Kafka by and by."""
        self._committed = dict(offsets)

    @property
    def problem(self) -> str:
        """Why there is no connection; empty if there is."""
        text = self.view.problem
        return last_trouble() or text if text == CONNECTING else text

    def close(self) -> None:
        """End the thread; waits a moment for it."""
        self._stop.set()
        self.buffer.close()
        self._thread.join(CONNECT_MS / 1000)

    # -- the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            consumer = None
            began = time.monotonic()
            try:
                consumer = connect(self._settings)
                self._assign(consumer)
                self._look(consumer)
                self._poll(consumer)
            except Exception as error:  # whatever a broker or the client does, it is tried again
                if time.monotonic() - began > 60:
                    failures = 0
                self._trouble(error)
            finally:
                if consumer is not None:
                    with contextlib.suppress(Exception):
                        consumer.close(autocommit=False, timeout_ms=1000)
            if self._stop.is_set():
                break
            self._stop.wait(_WAIT_SECONDS[min(failures, len(_WAIT_SECONDS) - 1)])
            failures += 1
        self._shown.close()

    def _trouble(self, error: Exception) -> None:
        # Of an exception that only says that time is up, the client's log knows the cause.
        text = last_trouble() if isinstance(error, KafkaTimeoutError) else ""
        text = text or (f"{error}" if str(error) else type(error).__name__)
        if self.view.connected or self.view.problem == CONNECTING:
            _log.warning("no connection to Kafka", servers=self._settings.servers, error=text)
        self.view = View(self.view.ends, self.view.fetched, False, text, self.view.heard)

    def _poll(self, consumer: KafkaConsumer) -> None:
        checked = shown = time.monotonic()
        while not self._stop.is_set():
            # A full buffer is simply not polled. kafka-python 3.0.12 can pause partitions, but one
            # that was resumed with fetched records at hand may never be fetched again.
            if self.buffer.has_room(CHECK_SECONDS):
                for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                    self._keep(partition, records)
            now = time.monotonic()
            if now - checked > CHECK_SECONDS:
                self._assign(consumer)
                self._look(consumer)
                checked = time.monotonic()
            if now - shown > SHOW_SECONDS:
                self._shown.show(self._committed)
                shown = time.monotonic()
        self._shown.show(self._committed)

    def _keep(self, partition: TopicPartition, records: list[Any]) -> None:
        fresh_from = self._again.get(partition)
        pieces = []
        if fresh_from is not None:
            old = [record for record in records if record.offset < fresh_from]
            if old:
                pieces.append(Piece.of(partition, old, again=True))
            fresh = records[len(old) :]
        else:
            fresh = records
        if fresh:
            pieces.append(Piece.of(partition, fresh))
        for piece in pieces:
            self.read_bytes += piece.size_bytes - RECORD_OVERHEAD_BYTES * len(piece)
        self._next[partition] = records[-1].offset + 1
        self.buffer.put(pieces)

    def _assign(self, consumer: KafkaConsumer) -> None:
        """Take on every partition there is; those that are read already go on."""
        partitions = [
            TopicPartition(topic, number)
            for topic in self._settings.topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        missing = set(self._settings.topics) - {one.topic for one in partitions}
        if missing:
            raise LookupError(
                f"there is no topic {', '.join(f'`{t}`' for t in sorted(missing))}, or we may "
                "not read it"
            )
        assigned = consumer.assignment()
        if set(partitions) <= assigned:
            return
        start = self._beginnings.find(consumer, partitions, self._next)
        self._again |= start.again
        with self._told:
            self._places |= start.fresh
            self._lost += start.lost
        consumer.assign(partitions)
        for one in partitions:
            consumer.seek(one, start.fetch[one])
        self._next |= start.fetch

    def _look(self, consumer: KafkaConsumer) -> None:
        partitions = sorted(self._next)
        ends = consumer.end_offsets(partitions, timeout_ms=ANSWER_MS)
        # Behind the last record there may be marks of transactions, which are never handed over.
        fetched = {one: consumer.position(one, timeout_ms=1000) or 0 for one in partitions}
        self._watch(ends, fetched)
        if not self.view.connected:
            _log.info("connected to Kafka", servers=self._settings.servers)
            forget_trouble()
        self.view = View(ends, fetched, True, "")

    def _watch(
        self, ends: Mapping[TopicPartition, int], fetched: Mapping[TopicPartition, int]
    ) -> None:
        """A partition that has records and gives none: connect anew, whoever's fault it is.

        Raises:
            TimeoutError: one does.
        """
        now = time.monotonic()
        if self.buffer.full:
            self._moved.clear()  # it was not polled
        for one, offset in fetched.items():
            if offset >= ends[one] or self._moved.get(one, (offset, now))[0] != offset:
                self._moved.pop(one, None)
                continue
            _, since = self._moved.setdefault(one, (offset, now))
            if now - since > STALLED_SECONDS:
                self._moved.clear()
                raise TimeoutError(
                    f"partition {one.partition} of `{one.topic}` has records behind offset "
                    f"{offset} and gives none"
                )
