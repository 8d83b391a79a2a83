"""Events told twice, known by their id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from kafka import TopicPartition

BUCKET_MS = 60_000


class Seen:
    """The ids of the recent past, by Kafka's timestamps.

    Args:
        within_ms: how long an id is remembered, against the slowest partition.
    """

    def __init__(self, within_ms: int) -> None:
        self._within = within_ms
        self._ids: set[int] = set()
        self._buckets: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def fresh(self, ids: Iterable[Hashable], stamps: Sequence[int]) -> list[bool]:
        """Which of the ids were not met before; None never was. They are remembered."""
        known, buckets = self._ids, self._buckets
        answer = []
        for one, stamp in zip(ids, stamps, strict=True):
            if one is None:
                answer.append(True)
                continue
            # 64 bits: of a hundred million ids, two fall together once in 3,700 such sets.
            key = hash(one)
            if key in known:
                answer.append(False)
                continue
            known.add(key)
            bucket = stamp // BUCKET_MS
            if bucket not in buckets:
                buckets[bucket] = []
            buckets[bucket].append(key)
            answer.append(True)
        return answer

    def forget(self, stamps: Mapping[TopicPartition, int]) -> None:
        """Drop what lies further back than is remembered, by the slowest of the partitions."""
        known = [stamp for stamp in stamps.values() if stamp >= 0]
        if not known:
            return
        limit = (min(known) - self._within) // BUCKET_MS
        for bucket in [b for b in self._buckets if b < limit]:
            self._ids.difference_update(self._buckets.pop(bucket))
