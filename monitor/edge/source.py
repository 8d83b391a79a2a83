"""The one contract of every source of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from monitor.domain import Batch


class SourceError(Exception):
    """The input as a whole cannot be what the configuration describes; a person must mend it.

    Single rows that cannot be understood are no such error: they travel as `Rejected`.
    """


class SourceAwayError(SourceError):
    """The source cannot be reached; nothing is lost, and it is tried again at every poll."""


class Flow(Enum):
    """How the source is."""

    READING = "reading"
    """Everything there is has been handed over, but for what has just come."""
    CATCHING_UP = "catching_up"
    """There is a backlog."""
    PAUSED = "paused"
    """Too many records cannot be understood: the source waits for better ones."""
    AWAY = "away"
    """It cannot be reached."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a stream."""

    topic: str
    partition: int
    position: int
    """Offset of the next record to hand over."""
    lag: int
    """Records that are there and were not handed over."""
    newest: datetime | None
    """Event time of its newest event handed over."""
    idle: bool
    """Not waited for."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source is, for metrics, health and people."""

    flow: Flow = Flow.READING
    detail: str = ""
    """Why it is paused or away; how far it has caught up."""
    partitions: tuple[PartitionStatus, ...] = ()
    read_bytes: int = 0
    """Bytes of records read since the start."""
    buffered_bytes: int = 0
    """Memory of records read and not yet handed over."""
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """Reason → records written to the dead-letter topic since the start."""

    @property
    def current(self) -> bool:
        """Silence means that nothing happened; else it says nothing about the world."""
        return self.flow is Flow.READING


class Source(Protocol):
    """Hands over events in batches.

    Every call is one finite pass over what is new; the daemon calls again at its next poll, or at
    once while the source is catching up. A batch's position, given to the next call of any
    process, continues exactly behind that batch, so storing both in one transaction neither loses
    a row nor counts one twice.
    """

    def batches(self, after: Mapping[str, object] | None) -> Iterator[Batch]:
        """Everything after `after`; None is the beginning.

        Raises:
            SourceError: see there.
        """
        ...

    def status(self) -> SourceStatus:
        """How it is now; from any thread."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...
