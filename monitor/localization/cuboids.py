"""Which cells are worth a look: all values, pairs, triples and deeper, pruned by bounds.

A cuboid is a set of attributes, a cell one combination of their values. The score of a cell can't
exceed the sum of its leaves' gains, and a child holds fewer leaves than its parent: cells below
the price of the search are dropped with all their children (branch and bound).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.sparse import csc_array

from monitor.localization.leaves import Leaves, cells_of
from monitor.localization.located import Found, Rival

ALL_DEPTHS = 64
"""So many cuboids at most are walked through whole; beyond, triples are the deepest."""
ALWAYS = 3
RIVALS = 5
"""Of each cause."""


@dataclass(slots=True)
class Cuboid:
    """The cells of one set of attributes that survived pruning."""

    attributes: tuple[int, ...]
    cell_of: np.ndarray  # (n,) number of the row's cell, -1 where it was pruned
    first: np.ndarray  # (cells,) a row of each cell
    place: float
    """ln of the number of cells that there may be: the price of one of them."""
    choices: float
    """ln of the number of cuboids of that order, and of orders."""

    def sums(self, columns: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Columns added up over the leaves of each cell.

        Args:
            columns: (n, g), or (rows, g) if `rows` is given.
            rows: only these rows.
        """
        cell = self.cell_of if rows is None else self.cell_of[rows]
        kept = np.flatnonzero(cell >= 0)
        member = csc_array(
            (np.ones(len(kept)), cell[kept], np.arange(len(kept) + 1)),
            shape=(len(self.first), len(kept)),
        )
        values = columns if rows is not None or len(kept) == len(columns) else columns[kept]
        out: np.ndarray = member @ (columns[kept] if rows is not None else values)
        return out


class Lattice:
    """All cuboids of a table, each with the cells that may matter.

    Args:
        leaves: the table.
        gain: (n,) or (n, directions): most nats that each leaf can add to a cell.
        enough: (cells, ...) sums of `support` → which cells have it.
        support: (n,) added up for `enough`.
        max_order: deepest cuboid; None goes as deep as the number of cuboids allows.
    """

    def __init__(
        self,
        leaves: Leaves,
        gain: np.ndarray,
        support: np.ndarray,
        enough: Callable[[np.ndarray], np.ndarray],
        max_order: int | None = None,
    ) -> None:
        self.leaves = leaves
        self.sizes = [len(values) for values in leaves.values]
        telling = [a for a, size in enumerate(self.sizes) if size > 1]
        k = len(telling)
        depth = next((d for d in range(k, ALWAYS, -1) if _cuboids(k, d) <= ALL_DEPTHS), ALWAYS)
        self.depth = min(depth, k, max_order or k)
        self._found: dict[tuple[int, ...], Cuboid] = {}
        self._same: dict[tuple[int, ...], tuple[int, ...]] = {}
        gain = gain.reshape(len(leaves), -1)
        for order in range(1, self.depth + 1):
            choices = float(np.log(comb(k, order)) + np.log(k))
            for attributes in combinations(telling, order):
                self._visit(attributes, choices, gain, support, enough)

    def __iter__(self) -> Iterator[Cuboid]:
        return iter(self._found.values())

    def get(self, attributes: tuple[int, ...]) -> Cuboid | None:
        """The cuboid, or the smaller one that splits the leaves in the same way."""
        return self._found.get(self._same.get(attributes, attributes))

    def conditions(self, cuboid: Cuboid, cell: int) -> tuple[tuple[int, int], ...]:
        """What the leaves of a cell have in common."""
        row = cuboid.first[cell]
        return tuple((a, int(self.leaves.codes[row, a])) for a in cuboid.attributes)

    def parents(self, cuboid: Cuboid, cell: int) -> Iterator[tuple[Cuboid, int]]:
        """Cells with one condition less."""
        row = cuboid.first[cell]
        for attributes in combinations(cuboid.attributes, len(cuboid.attributes) - 1):
            wider = self.get(attributes)
            if wider is not None and wider.cell_of[row] >= 0:
                yield wider, int(wider.cell_of[row])

    def children(self, cuboid: Cuboid, cell: int) -> Iterator[tuple[Cuboid, np.ndarray]]:
        """Cuboids with one condition more, and their cells inside this one."""
        rows = np.flatnonzero(cuboid.cell_of == cell)
        for narrower in self._found.values():
            if len(narrower.attributes) == len(cuboid.attributes) + 1 and set(
                cuboid.attributes
            ) < set(narrower.attributes):
                inside = np.unique(narrower.cell_of[rows])
                yield narrower, inside[inside >= 0]

    def rivals(self, cause: Found, scored: Iterable[tuple[Cuboid, np.ndarray]]) -> list[Rival]:
        """The cells that share leaves with a cause, best first.

        Args:
            cause: what was named.
            scored: of each cuboid, the scores that its cells have in the cause's place.
        """
        near = []
        for cuboid, scores in scored:
            inside = np.bincount(cuboid.cell_of[cause.rows] + 1, minlength=len(scores) + 1)[1:]
            cells = np.flatnonzero((inside > 0) & (scores > 0))
            best = cells[np.argsort(-scores[cells], kind="stable")[: RIVALS + 1]]
            near += [Rival(self.conditions(cuboid, c), float(scores[c])) for c in best]
        near = [r for r in near if r.conditions != cause.conditions]
        return sorted(near, key=lambda r: (-round(r.score, 6), r.conditions))[:RIVALS]

    def _visit(
        self,
        attributes: tuple[int, ...],
        choices: float,
        gain: np.ndarray,
        support: np.ndarray,
        enough: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        wider = list(combinations(attributes, len(attributes) - 1)) if len(attributes) > 1 else []
        parents = []
        for names in wider:
            real = self._same.get(names, names)
            if set(real) != set(names):  # splitting it further splits the smaller one
                smaller = tuple(sorted(set(attributes) - (set(names) - set(real))))
                self._same[attributes] = self._same.get(smaller, smaller)
                return
            if names not in self._found:
                return
            parents.append(self._found[names])
        if parents:
            rows = np.flatnonzero(np.min([parent.cell_of for parent in parents], axis=0) >= 0)
        else:
            rows = np.arange(len(self.leaves))
        if not len(rows):
            return
        cell, cells = cells_of(
            self.leaves.codes[rows][:, list(attributes)], [self.sizes[a] for a in attributes]
        )
        for parent in parents:
            # as many cells as the parent, and all of their leaves: none was split
            if cells == len(parent.first) and len(rows) == np.count_nonzero(parent.cell_of >= 0):
                self._same[attributes] = parent.attributes
                return
        bound = np.max(
            [np.bincount(cell, column[rows], cells) for column in gain.T], axis=0, initial=0.0
        )
        place = min(
            np.log(max(len(self.leaves), 1)), sum(np.log(self.sizes[a]) for a in attributes)
        )
        kept = (bound > place) & enough(np.bincount(cell, support[rows], cells))
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        cell_of = np.full(len(self.leaves), -1, np.int64)
        cell_of[rows] = number[cell]
        first = np.zeros(int(kept.sum()), np.int64)
        member = np.flatnonzero(cell_of >= 0)[::-1]
        first[cell_of[member]] = member
        self._found[attributes] = Cuboid(attributes, cell_of, first, float(place), choices)


def _cuboids(k: int, depth: int) -> int:
    return sum(comb(k, order) for order in range(1, depth + 1))
