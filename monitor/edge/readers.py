"""What every file format offers to the file source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from monitor.domain import Rejected
from monitor.edge.decoding import Locate

BATCH_ROWS = 1 << 17
"""Rows held at once."""

State = Mapping[str, Any]
"""How far one file has been read; JSON-able."""


class UnreadableError(Exception):
    """A file that cannot be read (further).

    Attributes:
        reason: the short word for `Rejected`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of one file."""

    rows: pa.RecordBatch
    locate: Locate
    state: State
    """Reading again from here gives what follows."""
    rejected: tuple[Rejected, ...] = ()
    """Records that were no rows at all."""
    lost: int = 0
    """How many those were."""


class Reader(Protocol):
    """One open file."""

    def columns(self) -> set[str] | None:
        """The columns it has; None while it has no row to tell from.

        Raises:
            UnreadableError: it is broken.
        """
        ...

    def optional(self) -> bool:
        """True when a row may leave out a column that others have, as in JSON."""
        ...

    def chunks(self, state: State) -> Iterator[Chunk]:
        """The rows behind `state`.

        Raises:
            UnreadableError: it breaks off.
        """
        ...
