"""Records between the thread that polls and the one that takes in: bounded, by partition."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from kafka import TopicPartition

from monitor.edge.kafka.pieces import Piece


class Buffer:
    """Pieces that wait, in order within each partition. For two threads.

    Args:
        limit_bytes: full from here on; the last poll may go beyond it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: dict[TopicPartition, deque[Piece]] = {}
        self._ahead: frozenset[TopicPartition] = frozenset()
        self._closed = False
        self._changed = threading.Condition()
        self.size_bytes = 0
        """Memory of what waits."""

    @property
    def full(self) -> bool:
        """Nothing more should be fetched now."""
        return self.size_bytes >= self._limit_bytes

    def put(self, pieces: Iterable[Piece]) -> None:
        """More, in order."""
        with self._changed:
            for piece in pieces:
                self._waiting.setdefault(piece.partition, deque()).append(piece)
                self.size_bytes += piece.size_bytes
            self._changed.notify_all()

    def has_room(self, wait_seconds: float) -> bool:
        """Whether it is not full, or ceases to be soon."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self.full, wait_seconds)
            return not self.full

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
                self._changed.wait_for(lambda: self._takeable() or self._closed, wait_seconds)
            reached = newest or {}
            order = sorted(self._takeable(), key=lambda one: (reached.get(one) or 0, one))
            taken: list[Piece] = []
            count = 0
            for one in order:
                if count >= records:
                    break
                waiting = self._waiting[one]
                piece = waiting.popleft()
                if not waiting:
                    del self._waiting[one]
                taken.append(piece)
                count += len(piece)
                self.size_bytes -= piece.size_bytes
            self._changed.notify_all()
            return taken

    def _takeable(self) -> list[TopicPartition]:
        """Partitions with records at hand. Those far ahead wait for the slower ones, unless the
        buffer is full of them: then nothing else can come."""
        due = [one for one in self._waiting if one not in self._ahead]
        if due or not self.full:
            return due
        return list(self._waiting)

    def hold(self, ahead: Iterable[TopicPartition]) -> None:
        """Let these wait for slower ones, until called again."""
        self._ahead = frozenset(ahead)

    def waiting(self) -> Counter[TopicPartition]:
        """Records that wait to be taken, by partition."""
        with self._changed:
            counts: Counter[TopicPartition] = Counter()
            for one, pieces in self._waiting.items():
                counts[one] = sum(map(len, pieces))
            return counts

    def newest(self, each: int) -> dict[TopicPartition, list[bytes | None]]:
        """The values of the last records that wait, up to `each` of a partition, in order."""
        with self._changed:
            found: dict[TopicPartition, list[bytes | None]] = {}
            for one, pieces in self._waiting.items():
                values: list[bytes | None] = []
                for piece in reversed(pieces):
                    values[:0] = piece.values[len(values) - each :]
                    if len(values) >= each:
                        break
                found[one] = values
            return found

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
