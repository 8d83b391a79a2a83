"""Records → events and faults, with the place where every partition stands behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from kafka import TopicPartition

from monitor.config import Config
from monitor.domain import Events, Rejected, datetime64
from monitor.edge.json_records import Decoded, Doubt, Fault, RecordDecoder
from monitor.edge.kafka.duplicates import Seen
from monitor.edge.kafka.pieces import Piece, Record
from monitor.edge.kafka.places import Place, Position
from monitor.edge.readers import Rejects

NOT_BAD = ("before_start", "duplicate", "excluded", "lost")
"""Reasons that say nothing about whether the stream is sound."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Records that were decoded, and nothing more: they may wait."""

    pieces: list[Piece]
    decoded: Decoded


@dataclass(frozen=True, slots=True)
class Taken:
    """Records on their way into a batch."""

    pieces: list[Piece]
    events: Events
    """Those to take in."""
    faults: list[Fault]
    """By record; every record is an event or a fault."""
    places: dict[TopicPartition, Place]
    """Where all partitions stand behind them."""
    needed: Collection[str] = ()
    """The fields that are read."""
    doubts: list[Doubt] = field(default_factory=list)
    """About events."""

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def record(self, row: int) -> Record:
        """The record in this place of all."""
        for piece in self.pieces:
            if row < len(piece):
                return piece.record(row)
            row -= len(piece)
        raise IndexError(row)

    def bad(self) -> list[Fault]:
        """Those that speak against the stream."""
        return [fault for fault in self.faults if fault.reason not in NOT_BAD]

    def rejected(self) -> tuple[Rejected, ...]:
        """The faults and doubts, counted and with examples."""
        tally = Rejects(self.needed)
        for fault in self.faults:
            record = self.record(fault.row)
            tally.add(fault.reason, record.where, fault.detail, record.value or b"")
        doubts = []
        for doubt in self.doubts:
            first = self.record(int(doubt.rows[0]))
            raw = tally.kept((first.value or b"")[:200])
            doubts.append(Rejected(doubt.reason, first.where, doubt.detail, len(doubt.rows), raw))
        return (*tally.listed(), *doubts)


class Sorter:
    """Decodes records and tells those that cannot be taken in.

    Args:
        config: of the source, the schema and the window.
        decoder: of values.
        now: the clock.

    Attributes:
        seen: ids that have come before; None: every record counts.
    """

    def __init__(self, config: Config, decoder: RecordDecoder, now: Callable[[], datetime]) -> None:
        self._window, self._decoder, self._now = config.settings.window, decoder, now
        self.seen: Seen | None = None

    def look(self, pieces: list[Piece]) -> Looked:
        """Decode records as they were read, without those read for their ids alone."""
        if self.seen is not None:
            pieces = self._remember(pieces, self.seen)
        values = [value for piece in pieces for value in piece.values]
        return Looked(pieces, self._decoder.decode(values))

    def sort(self, looked: Looked, position: Position) -> Taken:
        """Sort records into events and faults, and see how far they take every partition.

        Args:
            looked: once; their ids are remembered.
            position: where all partitions stand before them.
        """
        pieces, decoded = looked.pieces, looked.decoded
        at, rows, faults = decoded.events.at, decoded.rows, list(decoded.faults)
        keep = self._timely(at, rows, faults, position.since)
        if self.seen is not None and decoded.ids is not None:
            all_stamps = [stamp for piece in pieces for stamp in piece.stamps]
            stamps = [all_stamps[row] for row in rows.tolist()]
            ids = [one if k else None for one, k in zip(decoded.ids, keep.tolist(), strict=True)]
            fresh = np.array(self.seen.fresh(ids, stamps), bool)
            for row in rows[keep & ~fresh].tolist():
                faults.append(Fault(row, "duplicate", "an event with this id has come before"))
            keep &= fresh
        places = dict(position.places)
        first = 0
        for piece in pieces:
            last = first + len(piece)
            begin, end = np.searchsorted(rows, (first, last))
            times = at[begin:end][keep[begin:end]]
            before = places.get(piece.partition, Place(0))
            newest = before.newest
            if len(times):
                newest = max(int(times.max().astype(np.int64)), newest or 0)
            places[piece.partition] = Place(piece.offsets[-1] + 1, newest, piece.stamps[-1])
            first = last
        if self.seen is not None:
            self.seen.forget({one: place.stamp for one, place in places.items()})
        events = decoded.events if keep.all() else decoded.events.take(keep)
        doubts = [
            replace(doubt, rows=left)
            for doubt in decoded.doubts
            if len(left := doubt.rows[np.isin(doubt.rows, rows[keep])])
        ]
        return Taken(pieces, events, faults, places, self._decoder.needed, doubts)

    def _remember(self, pieces: list[Piece], seen: Seen) -> list[Piece]:
        """Learn the ids of records that were taken in before a restart; the others remain."""
        for piece in pieces:
            if piece.again:
                decoded = self._decoder.decode(piece.values)
                stamps = [piece.stamps[row] for row in decoded.rows.tolist()]
                seen.fresh(decoded.ids or (), stamps)
        return [piece for piece in pieces if not piece.again]

    def _timely(
        self, at: np.ndarray, rows: np.ndarray, faults: list[Fault], since: int | None
    ) -> np.ndarray:
        """Which events lie between the beginning of the reading and the bound of the future."""
        limit = datetime64(self._now() + self._window.max_future)
        future = at > limit
        detail = "stamped later than now; check the clock that wrote it"
        faults += [Fault(row, "future", detail) for row in rows[future].tolist()]
        keep: np.ndarray = ~future
        if since is not None:
            early = at < np.datetime64(since, "us")
            detail = "older than `source.start`: its slice was not read from the beginning"
            faults += [Fault(row, "before_start", detail) for row in rows[early].tolist()]
            keep &= ~early
        return keep
