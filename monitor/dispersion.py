"""How much the counts of quiet cells scatter, remembered per outcome, order and horizon."""

from __future__ import annotations

import numpy as np

from monitor.attribution import Scatter
from monitor.significance import scatter
from monitor.window import Horizons

PRIOR = 0.4
PRIOR_CELLS = (100.0, 100.0, 200.0)
"""How many cells the prior is worth, by order: everything has one cell a snapshot."""
CELLS_PER_SNAPSHOT = 64
KEPT = 2048
ORDERS = 3


class Dispersion:
    """Samples of (observed, expected) from quiet history, and the scatter fitted to them.

    Args:
        outcomes: how many.
        horizons: in slices; longer ones scatter differently from shorter ones.
        capacity: samples kept per outcome, order and horizon; the oldest leave first.
    """

    def __init__(self, outcomes: int, horizons: tuple[int, ...], capacity: int = KEPT) -> None:
        self._horizons = horizons
        shape = (outcomes, len(horizons), ORDERS)
        self._samples = np.zeros((*shape, capacity, 2), np.float32)
        self._count = np.zeros(shape, np.int64)
        self._fitted = np.full(shape, PRIOR)

    def observe(self, tables: Horizons, ticks: int, busy: np.ndarray) -> None:
        """Take a snapshot of the tables, of every horizon that has passed since its last one.

        Args:
            ticks: slices seen so far.
            busy: (outcomes,) True where an incident's rows lie in the window: not quiet.
        """
        order_of = np.repeat(
            [len(block) for block in tables.layout.blocks],
            np.diff((*tables.layout.starts, tables.layout.size)),
        )
        for h, span in enumerate(self._horizons):
            if ticks % max(span, 12):
                continue
            for o in (int(o) for o in np.flatnonzero(~busy)):
                expected = tables.expected[h, o]
                for order in range(ORDERS):
                    cells = np.flatnonzero((order_of == order) & (expected > 0.3))
                    if len(cells) > CELLS_PER_SNAPSHOT:
                        step = len(cells) / CELLS_PER_SNAPSHOT
                        cells = cells[(np.arange(CELLS_PER_SNAPSHOT) * step).astype(int)]
                    pairs = np.column_stack([tables.observed[h, o][cells], expected[cells]])
                    self._append((o, h, order), pairs)

    def _append(self, key: tuple[int, int, int], pairs: np.ndarray) -> None:
        capacity = self._samples.shape[3]
        at = (self._count[key] + np.arange(len(pairs))) % capacity
        self._samples[key][at] = pairs
        self._count[key] += len(pairs)

    def refit(self) -> None:
        """Fit the scatter anew from the samples kept."""
        capacity = self._samples.shape[3]
        for key in np.ndindex(*self._count.shape):
            samples = self._samples[key][: min(int(self._count[key]), capacity)].astype(float)
            self._fitted[key] = scatter(samples[:, 0], samples[:, 1], PRIOR, PRIOR_CELLS[key[2]])

    def of(self, outcome: int) -> Scatter:
        """The scatter of an outcome."""
        return Scatter(self._fitted[outcome])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything needed to restore it."""
        return {"samples": self._samples, "count": self._count, "fitted": self._fitted}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Inverse of `to_arrays`."""
        self._samples = arrays["samples"].copy()
        self._count = arrays["count"].copy()
        self._fitted = arrays["fitted"].copy()
