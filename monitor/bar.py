"""How high a cell must stand out to be told: measured on the stream's own quiet ticks.

The most evident cell of a quiet tick is noise. Its peaks over a high threshold u fall off
exponentially, as extreme value theory has it of likelihood ratios (a generalised Pareto tail of
shape 0; Siffer et al. 2017, "SPOT", use the same with a free shape). Which height is reached
only as often as the operator's budget allows follows from how often u is passed, and by how much.
"""

from __future__ import annotations

import numpy as np

KINDS = ("everything", "value", "several", "pair", "three", "code")
"""Kinds of cells; each has a bar of its own, for their noise differs."""
CHANCE = 0.45
"""Of a peak of zero nats, per independent look; measured on quiet simulated weeks."""
HAPPENS = 4.5
"""Things a week that no count explains and that stand out by zero nats or more, in any stream;
measured on the quiet days of real flights."""
PRIOR_WEEKS, PRIOR_TICKS = 1.0, 28
"""How much of measuring the bar by looks is worth, in weeks and at least in ticks: a stream of
days has no tail to speak of for weeks."""
PASSED = 0.05
"""Share of quiet ticks that pass u."""
LOWEST = -3.0
"""Nats; what never gets near to its price says nothing of how it would go on."""
SCALE = 1.0
"""Nats by which the tail falls to 1/e, of a likelihood ratio without any scatter left over."""
SCALE_PEAKS = 8.0
"""Peaks that this is worth."""
RARE = 4.6
"""Scales over u that one peak in a hundred passes; what is higher says no more of noise, unless an
operator says so."""
LEAST = 1.0
"""Nats that are asked in any case."""
KEPT_WEEKS = 8


class Bar:
    """Peaks of quiet ticks, and the bar that follows.

    Args:
        outcomes: how many.
        ticks_per_week: pace of the stream.
        apart: ticks below u that part one peak from the next (six hours): neighbouring ticks see
            the same failures.
    """

    def __init__(self, outcomes: int, ticks_per_week: float, apart: int = 12) -> None:
        self._pace, self._apart = ticks_per_week, apart
        shape = (outcomes, len(KINDS), int(KEPT_WEEKS * ticks_per_week))
        self._peaks = np.full(shape, np.nan, np.float32)
        self._claimed = np.zeros((outcomes, shape[2]), bool)
        self._acquitted = np.zeros((outcomes, shape[2]), bool)
        self._ticks = 0

    def observe(self, peaks: np.ndarray, claimed: np.ndarray) -> None:
        """Remember a tick.

        Args:
            peaks: (outcomes, kinds) nats of the most evident cell, less its price.
            claimed: (outcomes,) an incident is open: not quiet, unless it is labelled false.
        """
        at = self._ticks % self._peaks.shape[2]
        self._peaks[:, :, at] = np.maximum(peaks, LOWEST)
        self._claimed[:, at], self._acquitted[:, at] = claimed, False
        self._ticks += 1

    def acquit(self, outcome: int, first: int, last: int) -> None:
        """An operator labels an incident false: its ticks, counted back from now, were quiet."""
        known = min(self._ticks, self._peaks.shape[2])
        ages = np.arange(max(first, 0), min(last + 1, known))
        at = (self._ticks - 1 - ages) % self._peaks.shape[2]
        self._claimed[outcome, at], self._acquitted[outcome, at] = False, True

    def of(self, budget: float, looks: np.ndarray) -> np.ndarray:
        """Nats to stand out by, (outcomes, kinds).

        Args:
            budget: false alarms a week, of all outcomes and kinds together.
            looks: (outcomes,) independent chances to err in a tick: what the bar goes by until it
                is measured.
        """
        outcomes, kinds, capacity = self._peaks.shape
        share = budget / (outcomes * kinds)
        order = (np.arange(capacity) + self._ticks) % capacity  # oldest first
        if self._ticks < capacity:
            order = np.arange(self._ticks)
        prior = np.log((HAPPENS + CHANCE * self._pace * looks.sum()) / budget)
        out = np.empty((outcomes, kinds))
        for o in range(outcomes):
            quiet = ~self._claimed[o, order]
            weeks = float(quiet.sum()) / self._pace
            weight = weeks / (weeks + max(PRIOR_WEEKS, PRIOR_TICKS / self._pace))
            for k in range(kinds):
                known = np.where(quiet, self._peaks[o, k, order], np.nan)
                measured = _tail(known, self._acquitted[o, order], weeks, share, self._apart)
                out[o, k] = weight * measured + (1 - weight) * prior if weeks else prior
        return np.maximum(out, LEAST)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything needed to restore it."""
        return {
            "peaks": self._peaks,
            "claimed": self._claimed,
            "acquitted": self._acquitted,
            "ticks": np.array(self._ticks),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Inverse of `to_arrays`; nothing where the shapes have changed: measured anew."""
        if arrays and arrays["peaks"].shape == self._peaks.shape:
            self._peaks, self._claimed = arrays["peaks"].copy(), arrays["claimed"].copy()
            self._acquitted = arrays["acquitted"].copy()
            self._ticks = int(arrays["ticks"])


def _tail(known: np.ndarray, sure: np.ndarray, weeks: float, share: float, apart: int) -> float:
    """Height passed `share` times a week, from peaks per tick; NaN is not quiet.

    Args:
        known: (ticks,) the most evident cell's nats.
        sure: (ticks,) an operator says that it was noise, however high it is.
        weeks: how long that was.
        share: false alarms a week.
        apart: ticks that part one peak from the next.
    """
    quiet = known[~np.isnan(known)]
    if not len(quiet):
        return 0.0
    u = float(np.quantile(quiet, 1 - PASSED))
    above = np.flatnonzero(np.nan_to_num(known, nan=-np.inf) > u)
    if not len(above):
        return u
    starts = np.flatnonzero(np.append(True, np.diff(above) > apart))
    over = np.maximum.reduceat(known[above], starts) - u
    certain = np.logical_or.reduceat(sure[above], starts)
    peaks = len(over)
    middle = np.median(over) / np.log(2.0)  # of an exponential, its scale
    usual = (peaks * middle + SCALE_PEAKS * SCALE) / (peaks + SCALE_PEAKS)
    likely = np.where(certain, over, np.minimum(over, RARE * usual))
    scale = (likely.sum() + SCALE_PEAKS * SCALE) / (peaks + SCALE_PEAKS)
    rate = (peaks + 1) / weeks
    return float(u + scale * max(np.log(rate / share), 0.0))
