"""Where reading stands in every partition: the part of the position that the store keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from kafka import TopicPartition

from monitor.config import KafkaSettings
from monitor.domain import datetime64


@dataclass(frozen=True, slots=True)
class Place:
    """How far one partition has been handed over."""

    offset: int
    """Of the next record."""
    newest: int | None = None
    """Event time of the newest event so far, microseconds since 1970."""
    stamp: int = -1
    """Kafka's timestamp of the last record, milliseconds since 1970; -1 before the first."""


@dataclass(frozen=True, slots=True)
class Position:
    """All partitions, and where the reading of a store without position began."""

    places: Mapping[TopicPartition, Place]
    since: int | None = None
    """Events before this are not taken in, microseconds since 1970: their slices were not read
    from their beginning."""

    def to_json(self) -> dict[str, object]:
        """For the store."""
        topics: dict[str, dict[str, list[int | None]]] = {}
        for one, place in sorted(self.places.items()):
            entry: list[int | None] = [place.offset, place.newest, place.stamp]
            topics.setdefault(one.topic, {})[str(one.partition)] = entry
        return {"kafka": topics, "since": self.since}

    @staticmethod
    def from_json(document: Mapping[str, Any] | None, topics: Iterable[str]) -> Position:
        """Inverse of `to_json`, for the topics that are read; of another source's position,
        nothing is known."""
        if not document or "kafka" not in document:
            return Position({})
        stored: Mapping[str, Mapping[str, list[Any]]] = document["kafka"]
        places = {
            TopicPartition(topic, int(partition)): Place(*entry)
            for topic in topics
            for partition, entry in stored.get(topic, {}).items()
        }
        return Position(places, document.get("since"))


def begin_at(settings: KafkaSettings, slice_length: timedelta, now: datetime) -> datetime | None:
    """The time from which a store without position reads: the beginning of a slice, since half a
    slice would look like a drop in traffic. None where it begins at an end of the topic."""
    match settings.start:
        case timedelta():
            at = now - settings.start
        case datetime():
            at = settings.start
        case _:
            return None
    length = int(slice_length / timedelta(microseconds=1))
    start = int(datetime64(at).astype(np.int64))
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return epoch + timedelta(microseconds=start - start % length)


def holds_at(
    place: Place, at_end: bool, silent: timedelta, idle_after: timedelta, now: datetime
) -> tuple[bool, int | None]:
    """Whether a partition holds the watermark back, and at which event time.

    While there are records to fetch, their times are unknown: it holds at its newest event. Read
    to its end, it has delivered all that was written until now: it holds `idle_after` behind the
    clock, or further if its events are older than their records by habit (a replayed past), and
    no longer at all once it is silent for `idle_after`.

    Args:
        place: of the partition.
        at_end: nothing more to fetch.
        silent: since its last record, by the clock on the wall.
        idle_after: of the settings.
        now: the clock.

    Returns:
        (False, None) if it is not waited for; (True, None) if it has delivered nothing yet.
    """
    if not at_end:
        return True, place.newest
    if place.newest is None or silent >= idle_after:
        return False, None
    habit = max(0, place.stamp * 1000 - place.newest)
    behind = int(datetime64(now - idle_after).astype(np.int64)) - habit
    return True, max(place.newest, behind)


def reached(holds: Iterable[int | None], newest: Iterable[int | None]) -> np.datetime64:
    """Event time up to which every partition that is waited for has delivered.

    Args:
        holds: see `holds_at`, of those that are waited for.
        newest: of all partitions, the time of the newest event; it is never passed, since the
            clock alone closes slices of live data only.

    Returns:
        NaT while a partition is waited for that has delivered nothing yet.

    >>> str(reached([7, 5], [7, 5]))
    '1970-01-01T00:00:00.000005'
    >>> str(reached([7], [7, 5]))
    '1970-01-01T00:00:00.000007'
    """
    awaited = list(holds)
    ever = [time for time in newest if time is not None]
    if not ever or any(time is None for time in awaited):
        return np.datetime64("NaT", "us")
    return np.datetime64(min([time for time in awaited if time is not None] + [max(ever)]), "us")
