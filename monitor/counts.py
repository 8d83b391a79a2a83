"""Outcomes that are counted, not rated: how many failures a slice usually has, and of what.

A bulk cancellation is no change of a rate where 99 % of those bookings are cancelled all year.
For such an outcome the expected failures do not depend on the rows at hand: they are the mix of
past failures, spread over time of day and day of the week. They enter a slice as rows without
weight (*carriers*), so that every table, cause and remainder works as for rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.slices import Slice
from monitor.window import QUANTUM

CARRIERS = 2000
"""Distinct rows kept of an outcome's past failures, where a slice is half an hour or longer."""
LEAST_CARRIERS = 400
"""The same of shorter slices: every one of them carries all of them."""
SHRINK_WEEKDAY = 30.0
"""Failures that a weekday's factor of 1 is worth."""
WEEKS = 2
"""Full weeks of history before weekdays may differ."""
FLOOR = 0.5
"""Failures expected of a cell at least: of values never seen before a handful is no news."""


@dataclass(frozen=True, slots=True)
class Usual:
    """Past failures of the counted outcomes, as rows."""

    outcome: np.ndarray  # (c,) which outcome
    values: np.ndarray  # (c, attributes) int32 codes
    mean: np.ndarray  # (c,) failures per slice
    week: np.ndarray  # (outcomes, 7) factor by day of the week, Monday first

    @staticmethod
    def none(outcomes: int, attributes: int) -> Usual:
        """For settings without counted outcomes."""
        return Usual(
            np.zeros(0, np.int64),
            np.zeros((0, attributes), np.int32),
            np.zeros(0),
            np.ones((outcomes, 7)),
        )

    def replace(self, o: int, values: np.ndarray, mean: np.ndarray, week: np.ndarray) -> Usual:
        """With the rows of one outcome exchanged."""
        others = self.outcome != o
        weeks = self.week.copy()
        weeks[o] = week
        return Usual(
            np.append(self.outcome[others], np.full(len(mean), o)),
            np.concatenate([self.values[others], values]),
            np.append(self.mean[others], mean),
            weeks,
        )

    def carried(
        self, piece: Slice, expected: np.ndarray, day: np.ndarray, weekday: int
    ) -> tuple[Slice, np.ndarray]:
        """The slice with its carriers appended, and what is expected of every row.

        Args:
            piece: as it arrived.
            expected: (m, outcomes) failure probabilities of its rows.
            day: (outcomes,) factor by time of day.
            weekday: Monday is 0.
        """
        if not len(self.mean):
            return piece, expected
        rows = np.arange(len(self.mean))
        extra = np.zeros((len(rows), expected.shape[1]))
        mean = self.mean * day[self.outcome] * self.week[self.outcome, weekday]
        extra[rows, self.outcome] = np.round(mean / QUANTUM) * QUANTUM
        expected = expected.copy()
        expected[:, np.unique(self.outcome)] = QUANTUM
        slice_ = Slice(
            piece.start,
            np.concatenate([piece.values, self.values]),
            np.concatenate([piece.failed, np.zeros((len(rows), piece.failed.shape[1]), bool)]),
            np.concatenate([piece.weight, np.zeros(len(rows), np.int64)]),
        )
        return slice_, np.concatenate([expected, extra])


def without_carriers(piece: Slice) -> Slice:
    """Inverse of `Usual.carried`."""
    real = piece.weight > 0
    if real.all():
        return piece
    return Slice(piece.start, piece.values[real], piece.failed[real], piece.weight[real])


def usual_failures(
    values: np.ndarray,
    failures: np.ndarray,
    weekday: np.ndarray,
    days: np.ndarray,
    weeks: float,
    most: int = CARRIERS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Past failures of one outcome → carriers, their mean per slice, factors by weekday.

    Args:
        values: (n, attributes) codes of rows that failed.
        failures: (n,) failures of each.
        weekday: (n,) of each.
        days: (7,) slices of each weekday in the history.
        weeks: length of the history; weekdays differ from `WEEKS` on.
        most: distinct rows kept.
    """
    kept = failures > 0
    values, failures, weekday = values[kept], failures[kept], weekday[kept]
    rows, place = np.unique(values, axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), failures, len(rows))
    total = counts.sum()
    if len(rows) > most:  # at equal steps through rows in order: every value keeps its share
        step = total / most
        drawn = np.searchsorted(np.cumsum(counts), (np.arange(most) + 0.5) * step)
        counts = np.bincount(drawn, minlength=len(rows)) * step
        rows, counts = rows[counts > 0], counts[counts > 0]
    week = np.ones(7)
    if weeks >= WEEKS:
        fair = total * days / days.sum()
        seen = np.bincount(weekday, failures, 7)
        week = (seen + SHRINK_WEEKDAY) / (fair + SHRINK_WEEKDAY)
    return rows.astype(np.int32), counts / days.sum(), week
