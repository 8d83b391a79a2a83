"""Topics as a source: records → batches with exact positions, watermarks and dead letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from kafka import TopicPartition

from monitor.config import Config, KafkaSettings
from monitor.domain import HALF_HOUR, Batch, Rejected, datetime64, utc
from monitor.edge.json_records import RecordDecoder
from monitor.edge.kafka.clocks import Clocks
from monitor.edge.kafka.dead_letters import DeadLetters, Letter
from monitor.edge.kafka.duplicates import Seen
from monitor.edge.kafka.gate import Gate
from monitor.edge.kafka.places import Place, Position, begin_at, holds_at, reached
from monitor.edge.kafka.polling import AWAY_SECONDS, Poller
from monitor.edge.kafka.sorting import Looked, Sorter, Taken
from monitor.edge.source import (
    Flow,
    PartitionStatus,
    SourceAwayError,
    SourceStatus,
)
from monitor.vocabulary import Vocabulary

BATCH_RECORDS = 1 << 15
"""Records handed over, and so committed, together."""

PASS_SECONDS = 2.0
"""A pass over a backlog ends after this, so that the daemon can stop."""

WAIT_SECONDS = 0.5
"""How long a pass waits for records that are known to be there."""

AHEAD_SLICES = 2
"""How far a partition may run ahead of the slowest in event time, in half hours or, where they are
longer, in slices."""


class KafkaSource:
    """See `monitor.edge.source.Source`.

    Args:
        config: `source` is Kafka.
        vocabulary: codes the values; it grows.
        now: the clock.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, now: Callable[[], datetime]) -> None:
        assert isinstance(config.source, KafkaSettings)
        self._config, self._settings, self._now = config, config.source, now
        self._window = config.settings.window
        self._decoder = RecordDecoder(config, vocabulary, self._settings.event_id)
        self._letters = DeadLetters(self._settings)
        self._sorter = Sorter(config, self._decoder, now)
        self._clocks = Clocks(config, now)
        self._gate = Gate(config, now)
        self._poller: Poller | None = None
        self._position = Position({})
        self._handed: Mapping[str, object] | None = None
        self._told: np.datetime64 | None = None
        """The last `reached` that was handed over."""
        self._active: dict[TopicPartition, float] = {}
        """When records last came, monotonic."""
        self._waiting: Looked | None = None
        """Records that a wrong clock would reject; ours is doubted."""
        self._held: Taken | None = None
        """Records that are too bad."""
        self._lost: list[Rejected] = []

    # -- the contract --------------------------------------------------------------------

    def batches(self, after: Mapping[str, object] | None) -> Iterator[Batch]:
        """See `Source`.

        Raises:
            SourceAwayError: no broker can be reached, or dead letters cannot be written.
        """
        poller = self._at(after)
        if after is not None:
            poller.committed({p: place.offset for p, place in self._position.places.items()})
        deadline = time.monotonic() + PASS_SECONDS
        while time.monotonic() < deadline:
            self._begin(poller)
            taken = self._held
            if taken is None:
                self._waiting = self._waiting or self._look(poller)
                if self._waiting is None:
                    break
                if not self._clocks.agree(self._waiting, poller, self._position.places):
                    break
                looked, self._waiting = self._waiting, None
                if not looked.pieces:  # only ids were learned
                    continue
                taken = self._sorter.sort(looked, self._position)
            batch = self._hand_over(taken)
            if batch is None:
                break
            self._handed = batch.position
            yield batch
            poller.committed({p: place.offset for p, place in self._position.places.items()})
        yield from self._idle(poller)
        view = poller.view
        if not view.connected and time.monotonic() - view.heard > AWAY_SECONDS:
            servers = ", ".join(self._settings.servers)
            raise SourceAwayError(f"Kafka at {servers} cannot be read: {poller.problem}")

    def status(self) -> SourceStatus:
        """See `Source`."""
        poller = self._poller
        if poller is None:
            return SourceStatus(Flow.CATCHING_UP, "connecting to Kafka")
        view, places = poller.view, dict(self._position.places)
        holds, waiting = self._holds(poller, places), poller.buffer.waiting()
        partitions = []
        for one, place in sorted(places.items()):
            at_end = view.fetched.get(one, -1) >= view.ends.get(one, 0) and not self._holding
            lag = waiting[one] if at_end else max(view.ends.get(one, 0) - place.offset, 0)
            newest = None if place.newest is None else utc(np.datetime64(place.newest, "us"))
            partitions.append(
                PartitionStatus(
                    one.topic, one.partition, place.offset, lag, newest, one not in holds
                )
            )
        flow, detail = self._flow(poller, sum(p.lag for p in partitions))
        return SourceStatus(
            flow,
            detail,
            tuple(partitions),
            poller.read_bytes,
            poller.buffer.size_bytes,
            self._letters.counts,
        )

    def close(self) -> None:
        """See `Source`."""
        if self._poller is not None:
            self._poller.close()
            self._poller = None
        self._letters.close()

    # -- where we stand ------------------------------------------------------------------

    def _flow(self, poller: Poller, lag: int) -> tuple[Flow, str]:
        view = poller.view
        complaint = self._gate.complaint or self._clocks.complaint
        if complaint:
            return Flow.PAUSED, complaint
        if not view.connected:
            away = time.monotonic() - view.heard > AWAY_SECONDS
            return (Flow.AWAY if away else Flow.CATCHING_UP), poller.problem
        if not view.ends or not view.at_end or poller.buffer.size_bytes:
            return Flow.CATCHING_UP, f"{lag:,} records to go"
        return Flow.READING, ""

    def _at(self, after: Mapping[str, object] | None) -> Poller:
        """The poller, reading on from `after`."""
        if self._poller is not None and after == self._handed:
            return self._poller
        if self._poller is not None:  # a transaction failed, or the process only just began
            self._poller.close()
        position = Position.from_json(after, self._settings.topics)
        since = begin_at(self._settings, self._window.slice_length, self._now())
        if position.places:
            since = None
        elif since is not None:
            position = Position({}, int(datetime64(since).astype(np.int64)))
        remember = 0
        self._sorter.seen = None
        if self._settings.event_id is not None:
            remember = int(self._settings.duplicates_within / timedelta(milliseconds=1))
            self._sorter.seen = Seen(remember)
        self._position, self._handed, self._told = position, after, None
        self._active, self._waiting, self._held = {}, None, None
        self._clocks.forget()
        self._gate.reopen(fresh=after is None)
        self._poller = Poller(self._settings, position, since, remember)
        return self._poller

    def _begin(self, poller: Poller) -> None:
        """Take note of partitions that are new, and of records that are gone."""
        fresh = poller.began()
        if fresh:
            self._position = replace(self._position, places={**fresh, **self._position.places})
        for gone in poller.lost():
            where = f"{gone.partition.topic}[{gone.partition.partition}]@{gone.first}"
            detail = "deleted before they were read; lengthen the topic's retention"
            self._lost.append(Rejected("lost", where, detail, gone.count))
            places = dict(self._position.places)
            before = places.get(gone.partition, Place(0))
            places[gone.partition] = replace(before, offset=gone.first + gone.count)
            self._position = replace(self._position, places=places)

    def _holds(
        self, poller: Poller, places: Mapping[TopicPartition, Place]
    ) -> dict[TopicPartition, int | None]:
        """Partitions that the watermark waits for, and the event time each holds it at."""
        view, waiting = poller.view, poller.buffer.waiting()
        now, clock = self._now(), time.monotonic()
        holds = {}
        for one, place in places.items():
            at_end = (
                view.connected
                and view.fetched.get(one, -1) >= view.ends.get(one, 0)
                and not waiting[one]
            )
            silent = timedelta(seconds=min(clock - self._active.get(one, -1e9), 1e9))
            holding, at = holds_at(place, at_end, silent, self._settings.idle_after, now)
            if holding:
                holds[one] = at
        return holds

    def _reach(self, poller: Poller, places: Mapping[TopicPartition, Place]) -> np.datetime64:
        """Event time that all partitions have reached; it never goes back."""
        before = np.datetime64("NaT", "us") if self._told is None else self._told
        if not poller.view.ends.keys() <= places.keys():
            return before  # a new partition has yet to be taken note of
        newest = {one: place.newest for one, place in places.items()}
        now = reached(self._holds(poller, places).values(), newest.values())
        if np.isnat(now):
            return before
        # Reading on far ahead of the slowest would only fill memory with open slices.
        limit = int(now.astype(np.int64)) + int(
            AHEAD_SLICES * max(HALF_HOUR, self._window.slice_length) / timedelta(microseconds=1)
        )
        poller.buffer.hold(one for one, at in newest.items() if at is not None and at > limit)
        return now if np.isnat(before) else max(now, before)

    # -- records → batch -----------------------------------------------------------------

    @property
    def _holding(self) -> bool:
        return self._waiting is not None or self._held is not None

    def _look(self, poller: Poller) -> Looked | None:
        """The next records at hand; None if none came in time."""
        behind = self.status().flow is not Flow.READING
        newest = {one: place.newest for one, place in self._position.places.items()}
        pieces = poller.buffer.take(BATCH_RECORDS, WAIT_SECONDS if behind else 0.0, newest)
        return self._sorter.look(pieces) if pieces else None

    def _hand_over(self, taken: Taken) -> Batch | None:
        """The batch of these records; None while they are too bad to be taken in."""
        if not self._gate.may_pass(taken):
            self._held = taken
            return None
        try:
            self._letters.write(
                Letter(taken.record(fault.row), fault.reason, fault.detail) for fault in taken.bad()
            )
        except SourceAwayError:
            self._held = taken
            raise
        self._held = None
        now = time.monotonic()
        self._active |= {piece.partition: now for piece in taken.pieces}
        self._position = replace(self._position, places={**self._position.places, **taken.places})
        assert self._poller is not None
        self._told = self._reach(self._poller, self._position.places)
        rejected = (*taken.rejected(), *self._lost)
        self._lost = []
        return Batch(taken.events, self._position.to_json(), rejected, self._told)

    def _idle(self, poller: Poller) -> Iterator[Batch]:
        """Nothing came, but time went by: partitions fell idle, or records are gone."""
        self._begin(poller)
        places = self._position.places
        if self._holding or not places:
            return
        now = self._reach(poller, places)
        moved = not np.isnat(now) and (
            self._told is None or np.isnat(self._told) or now > self._told
        )
        if not moved and not self._lost:
            return
        self._told = now
        rejected, self._lost = tuple(self._lost), []
        batch = Batch(self._decoder.nothing(), self._position.to_json(), rejected, now)
        self._handed = batch.position
        yield batch
