"""Where to fetch every partition from: the store's offsets, a time, an end; and what is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from kafka import KafkaConsumer, TopicPartition

from monitor.config import KafkaSettings
from monitor.domain import datetime64
from monitor.edge.kafka.connection import ANSWER_MS
from monitor.edge.kafka.places import Place, Position

_log = structlog.get_logger("kafka")


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that were deleted before they could be read."""

    partition: TopicPartition
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Start:
    """Of the partitions at one moment."""

    fetch: Mapping[TopicPartition, int]
    """Offset to fetch from, of all."""
    fresh: Mapping[TopicPartition, Place]
    """Where those begin that were not read before, as the store sees it."""
    again: Mapping[TopicPartition, int]
    """Where records begin that were not handed over yet, if earlier ones are read for their ids."""
    lost: Sequence[Lost]


class Beginnings:
    """Finds starts.

    Args:
        settings: of the source.
        position: where the store stands.
        since: where a partition begins when nothing is known of any; None: `settings.start`.
        remember_ms: read so far back before the position, for the ids.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        position: Position,
        since: datetime | None,
        remember_ms: int,
    ) -> None:
        self._settings, self._since, self._remember_ms = settings, since, remember_ms
        self._stored = dict(position.places)

    def find(
        self,
        consumer: KafkaConsumer,
        partitions: Sequence[TopicPartition],
        reading: Mapping[TopicPartition, int],
    ) -> Start:
        """Where to go on or begin.

        Args:
            consumer: connected.
            partitions: all there are.
            reading: the next offset of those that are being read.

        Raises:
            LookupError: a partition ends before the place where the store stands.
        """
        first = consumer.beginning_offsets(partitions, timeout_ms=ANSWER_MS)
        end = consumer.end_offsets(partitions, timeout_ms=ANSWER_MS)
        fetch = {one: reading[one] for one in partitions if one in reading}
        fresh = {
            one: self._stored[one]
            for one in partitions
            if one not in reading and one in self._stored
        }
        unknown = [one for one in partitions if one not in reading and one not in self._stored]
        for one, offset in self._by_rule(consumer, unknown, first, end, bool(reading)).items():
            fresh[one] = Place(offset)
        fetch |= {one: place.offset for one, place in fresh.items()}
        lost = self._lost(fetch, first, end)
        fetch |= {gone.partition: gone.first + gone.count for gone in lost}
        fresh = {one: replace(place, offset=fetch[one]) for one, place in fresh.items()}
        earlier = self._for_ids(consumer, fresh, fetch, first)
        again = {one: fetch[one] for one in earlier}
        if fresh:
            _log.info("reading", partitions=len(partitions), new=len(unknown))
        return Start(fetch | earlier, fresh, again, lost)

    def _by_rule(
        self,
        consumer: KafkaConsumer,
        partitions: Sequence[TopicPartition],
        first: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        others: bool,
    ) -> dict[TopicPartition, int]:
        """Where partitions begin of which the store knows nothing."""
        if self._stored or others:
            return {one: first[one] for one in partitions}  # added while others were read
        if self._settings.start == "end":
            return {one: end[one] for one in partitions}
        if self._since is None:
            return {one: first[one] for one in partitions}
        moment = int(datetime64(self._since).astype("datetime64[ms]").astype(int))
        return _at(consumer, dict.fromkeys(partitions, moment), end)

    def _lost(
        self,
        wanted: Mapping[TopicPartition, int],
        first: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> list[Lost]:
        lost = []
        for one, offset in wanted.items():
            if offset < first[one]:
                gone = Lost(one, offset, first[one] - offset)
                _log.error(
                    "records were deleted before they were read; lengthen the topic's retention",
                    topic=one.topic, partition=one.partition, records=gone.count,
                )  # fmt: skip
                lost.append(gone)
            elif offset > end[one]:
                raise LookupError(
                    f"partition {one.partition} of `{one.topic}` ends at offset {end[one]}, before "
                    f"{offset}, where the store stands: the topic was made anew, or lost records. "
                    "If it is another topic now, give this configuration a [store] url of its own"
                )
        return lost

    def _for_ids(
        self,
        consumer: KafkaConsumer,
        places: Mapping[TopicPartition, Place],
        wanted: Mapping[TopicPartition, int],
        first: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Steps back in partitions that were read before, so far as ids are remembered."""
        if not self._remember_ms:
            return {}
        moments = {
            one: max(0, place.stamp - self._remember_ms)
            for one, place in places.items()
            if place.stamp >= 0
        }
        found = _at(consumer, moments, wanted)
        back = {one: max(min(at, wanted[one]), first[one]) for one, at in found.items()}
        return {one: offset for one, offset in back.items() if offset < wanted[one]}


def _at(
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
