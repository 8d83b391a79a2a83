"""Files are not read past rows that a wrong clock or a wrong configuration may have rejected.

A batch that cannot be what the configuration describes, or whose newest row lies in the future, is
not handed over: the position stays where it is, so nothing is lost once the clock or the
configuration is mended. What comes behind it is looked at without being handed over; when that is
sound, the bad stretch was bad data and no more, and reading goes on through it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import structlog

from monitor.domain import Batch, Rejected, datetime64
from monitor.edge.judge import MIN_RECORDS, RECENT_RECORDS, RECOVERED, clocks_differ
from monitor.edge.source import Flow, Source, SourceAwayError, SourceStatus

ABSURD = np.timedelta64(365, "D")

_log = structlog.get_logger("files")


class HoldingSource:
    """See `monitor.edge.source.Source`.

    Args:
        files: hands over all there is, however bad; it can be read again from any position.
        limit: share of rejected rows above which the input is taken for the wrong one; 1 holds
            nothing.
        max_future: how much later than now a row may be.
        now: the clock.
    """

    def __init__(
        self, files: Source, limit: float, max_future: timedelta, now: Callable[[], datetime]
    ) -> None:
        self._files, self._limit = files, limit
        self._max_future, self._now = max_future, now
        self._why = ""
        """Why nothing is handed over; empty while all is well."""
        self._ahead: Mapping[str, object] | None = None
        """While it holds: up to here was looked ahead."""
        self._held = 0, 0, 0
        """Rows of the batch that is not handed over, as in `_recent`."""
        self._recent: deque[tuple[int, int, int]] = deque()
        """Of the newest batches seen: all rows, rejected ones, ones from the future."""
        self._fresh = False
        """Nothing was ever taken in."""
        self._ends_in_future = False
        """The newest row seen is later than the clock allows."""

    def batches(self, after: Mapping[str, object] | None) -> Iterator[Batch]:
        """See `Source`."""
        self._fresh = after is None
        lets_pass = bool(self._why) and self._look(self._ahead) and self._sound()
        position = after
        reading = self._files.batches(after)
        for batch in reading:
            why = "" if lets_pass or self._limit >= 1 else self._refusal(batch)
            if not why:
                self._note(batch)
                position = batch.position
                yield batch
                continue
            if self._why:
                self._why = why
                return
            self._recent.clear()
            self._note(batch)
            self._held, self._ahead = self._recent.pop(), batch.position
            future = self._ends_in_future
            with suppress(SourceAwayError):  # told when it is read
                for further in reading:
                    self._note(further)
                    self._ahead = further.position
            # Only what is written later than the row from the future shows whose clock is wrong.
            self._ends_in_future |= future
            if not self._sound():
                self._hold(why)
                return
            _log.warning("a stretch of bad rows is read through: what follows is sound", was=why)
            yield from self._files.batches(position)
            break
        self._let_go()

    def status(self) -> SourceStatus:
        """See `Source`."""
        inner = self._files.status()
        return replace(inner, flow=Flow.PAUSED, detail=self._why) if self._why else inner

    def close(self) -> None:
        """See `Source`."""
        self._files.close()

    def _hold(self, why: str) -> None:
        self._why = why
        _log.error(
            "paused: nothing is handed over until this is mended or the newest rows are sound "
            "again; no row is skipped",
            detail=why,
        )

    def _let_go(self) -> None:
        if self._why:
            _log.warning("going on", was=self._why)
            self._why = ""
            self._recent.clear()

    def _look(self, position: Mapping[str, object] | None) -> bool:
        """Look at what has come since; whether there was anything."""
        came = False
        with suppress(SourceAwayError):
            for batch in self._files.batches(position):
                self._note(batch)
                self._ahead = batch.position
                came = came or len(batch.events) > 0
        return came

    def _note(self, batch: Batch) -> None:
        bad = _bad(batch)
        if len(batch.events):
            self._ends_in_future = self._future(batch) is not None
        future = int((batch.events.at > self._latest()).sum())
        self._recent.append((len(batch.events) + bad, bad, future))
        while sum(rows for rows, *_ in self._recent) - self._recent[0][0] >= RECENT_RECORDS:
            self._recent.popleft()

    def _sound(self) -> bool:
        """Whether the newest rows are what the configuration describes."""
        rows, bad, _ = (sum(column) for column in zip((0, 0, 0), *self._recent, strict=True))
        if rows < MIN_RECORDS:  # too few to be judged by themselves
            rows, bad = rows + self._held[0], bad + self._held[1]
        enough = bad <= RECOVERED * self._limit * rows if rows >= MIN_RECORDS else bad < rows
        return enough and not self._ends_in_future

    def _refusal(self, batch: Batch) -> str:
        """Why the batch is not handed over; empty if it is."""
        newest = self._future(batch)
        if newest is not None:
            return clocks_differ("row", newest, self._now())
        excluded = [one for one in batch.rejected if one.result == "excluded"]
        seen = len(batch.events) + sum(rows for rows, *_ in self._recent)
        if self._fresh and not seen and sum(one.count for one in excluded) >= MIN_RECORDS:
            example = f"{excluded[0].where}: {excluded[0].detail}"
            return f"`source.where` leaves out every row so far; for example {example}"
        fresh = _bad(batch)
        rows = len(batch.events) + fresh + sum(rows for rows, *_ in self._recent)
        bad = fresh + sum(bad for _, bad, _ in self._recent)
        # Of a few rows only none at all says that the configuration is wrong.
        if not fresh or (bad <= self._limit * rows if rows >= MIN_RECORDS else bad < rows):
            return ""
        first = next(one for one in batch.rejected if _speaks(one))
        return (
            f"{bad} of {rows} rows cannot be understood, more than `source.max_rejected_ratio` = "
            f"{self._limit:g} allows; for example {first.where}: {first.detail}"
        )

    def _future(self, batch: Batch) -> np.datetime64 | None:
        """The time of the last row if it is too late to be true."""
        at, limit = batch.events.at, self._latest()
        if (at <= limit).any() or any(bad + future < rows for rows, bad, future in self._recent):
            # No clock is off by a year that was right a moment ago: a row from 2099 is a bad row.
            at = at[at <= limit + ABSURD]
        return at[-1] if len(at) and at[-1] > limit else None

    def _latest(self) -> np.datetime64:
        """No row may be later."""
        return datetime64(self._now() + self._max_future)


def _bad(batch: Batch) -> int:
    """How many rows speak against the configuration."""
    return sum(one.count for one in batch.rejected if _speaks(one))


def _speaks(one: Rejected) -> bool:
    return one.result == "rejected" and one.reason not in _LOST


_LOST = ("replaced", "vanished")
"""Files that are gone: no configuration brings them back."""
