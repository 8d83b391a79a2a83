"""Whether the log is being caught up with: what lies behind it is no news.

After a first start or a long gap hours are read in minutes. Nobody is told of what they bring until
they are read: then it is known what is over, and what still holds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

LONGEST = timedelta(hours=1)
"""A log that cannot be caught up with is told of nevertheless, by the clock."""


class Pace:
    """Shared by the worker, which knows, and the outbox, which asks."""

    def __init__(self) -> None:
        self._began: datetime | None = None
        self.caught_up_at: datetime | None = None
        """When it last was; None while it never was behind."""

    def falls_behind(self, now: datetime) -> None:
        """What is read from now on happened long ago."""
        if self._began is None:
            self._began = now

    def catches_up(self, now: datetime) -> None:
        """All that there is has been read."""
        if self._began is not None:
            self._began, self.caught_up_at = None, now

    def is_behind(self, now: datetime) -> bool:
        """Whether what is found may be over by now. A clock that is set back ends it."""
        return self._began is not None and timedelta(0) <= now - self._began < LONGEST
