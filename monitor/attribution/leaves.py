"""Rows → leaves: those that no candidate tells apart, within a band of time.

A *band* is what lies between two horizons. What a set of causes explains depends on nothing but the
sums of leaves, so every set can be weighed without another look at the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.attribution.screen import Candidate, Screen
from monitor.attribution.selectors import Selector
from monitor.encoding import Coded

_ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Failures of one outcome by leaf."""

    observed: np.ndarray  # (leaves,)
    expected: np.ndarray  # (leaves,)
    exposure: np.ndarray  # (leaves,) events, divided among codes as what is expected of them
    events: np.ndarray  # (leaves,) events, any of which may fail with the leaf's code
    band: np.ndarray  # (leaves,) ascending; 0 is the newest
    member: np.ndarray  # (candidates, leaves) bool
    bands: int

    def sums(self, member: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        """Sums of amounts by band over the leaves of some candidates, (candidates, bands).

        Args:
            member: (candidates, leaves) 1.0 where a leaf is theirs.
            amounts: (leaves,)
        """
        ends = np.searchsorted(self.band, np.arange(self.bands + 1))
        return np.array([member[:, a:b] @ amounts[a:b] for a, b in pairwise(ends)]).T


_Part = tuple[np.ndarray, np.ndarray]
"""Patterns of some rows, as bits, and their failures, expectations, exposure, events, (4, rows)."""


def leaves_of(screen: Screen, candidates: Sequence[Candidate]) -> Leaves:
    """The leaves of some candidates, at most 63."""
    tables, count = screen.tables, len(candidates)
    code = None if screen.codes is None else screen.codes.attribute
    width = max((c.local.shape[1] for c in tables.slices), default=0)
    named = {a: _bits([c.selector for c in candidates], a, tables.slices) for a in range(width)}
    coded = None if code is None else named.pop(code)
    bits = {a: table for a, table in named.items() if table is not None}
    # bits of no candidate are always set, and so is that of everything
    nobody = _ALL << np.uint64(count)
    nobody |= np.uint64(sum(1 << i for i, c in enumerate(candidates) if not c.selector))
    horizons = np.array(tables.horizons)
    keys, bands, sums = [], [], []
    for s, piece in enumerate(tables.slices):
        band = int(np.searchsorted(horizons, len(tables.slices) - 1 - s, side="right"))
        if band == len(horizons):
            continue
        pattern = np.full(len(piece.local), _ALL)
        for a, table in bits.items():
            pattern &= table[piece.local[:, a]]
        for key, amounts in _parts(screen, s, pattern, coded):
            distinct, summed = _summed(key, amounts, nobody)
            keys.append(distinct)
            bands.append(np.full(len(distinct), band))
            sums.append(summed)
    key, band_of, amounts = np.concatenate(keys), np.concatenate(bands), np.concatenate(sums, 1)
    order = np.lexsort((key, band_of))
    key, band_of = key[order], band_of[order]
    new = np.flatnonzero(
        np.append(True, np.diff(key) != 0) | np.append(True, np.diff(band_of) != 0)
    )
    observed, expected, exposure, events = np.add.reduceat(amounts[:, order], new, axis=1)
    shifts = np.arange(count, dtype=np.uint64)[:, None]
    member = (key[new] >> shifts & np.uint64(1)).astype(bool)
    return Leaves(observed, expected, exposure, events, band_of[new], member, len(horizons))


def _summed(key: np.ndarray, amounts: np.ndarray, nobody: np.uint64) -> tuple[np.ndarray, ...]:
    """Distinct patterns and the sums of their rows; most rows are of no candidate."""
    some = key != nobody
    distinct, place = np.unique(key[some], return_inverse=True)
    place = place.ravel()
    summed = np.array([np.bincount(place, a[some], len(distinct)) for a in amounts])
    rest = amounts.sum(axis=1) - summed.sum(axis=1)
    return np.append(distinct, nobody), np.column_stack([summed, rest])


def _parts(
    screen: Screen, s: int, pattern: np.ndarray, coded: np.ndarray | None
) -> Iterator[_Part]:
    """Rows of a slice with what is expected of them, and failures with what was observed.

    Where a candidate names an error code, what is expected is divided among the codes that are
    named, and the rest.
    """
    piece, failing = screen.tables.slices[s], screen.tables.failing(s, screen.outcome)
    weight = piece.exposure.astype(float)
    fair = weight * screen.fair[s]
    lost = np.zeros((4, len(failing)))
    lost[0] = piece.slice.weight[failing]
    if coded is None or screen.codes is None:
        yield pattern, np.array([0 * weight, fair, weight, weight])
        yield pattern[failing], lost
        return
    yield pattern[failing] & coded[piece.local[failing, screen.codes.attribute]], lost
    names = np.flatnonzero(coded[:-1] != coded[0])
    share = screen.code_shares(len(coded))[:, names]
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    parent = screen.parent_of(piece.local, len(share))
    for bits, part in zip(
        (*coded[names], coded[0]), (*share.T, 1 - share.sum(axis=1)), strict=True
    ):
        mine = part[parent]
        yield pattern & bits, np.array([0 * weight, fair * mine, weight * mine, weight])


def _bits(
    selectors: Sequence[Selector], attribute: int, slices: Iterable[Coded]
) -> np.ndarray | None:
    """Node number → the candidates that it does not rule out, as bits; the last is "missing".

    None where no candidate names the attribute.
    """
    named = [dict(s).get(attribute) for s in selectors]
    most = [max(numbers) for numbers in named if numbers]
    if not most:
        return None
    room = 2 + max(*most, *(int(c.local[:, attribute].max(initial=0)) for c in slices))
    table = np.full(room, _ALL)
    for bit, numbers in enumerate(named):
        if numbers is not None:
            mine = np.zeros(room, bool)
            mine[list(numbers)] = True
            table[~mine] &= ~(np.uint64(1) << np.uint64(bit))
    return table
