"""Rows → leaves: those that no candidate tells apart, within a band of time.

A *band* is what lies between two horizons. What a set of causes explains depends on nothing but the
sums of leaves, so every set can be weighed without another look at the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.attribution.screen import Candidate, Screen
from monitor.attribution.selectors import Selector

_ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Failures of one outcome by leaf."""

    observed: np.ndarray  # (leaves,)
    expected: np.ndarray  # (leaves,)
    exposure: np.ndarray  # (leaves,) events
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
        return np.array(
            [member[:, a:b] @ amounts[a:b] for a, b in zip(ends, ends[1:], strict=False)]
        ).T


def leaves_of(screen: Screen, candidates: Sequence[Candidate]) -> Leaves:
    """The leaves of some candidates, at most 63."""
    tables, outcome = screen.tables, screen.outcome
    code = None if screen.codes is None else screen.codes.attribute
    width = max((c.local.shape[1] for c in tables.slices), default=0)
    bits = {a: _bits([c.selector for c in candidates], a, tables.slices) for a in range(width)}
    bits = {a: table for a, table in bits.items() if table is not None}
    coded = None if code is None else bits.pop(code, None)
    horizons = np.array(tables.horizons)
    keys, bands, sums = [], [], []
    everything = [not c.selector for c in candidates]
    none = np.uint64(sum(1 << bit for bit, every in enumerate(everything) if every))
    spare = _ALL << np.uint64(len(candidates))  # bits of no candidate are always set
    none |= spare
    for s, piece in enumerate(tables.slices):
        band = int(np.searchsorted(horizons, len(tables.slices) - 1 - s, side="right"))
        if band == len(horizons):
            continue
        pattern = np.full(len(piece.local), _ALL)
        for a, table in bits.items():
            pattern &= table[piece.local[:, a]]
        weight, fair = piece.exposure.astype(float), screen.fair[s]
        failing = tables.failing(s, outcome)
        lost = piece.slice.weight[failing].astype(float)
        if coded is None or code is None:
            parts = [(pattern, np.zeros(len(weight)), weight * fair, weight)]
            parts.append((pattern[failing], lost, 0 * lost, 0 * lost))
        else:
            parts = _by_code(screen, piece.local, pattern, weight, fair, coded)
            own = pattern[failing] & coded[piece.local[failing, code]]
            parts.append((own, lost, 0 * lost, 0 * lost))
        for key, *amounts in parts:
            some = key != none  # most rows are of no candidate
            if not some.all():
                amounts.append(key)
                rest = [[a[~some].sum()] for a in amounts[:3]]
                *amounts, key = (a[some] for a in amounts)
                keys.append(np.array([none]))
                bands.append(np.array([band]))
                sums.append(np.array(rest))
            distinct, place = np.unique(key, return_inverse=True)
            place = place.ravel()
            keys.append(distinct)
            bands.append(np.full(len(distinct), band))
            sums.append(np.array([np.bincount(place, a, len(distinct)) for a in amounts]))
    key, band_of = np.concatenate(keys), np.concatenate(bands)
    order = np.lexsort((key, band_of))
    new = np.append(True, np.diff(key[order]) != 0) | np.append(True, np.diff(band_of[order]) != 0)
    amounts = np.add.reduceat(np.concatenate(sums, axis=1)[:, order], np.flatnonzero(new), axis=1)
    first = order[new]
    shifts = np.arange(len(candidates), dtype=np.uint64)[:, None]
    member = (key[first] >> shifts & np.uint64(1)).astype(bool)
    return Leaves(*amounts, band_of[first], member, len(horizons))


def _by_code(
    screen: Screen,
    local: np.ndarray,
    pattern: np.ndarray,
    weight: np.ndarray,
    fair: np.ndarray,
    coded: np.ndarray,
) -> list[tuple[np.ndarray, ...]]:
    """What is expected of rows, divided among the codes that any candidate names, and the rest."""
    assert screen.codes is not None
    names = np.flatnonzero(coded[:-1] != coded[0])
    share = screen.code_shares(len(coded))[:, names]
    parent = np.zeros(len(local), int)
    if screen.codes.parent is not None:
        parent = np.clip(local[:, screen.codes.parent], 0, len(share) - 1)
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    none = np.zeros(len(weight))
    parts = []
    for i, name in enumerate(names):
        part = share[parent, i]
        parts.append((pattern & coded[name], none, weight * fair * part, weight * part))
    rest = 1 - share.sum(axis=1)[parent]
    parts.append((pattern & coded[0], none, weight * fair * rest, weight * rest))
    return parts


def _bits(selectors: Sequence[Selector], attribute: int, slices: Sequence) -> np.ndarray | None:
    """Node number → the candidates that it does not rule out, as bits; the last is a missing one."""
    named = [dict(s).get(attribute) for s in selectors]
    if not any(named):
        return None
    room = 2 + max(int(c.local[:, attribute].max(initial=0)) for c in slices)
    room = max(room, 2 + max(max(numbers) for numbers in named if numbers))
    table = np.full(room, _ALL)
    for bit, numbers in enumerate(named):
        if numbers is not None:
            mine = np.zeros(room, bool)
            mine[list(numbers)] = True
            table[~mine] &= ~(np.uint64(1) << np.uint64(bit))
    return table
