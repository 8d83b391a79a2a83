"""A wide log: forty attributes of two to fifty values, many of them bound to one another."""

from __future__ import annotations

import numpy as np

from benchmarks.worlds.domain import Choice, Columns, Domain, Field, tilted, zipf

WIDTH = 40


class Wide(Domain):
    """Jobs with forty labels, of which nobody knows which matter; no tiers, no codes."""

    name = "wide"
    tiers = ()
    outcomes = ("failed",)
    base = (0.02,)
    contrast = 0.12
    """Forty multipliers add up."""

    def build(self, rng: np.random.Generator) -> None:
        """One in three attributes hangs on an earlier one; the rest are drawn by themselves."""
        sizes = rng.permutation(np.linspace(2, 50, WIDTH).round().astype(int))
        self.fields = [
            Field(f"label_{n:02d}", [f"{n:02d}-{v:02d}" for v in range(size)])
            for n, size in enumerate(sizes)
        ]
        self._parents: list[int] = []
        self._choices: list[Choice] = []
        self._gaps = np.where(rng.random(WIDTH) < 0.15, rng.uniform(0.02, 0.3, WIDTH), 0)
        for n, size in enumerate(sizes):
            parent = int(rng.integers(n)) if n and rng.random() < 0.35 else -1
            rows = 12 if parent < 0 else int(sizes[parent])
            spread, kept = (0.1, 1.0) if parent < 0 else (1.0, 0.4)
            popularity = zipf(int(size), rng.uniform(0.3, 1.0))
            self._parents.append(parent)
            self._choices.append(tilted(rng, rows, popularity, spread, kept))
        names = [f.name for f in self.fields]
        large = [n for n, size in zip(names, sizes, strict=True) if size >= 6]
        two = [tuple(str(x) for x in rng.choice(large, 2, replace=False)) for _ in range(30)]
        self.pairs = tuple(two)
        self.triples = tuple(
            tuple(str(x) for x in rng.choice(names, 3, replace=False)) for _ in range(30)
        )
        self.cells = tuple((a, b) for a, b in two)
        self.groups = tuple(large)
        self.blanks = tuple(names)

    def draw(self, rng: np.random.Generator, slice_: int, count: int) -> Columns:
        """Parents first; some labels are not always written."""
        period = np.full(count, self.period(slice_), np.int64)
        columns: Columns = {}
        for n, f in enumerate(self.fields):
            parent = self._parents[n]
            of = period if parent < 0 else columns[f"label_{parent:02d}"].astype(np.int64)
            columns[f.name] = self._choices[n].draw(rng, of)
        for n, f in enumerate(self.fields):
            if self._gaps[n]:
                columns[f.name][rng.random(count) < self._gaps[n]] = -1
        return columns

    def written(
        self, rng: np.random.Generator, attempted: np.ndarray, failed: np.ndarray
    ) -> dict[str, object]:
        """A flag."""
        return {"failed": failed[:, 0]}

    @property
    def conditions(self) -> tuple[str, ...]:
        """The flag."""
        return ("failed",)
