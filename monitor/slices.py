"""Events → slices: half an hour of rows, with counts where rows repeat.

Slices add up, so late rows fold into their slice and windows are running sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from monitor.domain import Events, WindowSettings, datetime64


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one slice; equal rows are stored once with their count.

    Rows are in a fixed order (by value), so the order of arrival leaves no trace.
    """

    start: np.datetime64  # [us], UTC
    values: np.ndarray  # (m, attributes) codes of the Vocabulary, integers
    failed: np.ndarray  # (m, outcomes) bool
    weight: np.ndarray  # (m,) events per row, int32 or wider: its products with float32 are float64

    @property
    def rows(self) -> int:
        """Events in the slice."""
        return int(self.weight.sum())

    def compact(self) -> Slice:
        """The same, in less memory; columns lie together, for that is how they are read."""
        return Slice(
            self.start,
            narrowed(self.values, np.int16),
            np.asfortranarray(self.failed),
            narrowed(self.weight, np.int32),
        )


def narrowed(numbers: np.ndarray, narrow: type[np.signedinteger[Any]]) -> np.ndarray:
    """Integers in the narrow type if all of them fit; an array of its own, column by column."""
    bounds = np.iinfo(narrow)
    fits = not len(numbers) or (numbers.min() >= bounds.min and numbers.max() <= bounds.max)
    return numbers.astype(narrow if fits else numbers.dtype, order="F")


def empty(start: np.datetime64, attributes: int, outcomes: int) -> Slice:
    """A slice without rows: a gap, or a night without traffic."""
    return Slice(
        start,
        np.empty((0, attributes), np.int32),
        np.empty((0, outcomes), bool),
        np.empty(0, np.int64),
    )


def aggregate(
    start: np.datetime64, values: np.ndarray, failed: np.ndarray, weight: np.ndarray
) -> Slice:
    """Rows → slice: equal rows become one, in a fixed order."""
    if not len(values):
        return Slice(start, values, failed, weight)
    bits = failed @ (1 << np.arange(failed.shape[1], dtype=np.int64))
    columns = np.column_stack([values.astype(np.int64) + 1, bits])
    key = _mixed_radix(columns)
    if key is None:
        _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    counts = np.bincount(inverse.ravel(), weight, len(first)).astype(np.int64)
    return Slice(start, values[first], failed[first], counts)


def merge(one: Slice, other: Slice) -> Slice:
    """The slice that holds the rows of both."""
    assert one.start == other.start, "slices of different times do not merge"
    return aggregate(
        one.start,
        np.concatenate([one.values, other.values]),
        np.concatenate([one.failed, other.failed]),
        np.concatenate([one.weight, other.weight]),
    )


def _mixed_radix(columns: np.ndarray) -> np.ndarray | None:
    """One int64 per row that sorts like the row, or None where that would overflow."""
    sizes = columns.max(axis=0) + 1
    if np.log2(sizes.astype(float)).sum() >= 62:
        return None
    key = np.zeros(len(columns), np.int64)
    for column, size in zip(columns.T, sizes, strict=True):
        key *= size
        key += column
    return key


@dataclass(frozen=True, slots=True)
class Sliced:
    """Where a batch of events went."""

    open: Mapping[np.datetime64, Slice]
    """Slices still filling, after this batch."""
    late: Mapping[np.datetime64, Slice]
    """Rows of slices already closed but still kept: to be folded in."""
    too_late: int
    """Rows older than everything kept: counted, lost to the windows."""
    future: np.ndarray
    """Indices of the rows stamped beyond the bound; they do not move the watermark."""
    watermark: np.datetime64 | None
    """Event time no longer waited for."""


def slice_starts(at: np.ndarray, settings: WindowSettings) -> np.ndarray:
    """Start of the slice of each event time, (n,) datetime64[us]."""
    length = np.int64(settings.slice_length.total_seconds() * 1e6)
    ticks = at.astype("datetime64[us]").astype(np.int64)
    return np.asarray((ticks - ticks % length).astype("datetime64[us]"))


def slice_events(
    events: Events,
    settings: WindowSettings,
    *,
    filling: Mapping[np.datetime64, Slice],
    watermark: np.datetime64 | None,
    closed_until: np.datetime64 | None,
    kept_since: np.datetime64 | None,
    now: datetime,
    reached: np.datetime64 | None = None,
) -> Sliced:
    """Sort a batch into slices.

    Args:
        events: the batch, in any order.
        settings: slice length, lateness, bound on the future.
        filling: slices not closed yet.
        watermark: before this batch.
        closed_until: end of the newest closed slice; rows before it are late.
        kept_since: start of the oldest slice still kept; rows before it are too late.
        now: the clock; a row later than `now` plus the bound is from the future.
        reached: event time up to which the source has delivered, NaT if it cannot tell; None:
            the newest event of the batch.
    """
    limit = datetime64(now + settings.max_future)
    future = events.at > limit
    kept = ~future
    starts = slice_starts(events.at, settings)
    too_late = np.zeros(len(events), bool)
    if kept_since is not None:
        too_late = kept & (starts < kept_since)
        kept &= ~too_late
    open_slices, late = dict(filling), {}
    if kept.any():
        # lateness may still admit rows of an open slice; only closed ones are late
        for start, rows in _by_start(starts, kept):
            fresh = aggregate(
                start, events.values[rows], events.failed[rows], np.ones(len(rows), np.int64)
            )
            if closed_until is not None and start < closed_until:
                late[start] = fresh
            else:
                before = open_slices.get(start)
                open_slices[start] = fresh if before is None else merge(before, fresh)
        if reached is None:
            reached = events.at[kept].max()
    if reached is not None and not np.isnat(reached):
        seen = reached - np.timedelta64(settings.allowed_lateness)
        watermark = seen if watermark is None else max(watermark, seen)
    return Sliced(open_slices, late, int(too_late.sum()), np.flatnonzero(future), watermark)


def _by_start(starts: np.ndarray, kept: np.ndarray) -> list[tuple[np.datetime64, np.ndarray]]:
    rows = np.flatnonzero(kept)
    order = rows[np.argsort(starts[rows], kind="stable")]
    distinct, first = np.unique(starts[order], return_index=True)
    return list(zip(distinct, np.split(order, first[1:]), strict=True))
