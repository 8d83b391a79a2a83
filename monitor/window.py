"""Slices → the tables a tick is judged on: failures observed and expected, per cell and horizon.

A *cell* is everything, one value, or a pair of values of two attributes. Tables are running
sums. Expected failures are multiples of a fixed quantum, so sums are exact in float64
and adding then dropping a slice changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from monitor.encoding import Coded

QUANTUM = 2.0**-24
"""Resolution of an expected failure probability; sums stay exact up to 2^29 failures."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each cell lies in a table."""

    attributes: tuple[int, ...]
    """Indices of the attributes that make cells (error codes do not)."""
    room: tuple[int, ...]
    """Per such attribute: node numbers it has room for."""
    blocks: tuple[tuple[int, ...], ...]
    """Per block: positions in `attributes`; () is everything."""
    starts: tuple[int, ...]
    size: int
    """Cells; the table's last entry, at this index, collects what has no cell."""

    @staticmethod
    def build(attributes: tuple[int, ...], sizes: tuple[int, ...]) -> Layout:
        """Lay out everything, singles and pairs, with some room to grow."""
        room = tuple(max(8, int(size * 1.25) + 4) for size in sizes)
        k = len(attributes)
        blocks = ((), *((i,) for i in range(k)), *combinations(range(k), 2))
        starts, at = [], 0
        for block in blocks:
            starts.append(at)
            at += int(np.prod([room[i] for i in block], dtype=np.int64))
        return Layout(attributes, room, blocks, tuple(starts), at)

    @property
    def singles(self) -> int:
        """Cells up to here are everything and single values; pairs follow."""
        first = 1 + len(self.attributes)
        return self.starts[first] if first < len(self.starts) else self.size

    def fits(self, sizes: tuple[int, ...]) -> bool:
        """True while every node number has its place."""
        return all(size <= room for size, room in zip(sizes, self.room, strict=True))

    def cells(self, local: np.ndarray) -> np.ndarray:
        """Cells of each row, (m, blocks) int64; a block with a missing value gives `size`."""
        columns = local[:, self.attributes].astype(np.int64).T
        out = np.empty((len(local), len(self.blocks)), np.int64)
        for b, start in enumerate(self.starts):
            cell = self._within(columns, b)
            out[:, b] = np.where(cell < 0, self.size, start + cell)
        return out

    def _within(self, columns: np.ndarray, b: int) -> np.ndarray:
        """Place of each row in a block, (m,); negative where a value is missing."""
        block = self.blocks[b]
        if not block:
            return np.zeros(columns.shape[1], np.int64)
        first: np.ndarray = columns[block[0]]
        if len(block) == 1:
            return first
        second = columns[block[1]]
        return np.where((first < 0) | (second < 0), -1, first * self.room[block[1]] + second)

    def sums(
        self, local: np.ndarray, weights: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cells whose rows have any weight, ascending, and their sums, (weightings, cells)."""
        columns = np.ascontiguousarray(local[:, self.attributes].T).astype(np.int64)
        cells, sums = [], []
        for b, (start, end) in enumerate(pairwise((*self.starts, self.size))):
            cell = self._within(columns, b) + 1
            of_block = [np.bincount(cell, weight, end - start + 1)[1:] for weight in weights]
            any_weight = of_block[0] > 0
            for more in of_block[1:]:
                any_weight |= more > 0
            found = np.flatnonzero(any_weight)
            cells.append(start + found)
            sums.append(np.array([one[found] for one in of_block]))
        return np.concatenate(cells), np.concatenate(sums, axis=1)

    def present(self, table: np.ndarray) -> np.ndarray:
        """Cells above 0 of every block, (blocks,)."""
        above = table > 0
        ends = pairwise((*self.starts, self.size))
        return np.array([np.count_nonzero(above[start:end]) for start, end in ends])

    def block_of(self, cells: np.ndarray) -> np.ndarray:
        """Block of each cell."""
        return np.searchsorted(np.array(self.starts), cells, side="right") - 1

    def conditions(self, cell: int) -> tuple[tuple[int, int], ...]:
        """The cell as (attribute, node number) pairs."""
        b = int(self.block_of(np.array([cell]))[0])
        block, rest = self.blocks[b], cell - self.starts[b]
        if not block:
            return ()
        if len(block) == 1:
            return ((self.attributes[block[0]], rest),)
        first, second = divmod(rest, self.room[block[1]])
        return ((self.attributes[block[0]], first), (self.attributes[block[1]], second))

    def cell(self, conditions: tuple[tuple[int, int], ...]) -> int:
        """Inverse of `conditions`."""
        places = sorted((self.attributes.index(a), number) for a, number in conditions)
        b = self.blocks.index(tuple(place for place, _ in places))
        at = 0
        for place, number in places:
            at = at * self.room[place] + number
        return self.starts[b] + at

    def pairs(
        self, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Cells of pairs of values, each given by positions in `attributes` and node numbers."""
        swap = first[0] > second[0]
        p, q = np.where(swap, (second[0], first[0]), (first[0], second[0]))
        one, two = np.where(swap, (second[1], first[1]), (first[1], second[1]))
        k = len(self.attributes)
        block = 1 + k + p * k - p * (p + 1) // 2 + q - p - 1  # as `combinations` lists them
        return np.asarray(np.array(self.starts)[block] + one * np.array(self.room)[q] + two)

    def parents(self, cells: np.ndarray) -> np.ndarray:
        """(n, 2) the two singles of each pair; -1 for other cells."""
        out = np.full((len(cells), 2), -1, np.int64)
        block_of = self.block_of(cells)
        for b in np.unique(block_of):
            block = self.blocks[b]
            if len(block) != 2:
                continue
            hit = block_of == b
            first, second = np.divmod(cells[hit] - self.starts[b], self.room[block[1]])
            out[hit, 0] = self.starts[1 + block[0]] + first
            out[hit, 1] = self.starts[1 + block[1]] + second
        return out


@dataclass(frozen=True, slots=True)
class Table:
    """One slice's cells that are not zero."""

    cells: np.ndarray  # (c,) int32, ascending
    quanta: np.ndarray  # (outcomes, c) uint32, expected failures in quanta; those of `many` are 0
    many: np.ndarray  # (k,) places in `cells` of the few that expect too much for that
    expected_of_many: np.ndarray  # (outcomes, k)
    failed: np.ndarray  # (f,) int32, the cells with any failure
    observed: np.ndarray  # (outcomes, f) int32, of `failed`
    blocks: np.ndarray  # (blocks + 1,) where each block's cells begin
    failing: np.ndarray  # (r,) int32, the slice's rows with any failure

    @staticmethod
    def of(
        cells: np.ndarray,
        expected: np.ndarray,
        failed: np.ndarray,
        observed: np.ndarray,
        blocks: np.ndarray,
        failing: np.ndarray,
    ) -> Table:
        """Half the memory of what is given, and exactly the same."""
        quanta = expected / QUANTUM
        many = np.flatnonzero((quanta >= 2.0**32).any(axis=0))
        kept = expected[:, many]
        quanta[:, many] = 0
        return Table(
            cells.astype(np.int32),
            quanta.astype(np.uint32),
            many.astype(np.int32),
            kept,
            failed.astype(np.int32),
            observed.astype(np.int32),
            blocks,
            failing.astype(np.int32),
        )

    def expected(self, outcome: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Failures expected in `cells[first:last]`, float64."""
        out = self.quanta[outcome, first:last] * QUANTUM
        here = slice(*np.searchsorted(self.many, (first, first + len(out))))
        out[self.many[here] - first] = self.expected_of_many[outcome, here]
        return out

    def add_to(self, *wholes: tuple[np.ndarray, np.ndarray], sign: int = 1) -> None:
        """Add it to whole tables, in place.

        Args:
            wholes: failures observed and expected, each (outcomes, size).
            sign: −1 drops it again.
        """
        failed, cells = self.failed.astype(np.intp), self.cells.astype(np.intp)
        for o in range(len(self.observed)):
            seen, fair = sign * self.observed[o].astype(float), sign * self.expected(o)
            for observed, expected in wholes:  # in one pass: `x[cells] += fair` takes three
                np.add.at(observed[o], failed, seen)
                np.add.at(expected[o], cells, fair)


def tabulate(coded: Coded, layout: Layout) -> Table:
    """Failures observed and expected per cell of one slice."""
    piece, outcomes = coded.slice, coded.expected.shape[1]
    failing = np.flatnonzero(piece.failed.any(axis=1))
    lost = [piece.weight[failing] * piece.failed[failing, o] for o in range(outcomes)]
    fair = [coded.exposure * coded.expected[:, o] for o in range(outcomes)]
    failed, observed = _sorted_sums(layout, coded.local[failing], lost)
    if len(coded.local) * len(layout.blocks) * 8 < layout.size:
        cells, expected = _sorted_sums(layout, coded.local, fair)
    else:
        cells, expected = layout.sums(coded.local, fair)
    return Table.of(
        cells,
        expected,
        failed,
        observed,
        np.searchsorted(cells, np.array([*layout.starts, layout.size])),
        failing,
    )


def _sorted_sums(
    layout: Layout, local: np.ndarray, weights: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """`Layout.sums` of few rows: their cells are sorted, instead of a sweep over all there are."""
    cells = layout.cells(local)
    present, place = np.unique(cells, return_inverse=True)
    place, width = place.ravel(), cells.shape[1]
    sums = np.array([np.bincount(place, np.repeat(w, width), len(present)) for w in weights])
    kept = np.flatnonzero((sums > 0).any(axis=0) & (present < layout.size))
    return present[kept], sums[:, kept]


class Horizons:
    """Observed and expected failures over the last h slices, for every horizon h."""

    def __init__(
        self, attributes: tuple[int, ...], outcomes: int, horizons: tuple[int, ...]
    ) -> None:
        self.horizons = horizons
        self._outcomes = outcomes
        self.layout = Layout.build(attributes, tuple(1 for _ in attributes))
        self.slices: deque[Coded] = deque(maxlen=horizons[-1])
        self._tables: deque[Table] = deque(maxlen=horizons[-1])
        self.observed, self.expected = self._zeros(), self._zeros()

    def _zeros(self) -> np.ndarray:
        return np.zeros((len(self.horizons), self._outcomes, self.layout.size))

    def push(self, coded: Coded, sizes: tuple[int, ...]) -> None:
        """Add the newest slice; what has left a horizon is dropped from it.

        Args:
            sizes: nodes per cell attribute, to make room for new ones.
        """
        if not self.layout.fits(sizes):
            self._relayout(sizes)
        table = tabulate(coded, self.layout)
        table.add_to(*self._sums(range(len(self.horizons))))
        for i, h in enumerate(self.horizons):
            if len(self._tables) >= h:
                self._tables[-h].add_to(*self._sums([i]), sign=-1)
        self.slices.append(coded)
        self._tables.append(table)

    def replace(self, index: int, coded: Coded) -> None:
        """Exchange a slice for one with late rows folded in; `index` counts from the newest, −1."""
        old, new = self._tables[index], tabulate(coded, self.layout)
        sums = self._sums(i for i, h in enumerate(self.horizons) if -index <= h)
        old.add_to(*sums, sign=-1)
        new.add_to(*sums)
        self.slices[index] = coded
        self._tables[index] = new

    def failing(self, index: int, outcome: int) -> np.ndarray:
        """Rows of a slice that failed, ascending; `index` as in `slices`."""
        rows = self._tables[index].failing
        return np.asarray(rows[self.slices[index].slice.failed[rows, outcome]])

    def past(self, span: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Failures observed and expected, (outcomes, size), of windows of `span` slices.

        They do not overlap; the newest comes first.
        """
        tables = list(self._tables)
        for end in range(len(tables), span - 1, -span):
            sums = self._zeros()[0], self._zeros()[0]
            for table in tables[end - span : end]:
                table.add_to(sums)
            yield sums

    def _sums(self, horizons: Iterable[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(self.observed[i], self.expected[i]) for i in horizons]

    def _relayout(self, sizes: tuple[int, ...]) -> None:
        self.layout = Layout.build(self.layout.attributes, sizes)
        self.observed, self.expected = self._zeros(), self._zeros()
        coded = list(self.slices)
        self._tables = deque((tabulate(c, self.layout) for c in coded), self._tables.maxlen)
        for age, table in enumerate(reversed(self._tables)):
            table.add_to(*self._sums(i for i, h in enumerate(self.horizons) if age < h))
