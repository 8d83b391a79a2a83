"""In what the log is no longer as it was: told while the monitor runs, from what history keeps.

The newest slices are compared with the same hours of the days before and of a week ago: a night or
a Sunday that is always so is no change; a change is told until it was so on most days of a week.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from monitor.baseline import Taught
from monitor.domain import MISSING, Misfit, Schema, WindowSettings

NEWEST = 2
"""Half hours, or longer slices, in which a change has to show."""
LEAST_ROWS = 100
"""Of these slices."""
VANISHED = 0.99
"""Missing share from which on nothing of a column is left, and share from which on it is all."""
JUMP = 0.3
"""Rise of a share that is no accident."""
USUAL_FAILURES = 20
"""Of an outcome, where now there is none, or of failures that have a code: that is no accident."""
DAYS = 7
"""To compare with."""


class Departures:
    """Compares the newest slices with the days before, and the last week with those before it.

    Args:
        schema: of the log.
        window: its slices.
    """

    def __init__(self, schema: Schema, window: WindowSettings) -> None:
        self._schema = schema
        self._day, self._week = (window.slices_in(timedelta(days=days)) for days in (1, DAYS))
        self._newest = NEWEST * window.per_half_hour
        self._counts: dict[int, _Counts] = {}

    def forget(self, start: int) -> None:
        """A slice has changed: late rows came."""
        self._counts.pop(start, None)

    def seen(
        self, history: Iterable[Taught], unknown: Mapping[int, frozenset[int]]
    ) -> tuple[Misfit, ...]:
        """What is no longer as it was.

        Args:
            history: oldest first.
            unknown: start of a slice → outcomes of which it says nothing: these have no past.
        """
        self._counts = dict(self._counted(history))
        counts = list(self._counts.values())
        filled = [n for n, one in enumerate(counts) if one.rows]
        now = [counts[n] for n in filled[-self._newest :]]
        if len(filled) - len(now) < self._day or sum(one.rows for one in now) < LEAST_ROWS:
            return ()
        days = self._days_before(now)
        nothing_said = sorted(frozenset().union(*unknown.values()))
        return (
            *_attributes(self._schema, _Shares.of(now), [_Shares.of(day) for day in days]),
            *self._outcomes(counts, now, days, nothing_said),
        )

    def _counted(self, history: Iterable[Taught]) -> Iterator[tuple[int, _Counts]]:
        none = np.full(len(self._schema.attributes), MISSING)
        starts: list[int] = []
        heard: list[np.ndarray] = []  # of until then
        for taught in history:
            if not (counts := self._counts.get(taught.start)):
                known = bisect_right(starts, taught.start - _DAY)
                counts = _Counts.of(taught, self._schema, heard[known - 1] if known else none)
            starts.append(taught.start)
            heard.append(np.maximum(heard[-1] if heard else none, counts.newest))
            yield taught.start, counts

    def _days_before(self, now: Sequence[_Counts]) -> list[list[_Counts]]:
        """The same hours of the days before, the latest day first, as far as there were rows."""
        days = []
        for day in range(1, DAYS + 1):
            starts = (one.start - day * _DAY for one in now)
            days.append([c for start in starts if (c := self._counts.get(start)) and c.rows])
        return [day for day in days if day]

    def _outcomes(
        self,
        counts: Sequence[_Counts],
        now: Sequence[_Counts],
        days: Sequence[Sequence[_Counts]],
        nothing_said: Sequence[int],
    ) -> Iterator[Misfit]:
        failures = np.array([one.failures for one in counts])
        lately = failures[-self._week :].sum(axis=0)
        before = failures[: -self._week].sum(axis=0) / max(len(failures) / self._week - 1, 1)
        share, usual = _rate(now), np.array([_rate(day) for day in days])
        rows = sum(one.rows for one in now)
        for o, name in enumerate(self._schema.outcomes):
            if o in nothing_said:
                continue
            if not lately[o] and before[o] >= USUAL_FAILURES:
                yield Misfit(
                    "silent",
                    name,
                    f"outcome `{name}` has not happened for a week; it did {before[o]:.0f} times a "
                    "week",
                )
            elif not share[o] and len(usual) > 1 and usual[:, o].min() * rows >= USUAL_FAILURES:
                yield Misfit(
                    "silent",
                    name,
                    f"outcome `{name}` does not happen any more; on each day before it did at this "
                    f"time, in {usual[:, o].min():.1%} of the rows or more",
                )
            elif share[o] >= VANISHED and len(usual) and np.median(usual[:, o]) <= 1 - JUMP:
                yield Misfit(
                    "always",
                    name,
                    f"outcome `{name}` happens in {share[o]:.0%} of the rows, it did in "
                    f"{np.median(usual[:, o]):.0%}; if not all fails, its `when` no longer fits",
                )


_DAY = int(timedelta(days=1) / timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a slice says of its columns."""

    start: int
    rows: float
    failures: np.ndarray  # (outcomes,)
    asked: np.ndarray  # (attributes,) rows that should have a value; of a code, failures
    missing: np.ndarray  # (attributes,) of these, those without one
    top: np.ndarray  # (attributes,) the most frequent value
    of_top: np.ndarray  # (attributes,) its rows
    unheard: np.ndarray  # (attributes,) rows with a value that is not a day old
    newest: np.ndarray  # (attributes,) the value heard of last: values are numbered as they come

    @classmethod
    def of(cls, taught: Taught, schema: Schema, heard: np.ndarray) -> _Counts:
        size = len(schema.attributes)
        asked, missing, of_top, unheard = np.zeros((4, size))
        top, latest = np.full((2, size), MISSING)
        failing = taught.failures.sum(axis=1)
        for a, (attribute, codes) in enumerate(
            zip(schema.attributes, taught.values.T, strict=True)
        ):
            weight = failing if attribute.is_code else taught.exposure
            asked[a], missing[a] = weight.sum(), weight[codes == MISSING].sum()
            there, at = np.unique(codes[codes != MISSING], return_inverse=True)
            if len(there):
                counted = np.bincount(at, weight[codes != MISSING])
                top[a], of_top[a] = there[counted.argmax()], counted.max()
                unheard[a], latest[a] = counted[there > heard[a]].sum(), there[-1]
        failures = taught.failures.sum(axis=0).astype(float)
        rows = float(taught.exposure.sum())
        return cls(taught.start, rows, failures, asked, missing, top, of_top, unheard, latest)


@dataclass(frozen=True, slots=True)
class _Shares:
    """What some slices say together; shares by attribute."""

    asked: np.ndarray
    missing: np.ndarray
    single: np.ndarray
    """Share of the most frequent value; 0 if it was not the same in all slices."""
    unheard: np.ndarray
    """Share of values that are not a day old."""

    @classmethod
    def of(cls, slices: Sequence[_Counts]) -> _Shares:
        asked, missing, of_top, unheard = (
            np.sum([getattr(one, name) for one in slices], axis=0)
            for name in ("asked", "missing", "of_top", "unheard")
        )
        there = np.maximum(asked - missing, 1e-9)
        same = np.ptp([one.top for one in slices], axis=0) == 0
        return cls(
            asked,
            missing / np.maximum(asked, 1e-9),
            np.where(same, of_top / there, 0.0),
            unheard / there,
        )


def _attributes(schema: Schema, now: _Shares, days: Sequence[_Shares]) -> Iterator[Misfit]:
    """Columns that are not what they were at this time of the days before."""
    if not days:
        return
    missing, single, unheard = (
        np.maximum(np.median(past, axis=0), past[-1] if len(days) == DAYS else 0)
        for past in (
            np.array([getattr(day, name) for day in days])
            for name in ("missing", "single", "unheard")
        )
    )
    for a, attribute in enumerate(schema.attributes):
        name, rows = attribute.name, "failed rows" if attribute.is_code else "rows"
        was, share = missing[a], now.missing[a]
        if now.asked[a] < (USUAL_FAILURES if attribute.is_code else LEAST_ROWS):
            continue
        if share - was >= JUMP and share >= VANISHED:
            yield Misfit(
                "vanished",
                name,
                f"attribute `{name}` is gone: none of the {rows} has a value, {1 - was:.0%} had "
                "one",
            )
        elif share - was >= JUMP:
            yield Misfit(
                "more_missing",
                name,
                f"attribute `{name}` is missing in {share:.0%} of the {rows}, it was in {was:.0%}",
            )
        elif attribute.is_code or share >= VANISHED:
            continue
        elif now.single[a] >= VANISHED and single[a] <= 1 - JUMP:
            yield Misfit(
                "constant",
                name,
                f"attribute `{name}` has one value in all rows; it had several, the most frequent "
                f"in {single[a]:.0%} of the rows",
            )
        elif now.single[a] < VANISHED <= now.unheard[a] and unheard[a] <= 1 - JUMP:
            yield Misfit(
                "renewed",
                name,
                f"attribute `{name}` has only values that it never had until a day ago; are they "
                "written otherwise now?",
            )


def _rate(slices: Sequence[_Counts]) -> np.ndarray:
    """(outcomes,) share of the rows that fail."""
    failures = np.sum([one.failures for one in slices], axis=0)
    return np.asarray(failures / sum(one.rows for one in slices))
