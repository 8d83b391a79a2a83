"""The thread that polls: it fetches into a bounded buffer and never waits for a diagnosis."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, NoError
from kafka.structs import OffsetAndMetadata

from monitor.config import KafkaSettings
from monitor.domain import datetime64
from monitor.edge.kafka.connection import (
    CONNECT_MS,
    connect,
    connect_admin,
    forget_trouble,
    last_trouble,
)
from monitor.edge.kafka.pieces import RECORD_OVERHEAD_BYTES, Piece
from monitor.edge.kafka.places import Place, Position

CHECK_SECONDS = 2.0
"""Between two looks at the ends of the partitions."""

ANSWER_MS = 3_000
"""A broker that takes longer to say where a partition ends is away."""

SHOW_SECONDS = 10.0
"""Between two times that the offsets are shown in Kafka."""

AWAY_SECONDS = 5.0
"""Silence of the brokers that is called away."""

MAX_REFUSALS = 6
"""A new cluster needs a moment until it takes offsets; later it is worth a line in the log."""

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


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that were deleted before they could be read."""

    partition: TopicPartition
    first: int
    count: int


class Poller:
    """Reads all partitions of the topics from a position on.

    It assigns itself every partition instead of joining the group: the windows live in one
    process, and offsets in the store. One leader reads; a standby begins where the store stands.

    Args:
        settings: of the source.
        position: where the store stands.
        since: where a partition begins when nothing is known of any; None: `settings.start`.
        remember: read so far back before the position, for the ids.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        position: Position,
        since: datetime | None,
        remember_ms: int = 0,
    ) -> None:
        self._settings, self._since, self._remember_ms = settings, since, remember_ms
        self._stored = dict(position.places)
        self._next: dict[TopicPartition, int] = {}
        self._again: dict[TopicPartition, int] = {}
        """Where records begin that were not handed over yet."""
        self._buffer: dict[TopicPartition, deque[Piece]] = {}
        self._buffered = 0
        self._changed = threading.Condition()
        self._stop = False
        self._ahead: frozenset[TopicPartition] = frozenset()
        self._committed: dict[TopicPartition, int] = {}
        self._shown: dict[TopicPartition, int] = {}
        self._places: dict[TopicPartition, Place] = {}
        self._lost: list[Lost] = []
        self._admin: Any = None
        self._refusals = 0
        self._moved: dict[TopicPartition, tuple[int, float]] = {}
        """Partitions with records to fetch: where they stood, and since when."""
        self.view = View()
        self.read_bytes = 0
        forget_trouble()
        self._thread = threading.Thread(target=self._run, name="kafka", daemon=True)
        self._thread.start()

    # -- for the thread that takes in ---------------------------------------------------

    def take(
        self,
        records: int,
        wait_seconds: float = 0.0,
        newest: Mapping[TopicPartition, int | None] | None = None,
    ) -> list[Piece]:
        """At least one piece and about `records` records; none if none came in time.

        Args:
            records: no further piece is taken once there are so many.
            wait_seconds: for the first one.
            newest: event time that each partition has reached. The slowest go first, so that few
                slices are open at a time.
        """
        with self._changed:
            if not self._takeable() and wait_seconds:
                self._changed.wait_for(lambda: self._takeable() or self._stop, wait_seconds)
            reached = newest or {}
            order = sorted(self._takeable(), key=lambda one: (reached.get(one) or 0, one))
            taken: list[Piece] = []
            count = 0
            for one in order:
                if count >= records:
                    break
                waiting = self._buffer[one]
                piece = waiting.popleft()
                if not waiting:
                    del self._buffer[one]
                taken.append(piece)
                count += len(piece)
                self._buffered -= piece.size_bytes
            self._changed.notify_all()
            return taken

    def _takeable(self) -> list[TopicPartition]:
        """Partitions with records at hand. Those far ahead wait for the slower ones, unless the
        buffer is full of them: then nothing else can come."""
        due = [one for one in self._buffer if one not in self._ahead]
        if due or self._buffered < self._settings.buffer_bytes:
            return due
        return list(self._buffer)

    def began(self) -> dict[TopicPartition, Place]:
        """Partitions that are read since the last call, and where each begins."""
        with self._changed:
            fresh, self._places = self._places, {}
            return fresh

    def lost(self) -> list[Lost]:
        """What is found to be lost since the last call."""
        with self._changed:
            lost, self._lost = self._lost, []
            return lost

    def hold(self, ahead: Iterable[TopicPartition]) -> None:
        """Let these wait for slower ones, until called again."""
        self._ahead = frozenset(ahead)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The store has these; show them in Kafka by and by."""
        self._committed = dict(offsets)

    @property
    def problem(self) -> str:
        """Why there is no connection; empty if there is."""
        text = self.view.problem
        return last_trouble() or text if text == CONNECTING else text

    @property
    def buffered_bytes(self) -> int:
        """Memory of what waits to be taken."""
        return self._buffered

    def waiting(self) -> Counter[TopicPartition]:
        """Records that wait to be taken, by partition."""
        with self._changed:
            counts: Counter[TopicPartition] = Counter()
            for one, pieces in self._buffer.items():
                counts[one] = sum(map(len, pieces))
            return counts

    def close(self) -> None:
        """End the thread; waits a moment for it."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._thread.join(CONNECT_MS / 1000)

    # -- the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stop:
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
            if self._stop:
                break
            with self._changed:
                wait = _WAIT_SECONDS[min(failures, len(_WAIT_SECONDS) - 1)]
                self._changed.wait_for(lambda: self._stop, wait)
            failures += 1
        if self._admin is not None:
            with contextlib.suppress(Exception):
                self._admin.close()

    def _trouble(self, error: Exception) -> None:
        # Of an exception that only says that time is up, the client's log knows the cause.
        text = last_trouble() if isinstance(error, KafkaTimeoutError) else ""
        text = text or (f"{error}" if str(error) else type(error).__name__)
        if self.view.connected or self.view.problem == CONNECTING:
            _log.warning("no connection to Kafka", servers=self._settings.servers, error=text)
        self.view = View(self.view.ends, self.view.fetched, False, text, self.view.heard)

    def _poll(self, consumer: KafkaConsumer) -> None:
        checked = shown = time.monotonic()
        while not self._stop:
            # A full buffer is simply not polled. kafka-python 3.0.12 can pause partitions, but one
            # that was resumed with fetched records at hand may never be fetched again.
            if self._has_room():
                for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                    self._keep(partition, records)
            now = time.monotonic()
            if now - checked > CHECK_SECONDS:
                self._assign(consumer)
                self._look(consumer)
                checked = time.monotonic()
            if now - shown > SHOW_SECONDS:
                self._show()
                shown = time.monotonic()
        self._show()

    def _has_room(self) -> bool:
        """Wait a moment for it."""
        with self._changed:
            full = self._settings.buffer_bytes
            self._changed.wait_for(lambda: self._stop or self._buffered < full, CHECK_SECONDS)
            return self._buffered < full

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
        with self._changed:
            for piece in pieces:
                self._buffer.setdefault(partition, deque()).append(piece)
                self._buffered += piece.size_bytes
                self.read_bytes += piece.size_bytes - RECORD_OVERHEAD_BYTES * len(piece)
            self._next[partition] = records[-1].offset + 1
            self._changed.notify_all()

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
        fresh = [one for one in partitions if one not in self._next]
        starts = self._starts(consumer, partitions, fresh)
        consumer.assign(partitions)
        for one in partitions:
            consumer.seek(one, starts[one])
        with self._changed:
            self._next |= starts

    def _starts(
        self,
        consumer: KafkaConsumer,
        partitions: list[TopicPartition],
        fresh: list[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """Where to fetch every partition from."""
        first = consumer.beginning_offsets(partitions, timeout_ms=ANSWER_MS)
        end = consumer.end_offsets(partitions, timeout_ms=ANSWER_MS)
        wanted = {one: self._next[one] for one in partitions if one in self._next}
        places: dict[TopicPartition, Place] = {}
        by_rule = [one for one in fresh if one not in self._stored]
        for one in fresh:
            if one in self._stored:
                places[one] = self._stored[one]
                wanted[one] = places[one].offset
        for one, offset in self._begin(consumer, by_rule, first, end).items():
            places[one] = Place(offset)
            wanted[one] = offset
        for one, offset in wanted.items():
            if offset < first[one]:
                gone = Lost(one, offset, first[one] - offset)
                _log.error(
                    "records were deleted before they were read; lengthen the topic's retention",
                    topic=one.topic, partition=one.partition, records=gone.count,
                )  # fmt: skip
                self._lost.append(gone)
                wanted[one] = first[one]
            elif offset > end[one]:
                raise LookupError(
                    f"partition {one.partition} of `{one.topic}` ends at offset {end[one]}, before "
                    f"{offset}, where the store stands: the topic was made anew, or lost records. "
                    "If it is another topic now, give this configuration a [store] url of its own"
                )
        self._read_again(consumer, places, wanted, first)
        with self._changed:
            self._places |= {
                one: Place(wanted[one] if one not in self._again else self._again[one],
                           place.newest, place.stamp)
                for one, place in places.items()
            }  # fmt: skip
        if fresh:
            _log.info("reading", partitions=len(partitions), new=len(by_rule))
        return wanted

    def _begin(
        self,
        consumer: KafkaConsumer,
        partitions: list[TopicPartition],
        first: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Where partitions begin of which the store knows nothing."""
        if self._stored or self._next:
            return {one: first[one] for one in partitions}  # added while others were read
        if self._settings.start == "end":
            return {one: end[one] for one in partitions}
        if self._since is None:
            return {one: first[one] for one in partitions}
        moment = int(datetime64(self._since).astype("datetime64[ms]").astype(int))
        return self._at(consumer, dict.fromkeys(partitions, moment), end)

    def _at(
        self,
        consumer: KafkaConsumer,
        moments: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        found = consumer.offsets_for_times(dict(moments)) if moments else {}
        # Nothing so new: kafka-python says None, or an offset or a time of -1.
        return {
            one: at.offset if at is not None and at.offset >= 0 and at.timestamp >= 0 else end[one]
            for one, at in found.items()
        }

    def _read_again(
        self,
        consumer: KafkaConsumer,
        places: Mapping[TopicPartition, Place],
        wanted: dict[TopicPartition, int],
        first: Mapping[TopicPartition, int],
    ) -> None:
        """Step back in partitions that were read before, so far as ids are remembered."""
        if not self._remember_ms:
            return
        moments = {
            one: max(0, place.stamp - self._remember_ms)
            for one, place in places.items()
            if place.stamp >= 0
        }
        for one, offset in self._at(consumer, moments, wanted).items():
            earlier = max(min(offset, wanted[one]), first[one])
            if earlier < wanted[one]:
                self._again[one] = wanted[one]
                wanted[one] = earlier

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
        if self._buffered >= self._settings.buffer_bytes:
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

    def _show(self) -> None:
        """Show the stored offsets in Kafka. Nothing depends on it."""
        offsets = self._committed
        if not offsets or offsets == self._shown:
            return
        try:
            if self._admin is None:
                self._admin = connect_admin(self._settings)
            answers = self._admin.alter_group_offsets(
                self._settings.group,
                {one: OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()},
            )
            refused = [error for error in answers.values() if error is not NoError]
            if refused:
                raise refused[0]()
            self._shown = offsets
        except (KafkaError, OSError) as error:
            self._refusals += 1
            if self._refusals == MAX_REFUSALS:
                _log.warning(
                    "offsets cannot be shown in Kafka; lag tools will not see this group",
                    group=self._settings.group, error=repr(error),
                )  # fmt: skip
