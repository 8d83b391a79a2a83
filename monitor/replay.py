"""A bounded input, whole: every slice from its first to its last, in order of event time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from monitor.domain import Batch, Rejected, Schema, WindowSettings, datetime64
from monitor.slices import Slice, aggregate, empty, slice_starts

MAX_GAP_WINDOWS = 2
"""A hole in the data longer than this is jumped over: nothing could be learned in it."""


@dataclass(frozen=True, slots=True)
class Input:
    """All rows of a bounded input, sorted by slice."""

    starts: np.ndarray  # (slices,) datetime64[us], ascending: slices that have rows
    first: np.ndarray  # (slices + 1,) where each slice's rows begin
    values: np.ndarray  # (n, attributes) int32
    failed: np.ndarray  # (n, outcomes) bool
    rejected: tuple[Rejected, ...]
    """What could not be used, or not whole."""
    rejected_rows: int
    """Rows among them that were left out against the log's will."""

    @property
    def rows(self) -> int:
        """Rows accepted."""
        return len(self.values)

    def slices(
        self, settings: WindowSettings, after: np.datetime64 | None = None
    ) -> Iterator[Slice]:
        """Every slice later than `after`, empty ones included, long holes left out."""
        step = np.timedelta64(settings.slice_length)
        longest = MAX_GAP_WINDOWS * np.timedelta64(settings.length)
        attributes, outcomes = self.values.shape[1], self.failed.shape[1]
        previous: np.datetime64 | None = None
        for i, start in enumerate(self.starts):
            if previous is not None and start - previous <= longest:
                for missing in np.arange(previous + step, start, step):
                    if after is None or missing > after:
                        yield empty(missing, attributes, outcomes)
            previous = start
            if after is not None and start <= after:
                continue
            rows = slice(self.first[i], self.first[i + 1])
            count = int(self.first[i + 1] - self.first[i])
            yield aggregate(start, self.values[rows], self.failed[rows], np.ones(count, np.int64))

    def done(self, settings: WindowSettings, last: np.datetime64 | None) -> int:
        """How many of them start no later than `last`."""
        if last is None:
            return 0
        return self.count_slices(settings) - sum(1 for _ in self.slices(settings, after=last))

    def count_slices(self, settings: WindowSettings) -> int:
        """How many `slices` yields from the beginning."""
        if not len(self.starts):
            return 0
        step = np.timedelta64(settings.slice_length)
        longest = MAX_GAP_WINDOWS * np.timedelta64(settings.length)
        apart = np.diff(self.starts)
        return 1 + int(np.where(apart <= longest, apart // step, 1).sum())


def gather(
    batches: Iterable[Batch],
    schema: Schema,
    settings: WindowSettings,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Input:
    """Read a bounded input and sort it by slice.

    Rows later than `now` plus the bound on the future are quarantined: one row of the year 2099
    must not make the replay tick through 86 empty years.

    Args:
        batches: from a source, in any order.
        schema: the columns.
        settings: slice length and the bound on the future.
        now: the clock.
        since, until: keep only rows in this half-open range.
        progress: told how many rows were read.
    """
    limit = datetime64(now + settings.max_future)
    starts, values, failed = [], [], []
    rejected: list[Rejected] = []
    count = 0
    for batch in batches:
        events = batch.events
        future = events.at > limit
        keep = ~future
        if future.any():
            worst = events.at[future].max()
            rejected.append(
                Rejected(
                    "future",
                    batch.where,
                    f"rows stamped later than now, up to {worst}; check the clock that wrote them",
                    int(future.sum()),
                )
            )
        if since is not None:
            keep &= events.at >= datetime64(since)
        if until is not None:
            keep &= events.at < datetime64(until)
        rejected += batch.rejected
        starts.append(slice_starts(events.at[keep], settings))
        values.append(events.values[keep])
        failed.append(events.failed[keep])
        count += len(events)
        progress(len(events))
    all_starts = np.concatenate(starts) if starts else np.empty(0, "datetime64[us]")
    width = len(schema.attributes), len(schema.outcomes)
    all_values = np.concatenate(values) if values else np.empty((0, width[0]), np.int32)
    all_failed = np.concatenate(failed) if failed else np.empty((0, width[1]), bool)
    if (np.diff(all_starts) < np.timedelta64(0)).any():
        order = np.argsort(all_starts, kind="stable")
        all_starts, all_values, all_failed = all_starts[order], all_values[order], all_failed[order]
    distinct, first = np.unique(all_starts, return_index=True)
    return Input(
        distinct,
        np.append(first, len(all_starts)),
        all_values,
        all_failed,
        tuple(rejected),
        sum(one.count for one in rejected if one.result == "rejected"),
    )
