"""Several logs at once, by event time: hosts side by side, or rotated files whose names run
backwards.

The log whose next rows are the oldest is read next, and no slice closes before all logs have
passed it, so it does not matter in which order files are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from monitor.domain import Events, Rejected
from monitor.edge.blocks import State
from monitor.edge.readers import Reader
from monitor.edge.source import SourceError
from monitor.edge.streams import UnreadableError

MAX_OPEN = 6
"""Logs read at the same time. Of more, those that are furthest ahead are closed and later opened
again where they were, so that memory and descriptors do not grow with their number."""

_UNKNOWN = np.datetime64(np.iinfo(np.int64).min + 1, "us")
"""Before all times: rows without a time are read first, to know what follows."""

_NEVER = np.datetime64("NaT", "us")


@dataclass(slots=True, eq=False)
class File:
    """One log with news."""

    path: str
    mark: list[int] | None
    """How the file looked when its reading began."""
    reader: Reader | None = None
    """None: not opened yet, or opened again at its turn."""
    trouble: UnreadableError | None = None
    identity: dict[str, object] = field(default_factory=dict)
    """Part of every state of it: what is known of it beside its rows."""
    done: bool = False
    """Everything that could be read was handed over."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one log."""

    events: Events
    rejected: tuple[Rejected, ...]
    state: State
    """Reading again from here gives what follows."""
    passing: bool = False
    """Not rows, but a trouble that may be over at the next look."""


class Reading(Protocol):
    """How logs are read."""

    def begins(self, file: File, state: State) -> np.datetime64 | None:
        """Event time of the first rows behind `state`."""
        ...

    def read(self, file: File, state: State) -> Iterator[Piece]:
        """What stands behind `state`."""
        ...


@dataclass(slots=True, eq=False)
class _Cursor:
    """How far one log has been read."""

    file: File
    at: np.datetime64
    """Event time of the next rows."""
    rest: Iterator[Piece] | None = None
    """Open, behind `ahead`."""
    ahead: Piece | None = None
    error: SourceError | None = None
    """Met behind what was handed over; raised at its turn."""
    ended: bool = False
    passing: bool = False


class Merging:
    """One pass over some logs.

    Args:
        files: with news.
        reading: reads them.
        states: where each begins; the caller moves them on as pieces are handed over.
        latest: event times beyond are wrong and say nothing of the order.
    """

    def __init__(
        self,
        files: list[File],
        reading: Reading,
        states: Mapping[str, State],
        latest: np.datetime64,
    ) -> None:
        self.files, self.reading, self.states, self.latest = files, reading, states, latest

    def pieces(self) -> Iterator[tuple[File, Piece, np.datetime64 | None]]:
        """All there is, with the event time that all logs have reached: NaT if that is unknown
        yet; None if there is one log only, whose newest rows tell.

        Raises:
            SourceError: the log at hand is not as configured; what came before was handed over.
        """
        if len(self.files) == 1:
            yield from self._alone(self.files[0])
            return
        cursors = [_Cursor(file, self._begins(file)) for file in self.files]
        newest: np.datetime64 = _UNKNOWN
        while cursors:
            cursor = min(cursors, key=lambda one: one.at)
            if cursor.ahead is None:
                self._look_ahead(cursor)
            if cursor.error is not None:
                raise cursor.error
            piece, cursor.ahead = cursor.ahead, None
            if piece is not None:
                newest = np.maximum(newest, self._last(piece.events.at))
                cursor.passing |= piece.passing
                if not cursor.ended:
                    self._look_ahead(cursor)
            if cursor.ended and cursor.ahead is None:
                cursors.remove(cursor)
            if piece is not None:
                slowest = min((one.at for one in cursors), default=newest)
                reached = min(slowest, newest)
                yield cursor.file, piece, _NEVER if reached == _UNKNOWN else reached
            if cursor not in cursors:
                cursor.file.done = not cursor.passing
            self._close_some(cursors)

    def _alone(self, file: File) -> Iterator[tuple[File, Piece, np.datetime64 | None]]:
        passing = False
        for piece in self.reading.read(file, self.states.get(file.path, {})):
            passing |= piece.passing
            yield file, piece, None
        file.done = not passing

    def _begins(self, file: File) -> np.datetime64:
        begins = self.reading.begins(file, self.states.get(file.path, {}))
        return _UNKNOWN if begins is None else begins

    def _look_ahead(self, cursor: _Cursor) -> None:
        """Read the next piece, to know its time."""
        if cursor.rest is None:
            cursor.rest = self.reading.read(cursor.file, self.states.get(cursor.file.path, {}))
        try:
            cursor.ahead = next(cursor.rest, None)
        except SourceError as error:
            cursor.error = error
        cursor.ended = cursor.ahead is None and cursor.error is None
        if cursor.ahead is not None:
            times = cursor.ahead.events.at
            times = times[times <= self.latest]
            if len(times):
                cursor.at = times.min()

    def _last(self, times: np.ndarray) -> np.datetime64:
        sound = times[times <= self.latest]
        last: np.datetime64 = sound.max() if len(sound) else _UNKNOWN
        return last

    def _close_some(self, cursors: list[_Cursor]) -> None:
        opened = [one for one in cursors if one.rest is not None]
        for cursor in sorted(opened, key=lambda one: one.at)[MAX_OPEN:]:
            # What was read ahead is read again: nobody has seen it.
            cursor.rest = cursor.ahead = None
            cursor.file.reader = None
