"""Causes as the scan finds them: their rows, when they began, whether they have ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from monitor.encoding import Coded

Conditions = tuple[tuple[int, int], ...]
"""(attribute, node number) pairs; () is everything."""

ENDED = 3.0
"""Nats by which the newest slices must prefer that a cause is over: twenty to one."""
LEFT = 0.5
"""Of its excess, that would still be a cause: a leak that becomes smaller is not over."""


VOLUMES = (10.0, 40.0)
"""Failures expected, up to which a count is small and from which on it is large: their scatter is
measured apart, and goes over from one into the other in between."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Over-dispersion s of one outcome, by horizon, order of the cell (0, 1, 2) and volume."""

    values: np.ndarray  # (horizons, 3, volumes)
    own: np.ndarray | None = None  # (horizons, singles)
    """A single value's variance over that of all values."""
    doubt: np.ndarray | None = None  # (horizons, singles)
    """By how much more of that its variance may be larger yet, as far as large counts go."""

    @staticmethod
    def alike(s: float, horizons: int) -> Scatter:
        """The same for all cells."""
        return Scatter(np.full((horizons, 3, len(VOLUMES)), s))

    def sizes(self, expected: np.ndarray, orders: np.ndarray) -> np.ndarray:
        """κ = 1/s² for every horizon and cell, (horizons, cells).

        Args:
            expected: (horizons, cells) failures.
            orders: 0, 1 or 2 for each cell.
        """
        out, volumes = np.empty(expected.shape), np.log(VOLUMES)
        logs = np.log(np.maximum(expected, VOLUMES[0]))
        s = np.log(np.maximum(self.values, 0.02))
        for order in np.unique(orders):
            chosen = orders == order
            for h in range(len(out)):
                out[h, chosen] = np.interp(logs[h, chosen], volumes, s[h, order])
        return np.asarray(np.exp(-2 * out))

    def sizes_of(
        self, expected: np.ndarray, cells: np.ndarray, orders: np.ndarray, parents: np.ndarray
    ) -> np.ndarray:
        """κ of cells of a layout, (horizons, cells).

        Args:
            expected: (horizons, cells) failures.
            cells: their numbers.
            orders: 0, 1 or 2 for each.
            parents: (cells, 2) numbers of a pair's two values. It is as restless as the more
                restless of them.
        """
        size = self.sizes(expected, orders)
        if self.own is not None:
            single, pair = orders < 2, orders == 2
            size[:, single] /= self._own(expected[:, single], cells[single, None])
            size[:, pair] /= self._own(expected[:, pair], parents[pair])
        return size

    def _own(self, expected: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The largest variance of some values over that of all, (horizons, cells)."""
        assert self.own is not None
        own = self.own[:, values]
        if self.doubt is not None:
            small, large = np.log(VOLUMES)
            share = np.clip((np.log(np.maximum(expected, 1.0)) - small) / (large - small), 0.0, 1.0)
            own = own + share[:, :, None] * self.doubt[:, values]
        return np.asarray(own.max(axis=2, initial=1.0))


@dataclass(slots=True)
class Suspect:
    """A cause found by the scan."""

    conditions: Conditions
    horizon: int
    """Index into the horizons."""
    score: float
    p_value: float
    q_value: float
    chain: tuple[Conditions, ...]
    runners_up: tuple[tuple[Conditions, float], ...]
    observed: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slices,) oldest first
    expected: np.ndarray = field(default_factory=lambda: np.zeros(0))  # by the baseline
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0))
    matches: list[np.ndarray] = field(default_factory=list)
    """Per slice: which rows are the cause's."""
    places: list[np.ndarray] = field(default_factory=list)
    """The same as numbers of rows."""
    ended: bool = False
    codes: tuple[int, ...] = ()
    """Error codes that gave it away."""

    def total(self, span: int) -> tuple[float, float, float]:
        """Observed, expected and rows over the last `span` slices."""
        return (
            float(self.observed[-span:].sum()),
            float(self.expected[-span:].sum()),
            float(self.rows[-span:].sum()),
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """A cause whose incident is over: what its rows did until then is known and told."""

    conditions: Conditions
    until: np.datetime64
    """Start of the first slice that may be news again."""


def match(coded: Coded, conditions: Conditions) -> np.ndarray:
    """Which rows of a slice satisfy every condition, (m,) bool."""
    hit = np.ones(len(coded.local), bool)
    for attribute_index, number in conditions:
        hit &= coded.local[:, attribute_index] == number
    return hit


def has_ended(
    suspect: Suspect, span: int, arrived: np.ndarray | None = None, left: float = LEFT
) -> bool:
    """True when the newest slices prefer that nothing is left over a share of the excess.

    Asked of every suffix of two slices and more; the price of asking so often is paid.

    Args:
        suspect: what failed.
        span: slices of the horizon in which it stands out.
        arrived: share of the failures of the last slices that are in the log, newest first: what
            is told late is not over. None: all of them.
        left: the share; a bulk that is counted is one act, and is over when it is not repeated.
    """
    observed, expected = (x[-span:][::-1] for x in (suspect.observed, suspect.expected))
    if arrived is not None:
        expected = expected * arrived[: len(expected)]
    if not len(observed):
        return False
    seen, fair = observed.cumsum(), expected.cumsum()
    before, usual = seen[-1] - seen, fair[-1] - fair
    ratio = 1 + left * np.maximum(before / np.maximum(usual, 1e-6) - 1, 0.01)
    nats = fair * (ratio - 1) - seen * np.log(ratio)
    asked = np.log(1 + np.log2(len(nats)))  # suffixes of about the same length see the same
    return bool((nats[1:-1] > ENDED + asked).any())


def began(suspect: Suspect) -> int:
    """Index of the slice at which the excess began: the suffix of best Poisson score."""
    return beginning(suspect.observed, suspect.expected)


def beginning(observed: np.ndarray, expected: np.ndarray) -> int:
    """Index of the slice from which on the excess of two series is most evident."""
    observed = np.cumsum(observed[::-1])
    expected = np.maximum(np.cumsum(expected[::-1]), 1e-6)
    score = observed * np.log(np.maximum(observed, 1e-9) / expected) - (observed - expected)
    score = np.where(observed > expected, score, 0.0)
    return len(observed) - 1 - int(np.argmax(score))
