"""Slices → nodes: which values are columns of their own, and how often they co-occur.

A value becomes a node in the slice in which its rows reach the minimum support,
and stays one: running sums never need recoding, and a slice is always coded
as it was at its own time, also after a restart. Missing is a value like any other, except of the
error code, which only failures have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from monitor.domain import MISSING, OTHER, WindowSettings
from monitor.slices import Slice, narrowed

_NEVER = np.iinfo(np.int64).max
_ROWS_AT_ONCE = 1 << 18
"""Whose pairs are counted together, some 100 bytes a row at a time."""
_STRIP = 128
"""Rows of a large matrix that are transposed together."""
_WORTH_A_RUN = 128
"""Cells that one run of cells must have on average, to be added run by run."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A slice whose values are node numbers within their attribute.

    Millions of them wait in the windows, in types as narrow as their values allow (`compact`).
    Products of a weight and an expectation are float64 all the same, and exact; a sum of
    expectations alone has to ask for it.
    """

    slice: Slice
    local: np.ndarray  # (m, attributes) integers; OTHER is 0; MISSING that is no node is -1
    expected: np.ndarray  # (m, outcomes) expected failures per event, scored on arrival

    def compact(self) -> Coded:
        """The same, in less memory; columns lie together, for that is how they are read."""
        narrow = self.expected.astype(np.float32, order="F")
        exact = bool((narrow == self.expected).all())
        return Coded(
            self.slice.compact(),
            narrowed(self.local, np.int16),
            narrow if exact else np.asfortranarray(self.expected),
        )

    @property
    def exposure(self) -> np.ndarray:
        """(m,) events whose failures are expected: the weight, and 1 for a carrier (counts.py)."""
        return exposure(self.slice)

    def exposure_of(self, rows: np.ndarray) -> np.ndarray:
        """The same of some rows."""
        return np.asarray(np.maximum(self.slice.weight[rows], 1))


def exposure(piece: Slice) -> np.ndarray:
    """See `Coded.exposure`."""
    return np.asarray(np.maximum(piece.weight, 1))


class Nodes:
    """The grow-only set of nodes: per attribute, `other` and every supported value.

    Args:
        attributes: how many.
        settings: the support that makes a node.
        always: attributes of which missing is no value.
    """

    def __init__(
        self, attributes: int, settings: WindowSettings, always: frozenset[int] = frozenset()
    ) -> None:
        self._settings, self._always = settings, always
        self.counts = [np.zeros(1, np.int64) for _ in range(attributes)]
        """Per attribute: rows seen of every code."""
        self._local = [np.zeros(1, np.int32) for _ in range(attributes)]
        self._since = [np.full(1, _NEVER) for _ in range(attributes)]
        self.codes: list[list[int]] = [[OTHER] for _ in range(attributes)]
        """Per attribute: node number → code."""
        self._missing = np.zeros((3, attributes), np.int64)
        """Per attribute: rows seen without a value, the node that they are, and since when."""
        self._missing[2] = _NEVER

    def observe(self, piece: Slice, since: np.datetime64 | None = None) -> None:
        """Count the values of a slice and promote those with enough support.

        Args:
            piece: a new slice, or the late rows of an old one.
            since: start of the first slice that knows the promoted values; None is the slice's
                own. Slices coded already must not change when they are coded again.
        """
        moment = (piece.start if since is None else since).astype(np.int64)
        for a, column in enumerate(piece.values.T):
            seen = column > OTHER
            if not seen.all() and a not in self._always:
                self._observe_missing(a, int(piece.weight[column == MISSING].sum()), moment)
            if not seen.any():
                continue
            self._reserve(a, int(column.max()))
            counts = np.bincount(column[seen], piece.weight[seen], len(self.counts[a]))
            self.counts[a] += counts.astype(np.int64)
            ready = (
                (counts > 0) & (self._local[a] == 0) & (self.counts[a] >= self._settings.min_count)
            )
            room = self._settings.max_values + 1 - len(self.codes[a])
            for code in np.flatnonzero(ready)[: max(room, 0)]:
                self._local[a][code] = len(self.codes[a])
                self._since[a][code] = moment
                self.codes[a].append(int(code))

    def _observe_missing(self, a: int, rows: int, moment: np.int64) -> None:
        self._missing[0, a] += rows
        enough = rows and self._missing[0, a] >= self._settings.min_count
        if enough and not self._missing[1, a] and len(self.codes[a]) <= self._settings.max_values:
            self._missing[1:, a] = len(self.codes[a]), moment
            self.codes[a].append(MISSING)

    def _reserve(self, a: int, code: int) -> None:
        short = code + 1 - len(self.counts[a])
        if short > 0:
            short += len(self.counts[a]) // 2  # grow geometrically
            self.counts[a] = np.concatenate([self.counts[a], np.zeros(short, np.int64)])
            self._local[a] = np.concatenate([self._local[a], np.zeros(short, np.int32)])
            self._since[a] = np.concatenate([self._since[a], np.full(short, _NEVER)])

    def local(self, values: np.ndarray, at: np.datetime64 | None = None) -> np.ndarray:
        """Node numbers of `values` as of the slice that starts `at` (None: as of now).

        Args:
            values: (m, attributes) codes.

        Returns:
            (m, attributes) int32; MISSING stays MISSING until it is a node.
        """
        out = np.empty(values.shape, np.int32)
        moment = _NEVER - 1 if at is None else at.astype(np.int64)
        for a, column in enumerate(values.T):
            if len(column):
                self._reserve(a, int(column.max()))
            code = np.maximum(column, 0)
            node = np.where(self._since[a][code] <= moment, self._local[a][code], OTHER)
            missing = self._missing[1, a] if self._missing[2, a] <= moment else MISSING
            out[:, a] = np.where(column == MISSING, missing, node)
        return out

    def born(
        self, attribute: int, first: np.datetime64, last: np.datetime64
    ) -> list[tuple[int, np.datetime64]]:
        """Codes of the values that became nodes in slices from `first` to `last`, and when."""
        since = self._since[attribute]
        inside = (since >= first.astype(np.int64)) & (since <= last.astype(np.int64))
        return [
            (int(code), since[code].astype("datetime64[us]")) for code in np.flatnonzero(inside)
        ]

    def number(self, attribute: int, code: int) -> int:
        """Node number of one value, as of now."""
        if code == MISSING:
            return int(self._missing[1, attribute]) or MISSING
        known = self._local[attribute]
        return int(known[code]) if 0 <= code < len(known) else OTHER

    def empty(self) -> frozenset[tuple[int, int]]:
        """(attribute, node number) of the missing values that are nodes."""
        return frozenset((a, int(n)) for a, n in enumerate(self._missing[1]) if n)

    def sizes(self) -> tuple[int, ...]:
        """Nodes per attribute, `other` included."""
        return tuple(len(codes) for codes in self.codes)

    def rare(self) -> int:
        """Values seen that are not nodes: they count as `other`."""
        return sum(
            int(np.count_nonzero(counts[1:])) + 1 - len(codes) + (MISSING in codes)
            for counts, codes in zip(self.counts, self.codes, strict=True)
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything needed to restore it."""
        out: dict[str, np.ndarray] = {}
        for a, codes in enumerate(self.codes):
            used = int(np.flatnonzero(self.counts[a])[-1]) + 1 if self.counts[a].any() else 1
            out[f"counts{a}"] = self.counts[a][:used]
            out[f"codes{a}"] = np.array(codes, np.int64)
            out[f"since{a}"] = self._since[a][np.maximum(codes, 0)]
        return out | {"missing": self._missing}

    @staticmethod
    def from_arrays(
        arrays: dict[str, np.ndarray],
        attributes: int,
        settings: WindowSettings,
        always: frozenset[int] = frozenset(),
    ) -> Nodes:
        """Inverse of `to_arrays`."""
        nodes = Nodes(attributes, settings, always)
        if "missing" in arrays:  # stores older than that have no such nodes
            nodes._missing = arrays["missing"].copy()
        for a in range(attributes):
            counts, codes = arrays[f"counts{a}"], arrays[f"codes{a}"]
            nodes._reserve(a, max(len(counts), int(codes.max()) + 1))
            nodes.counts[a][: len(counts)] = counts
            nodes.codes[a] = [int(code) for code in codes]
            values = codes != MISSING
            nodes._local[a][codes[values]] = np.flatnonzero(values)
            nodes._since[a][codes[values]] = arrays[f"since{a}"][values]
        return nodes


@dataclass(frozen=True, slots=True)
class Encoding:
    """The one-hot view of a window."""

    attribute: np.ndarray  # (d,) attribute of each node; outcomes are -1
    number: np.ndarray  # (d,) node number within its attribute, or the outcome's index
    gram: np.ndarray  # (d, d) XᵀX: rows in which two nodes co-occur
    rows: int
    rare_nodes: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """XᵀX of one slice: its cells that are not zero."""

    cells: np.ndarray  # (c,) integers, places in the flat sum, none twice
    counts: np.ndarray  # (c,) integers, rows
    rows: int


class GramSum:
    """XᵀX of a window as a running sum over slices; exact, so push then drop is nothing.

    Node order: outcomes first, then attribute nodes by attribute and number, with spare room
    that doubles when an attribute outgrows it. Of two nodes the earlier one is the row.

    It remembers the pairs of a slice that has more rows than pairs: they are counted once, and
    leave as they came, however many rows there were.
    """

    def __init__(self, attributes: int, outcomes: int) -> None:
        self._outcomes = outcomes
        self._room = np.full(attributes, 32)
        self._sum = np.zeros((self._width(), self._width()))
        self._kept: deque[Pairs | None] = deque()
        self.rows = 0

    def _width(self) -> int:
        return self._outcomes + int(self._room.sum())

    def _offsets(self) -> np.ndarray:
        return self._outcomes + np.concatenate([[0], np.cumsum(self._room)[:-1]])

    def _grow(self, sizes: tuple[int, ...]) -> None:
        if all(size <= room for size, room in zip(sizes, self._room, strict=True)):
            return
        old_room, old_sum = self._room, self._sum
        self._room = np.array(
            [
                room if size <= room else max(size, 2 * room)
                for size, room in zip(sizes, old_room, strict=True)
            ]
        )
        place = np.concatenate(
            [np.arange(self._outcomes)]
            + [new + np.arange(r) for new, r in zip(self._offsets(), old_room, strict=True)]
        )
        width = self._width()
        self._sum = np.zeros((width, width))
        self._sum[np.ix_(place, place)] = old_sum
        for i, one in enumerate(self._kept):
            if one is not None:
                first, second = np.divmod(one.cells, len(old_sum))
                moved = narrowed(place[first] * width + place[second], np.int32)
                self._kept[i] = Pairs(moved, one.counts, one.rows)

    def push(self, coded: Coded, sizes: tuple[int, ...]) -> None:
        """Add the newest slice.

        Args:
            coded: its rows.
            sizes: nodes per attribute, to make room for new ones.
        """
        self._grow(sizes)
        self._kept.append(self._added(coded))

    def drop(self, oldest: Coded) -> None:
        """Take the oldest slice out again."""
        self._take(self._kept.popleft(), oldest)

    def replace(self, index: int, old: Coded, new: Coded, sizes: tuple[int, ...]) -> None:
        """Exchange a slice for one with late rows folded in; `index` counts from the newest, −1."""
        self._grow(sizes)
        self._take(self._kept[index], old)
        self._kept[index] = self._added(new)

    def _added(self, coded: Coded) -> Pairs | None:
        """Add a slice; what to remember of it."""
        pairs = self._pairs(coded)
        self._add(pairs)
        return pairs if len(pairs.cells) < len(coded.local) else None

    def _take(self, kept: Pairs | None, coded: Coded) -> None:
        self._add(kept or self._pairs(coded), -1)

    def _add(self, pairs: Pairs, sign: int = 1) -> None:
        self.rows += sign * pairs.rows
        self._sum.reshape(-1)[pairs.cells] += sign * pairs.counts

    def _pairs(self, coded: Coded) -> Pairs:
        """The pairs of a slice."""
        piece, width, offsets = coded.slice, self._width(), self._offsets()
        # the node of each attribute, a row per attribute; absent ones point at a spare last node
        local = np.ascontiguousarray(coded.local.T)
        nodes = np.where(local >= 0, local + offsets[:, None], width)
        # only the nodes present, so that the tables of pairs stay small
        present = np.flatnonzero(np.bincount(nodes.ravel(), minlength=width + 1)[:width])
        place = np.full(width + 1, len(present), np.int64)
        place[present] = np.arange(len(present))
        parts = [*self._of_failures(coded, nodes)]
        for a in range(len(nodes)):
            parts.append(_with_others(place[nodes[a:]], piece.weight, present, width))
        cells, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Pairs(narrowed(cells, np.int32), narrowed(counts, np.int32), piece.rows)

    def _of_failures(
        self, coded: Coded, nodes: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of outcomes with each other and with nodes, as cells and counts."""
        piece, width = coded.slice, self._width()
        for o in range(self._outcomes):
            rows = np.flatnonzero(piece.failed[:, o])
            weight = piece.weight[rows].astype(float)
            with_nodes = np.bincount(
                nodes[:, rows].ravel(), np.tile(weight, len(nodes)), width + 1
            )[:width]
            with_nodes[o : self._outcomes] = weight @ piece.failed[rows, o:]
            found = np.flatnonzero(with_nodes)
            yield o * width + found, with_nodes[found].astype(np.int64)

    def encode(self, nodes: Nodes, min_count: int, max_nodes: int) -> Encoding:
        """The window's nodes with at least `min_count` rows, the most frequent first kept."""
        sizes, offsets = nodes.sizes(), self._offsets()
        place = [np.arange(self._outcomes)]
        attribute = [np.full(self._outcomes, -1)]
        number = [np.arange(self._outcomes)]
        for a, size in enumerate(sizes):
            size = min(size, int(self._room[a]))
            place.append(offsets[a] + np.arange(size))
            attribute.append(np.full(size, a))
            number.append(np.arange(size))
        where = np.concatenate(place)
        count = np.diag(self._sum)[where]
        is_outcome = np.concatenate(attribute) == -1
        # a node carried by all rows is a constant: it explains nothing
        keep = is_outcome | ((count >= min_count) & (count < self.rows))
        if keep.sum() > max_nodes:
            ranked = np.argsort(
                -np.where(is_outcome, np.inf, np.where(keep, count, -1)), kind="stable"
            )
            keep = np.zeros(len(where), bool)
            keep[ranked[:max_nodes]] = True
        where = where[keep]
        gram = np.empty((len(where), len(where)))
        for there, here in _blocks(where, where):
            gram[here] = self._sum[there]
        _mirror(gram)
        return Encoding(
            np.concatenate(attribute)[keep],
            np.concatenate(number)[keep],
            gram,
            self.rows,
            nodes.rare(),
        )


def _with_others(
    columns: np.ndarray, weight: np.ndarray, present: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of the nodes of one attribute with themselves and with those of all that follow.

    Args:
        columns: (attributes, m) place in `present` of each row's node, or behind its end; the
            attribute's own come first.
        weight: (m,) events of each row.
        present: nodes, ascending; attributes follow each other.
        width: nodes that there is room for.

    Returns:
        Cells of the flat sum, and the events of each.
    """
    known = columns[0] < len(present)
    if not known.all():
        columns, weight = columns[:, known], weight[known]
    if not len(weight):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first, last = int(columns[0].min()), int(columns[0].max())
    high, wide = last + 1 - first, len(present) + 1 - first
    counts = np.zeros(high * wide)
    for start in range(0, len(weight), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        keys = (columns[0, some] - first) * wide + (columns[:, some] - first)
        counts += np.bincount(
            keys.ravel(), np.tile(weight[some].astype(float), len(keys)), high * wide
        )
    table = counts.reshape(high, wide)[:, :-1]
    one, other = np.nonzero(table)
    cells = present[first + one] * width + present[first + other]
    return cells, table[one, other].astype(np.int64)


def _blocks(rows: np.ndarray, columns: np.ndarray) -> Iterator[tuple[Any, Any]]:
    """Some rows and columns of a large matrix, block by block.

    Args:
        rows, columns: ascending.

    Yields:
        Indices into the large matrix, and into that of the rows and columns alone.
    """
    high, wide = _runs(rows), _runs(columns)
    if len(high) * len(wide) * _WORTH_A_RUN > len(rows) * len(columns):
        yield np.ix_(rows, columns), (slice(None), slice(None))
        return
    for (there, here), (across, along) in product(high, wide):
        yield (there, across), (here, along)


def _mirror(upper: np.ndarray) -> None:
    """Make an upper triangle symmetric, in place, strip by strip: caches are small."""
    for first in range(0, len(upper), _STRIP):
        last = first + _STRIP
        upper[last:, first:last] = upper[first:last, last:].T
        corner = upper[first:last, first:last]
        corner += np.triu(corner, 1).T


def _runs(places: np.ndarray) -> list[tuple[slice, slice]]:
    """Ascending places as runs without holes: where they lie, and which of the places they are."""
    ends = np.flatnonzero(np.diff(places) != 1) + 1
    pairs = zip([0, *ends], [*ends, len(places)], strict=True)
    return [(slice(int(places[i]), int(places[j - 1]) + 1), slice(i, j)) for i, j in pairs]


def correlation(gram: np.ndarray, rows: int) -> np.ndarray:
    """The standardised Gram matrix: correlations of the one-hot columns.

    Raw 0/1 columns differ in scale by orders of magnitude; LEAST with one λ would see
    only the frequent ones. Constant columns become zero with a one on the diagonal.
    """
    mean = np.diag(gram) / max(rows, 1)
    covariance = gram / max(rows, 1) - np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    flat = deviation < 1e-9
    deviation[flat] = 1.0
    result: np.ndarray = covariance / np.outer(deviation, deviation)
    result[flat, :] = 0
    result[:, flat] = 0
    np.fill_diagonal(result, 1.0)
    return result
