"""How much the counts of quiet cells scatter, as the search asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
