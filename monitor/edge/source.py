"""The one contract of every source of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from monitor.domain import Batch


class SourceError(Exception):
    """The input as a whole cannot be what the configuration describes; a person must mend it.

    Single rows that cannot be understood are no such error: they travel as `Rejected`.
    """


class Source(Protocol):
    """Hands over events in batches.

    Every call is one finite pass over what is new; the daemon calls again at its next poll. A
    batch's position, given to the next call of any process, continues exactly behind that batch,
    so storing both in one transaction neither loses a row nor counts one twice.
    """

    def batches(self, after: Mapping[str, object] | None) -> Iterator[Batch]:
        """Everything after `after`; None is the beginning.

        Raises:
            SourceError: see there.
        """
        ...
