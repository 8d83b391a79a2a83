"""Whether a stream is still the one that the configuration describes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime

import numpy as np

from monitor.domain import utc

MIN_RECORDS = 100
"""Fewer are not judged."""

RECENT_RECORDS = 2_000
"""Judged together: the newest batches that hold so many, or the newest alone if it holds more."""

RECOVERED = 0.5
"""A paused stream is sound again when its newest records have at most this part of the limit."""


class Judge:
    """Keeps the share of bad records among the recent ones in sight.

    Args:
        limit: the share above which the stream is taken for the wrong one; 1 is never above.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._recent: deque[tuple[int, Counter[str]]] = deque()
        self._records = 0

    def too_bad(self, records: int, reasons: Mapping[str, int]) -> str:
        """Judge the recent records with these added; they count only if nothing is wrong.

        Args:
            records: how many came.
            reasons: reason → how many of them are bad.

        Returns:
            What is wrong, for people; empty if nothing is.
        """
        seen = self._records + records
        bad = sum((counts for _, counts in self._recent), Counter(reasons))
        share = bad.total() / seen if seen else 0.0
        if seen >= MIN_RECORDS and share > self._limit:
            listed = ", ".join(f"{count} {reason}" for reason, count in bad.most_common(3))
            return f"{bad.total()} of the last {seen} records cannot be understood ({listed})"
        self._recent.append((records, Counter(reasons)))
        self._records = seen
        while self._records - self._recent[0][0] >= RECENT_RECORDS:
            self._records -= self._recent.popleft()[0]
        return ""

    def recovered(self, records: int, bad: int) -> bool:
        """Whether a sample of the newest records is sound."""
        return records >= MIN_RECORDS and bad <= RECOVERED * self._limit * records

    def forget(self) -> None:
        """Judge afresh."""
        self._recent.clear()
        self._records = 0


def clocks_differ(what: str, newest: np.datetime64, now: datetime) -> str:
    """What is wrong when the newest of all is later than our clock allows, for people."""
    return (
        f"the newest {what} is of {utc(newest):%Y-%m-%d %H:%M} UTC, but this machine's clock "
        f"says {now:%Y-%m-%d %H:%M}: one of the two clocks is wrong"
    )
