"""Causes of three values that no pair gives away: they are diluted in each of their pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from monitor.attribution.cells import LEAVE_ONE_OUT, MIN_RATIO, Cells
from monitor.attribution.suspects import Conditions, match
from monitor.domain import OTHER
from monitor.significance import excess_p_value, excess_score

PAIRS = 32
"""Pairs that are looked into, most elevated first."""
DILUTED = 3.0
"""Nats, before the price of the search, by which they must stand out themselves."""
SHARE = 0.5
"""Of a pair's excess, that its part must have failed."""
GUESSED = 6.0
"""Nats that a part may lack by the guess of what is expected of it, to be counted row by row."""
COUNTED = 12
"""Parts counted row by row at most."""


@dataclass(frozen=True, slots=True)
class Part:
    """Three values that together fail more than is fair."""

    conditions: Conditions
    horizon: int
    score: float
    p_value: float


class Threes:
    """Looks for causes of three values inside of the most elevated pairs.

    There are too many threes for tables. What failed is little, so it is counted row by row; what
    was expected is first guessed from the pairs, as if they had nothing in common that is not in
    them, and counted only for the few that would be worth it.

    Args:
        cells: the outcome's cells, as they are explained so far.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._layout = cells.layout
        horizons, slices = cells.tables.horizons, cells.tables.slices
        newest = np.arange(len(slices))[::-1]
        """Age of each slice, 0 is the newest."""
        self._band = np.searchsorted(np.array(horizons), newest, side="right")
        """The shortest horizon that holds a slice."""

    def best(self, scores: np.ndarray, threshold: float) -> Part | None:
        """The part that holds most nats above the threshold after the price of the search.

        Args:
            scores: (horizons, cells) of pairs against what is fair, weak ones included.
        """
        peaks = (scores + self._cells.price)[:, self._cells.pairs].max(axis=0, initial=0.0)
        diluted = np.flatnonzero(peaks > DILUTED)
        chosen = diluted[np.argsort(-peaks[diluted], kind="stable")[:PAIRS]]
        guesses = self._guess(self._cells.pairs[chosen], threshold)
        guesses.sort(key=lambda guess: (-guess[0], guess[1]))
        seen: set[Conditions] = set()
        best: Part | None = None
        for _, conditions, price in guesses:
            if conditions in seen:
                continue
            if len(seen) == COUNTED:
                break
            seen.add(conditions)
            part = self._count(conditions, price)
            if part is not None and part.score > max(threshold, best.score if best else -np.inf):
                best = part
        return best

    def _guess(self, pairs: np.ndarray, threshold: float) -> list[tuple[float, Conditions, float]]:
        """Promising parts of pairs: guessed score, conditions, price."""
        if not len(pairs):
            return []
        cells, layout = self._cells, self._layout
        named = [layout.conditions(int(cell)) for cell in cells.cells[pairs]]
        owner, band, weight, local = self._failures(named)
        horizons, k = len(cells.tables.horizons), len(layout.attributes)
        excess = cells.observed[:, pairs] - cells.expected[:, pairs]
        wanted = np.maximum(SHARE * excess, cells.min_failures).T
        place = {a: position for position, a in enumerate(layout.attributes)}
        own = np.array([[place[a] for a, _ in pair] for pair in named])
        numbers = np.array([[number for _, number in pair] for pair in named])
        present = cells.present[1 : 1 + k]
        others = np.maximum(present.sum() - present[own].sum(axis=1), 1)
        prices = cells.price[pairs] + np.log(others)
        found = []
        for p in range(k):
            room = layout.room[p]
            free = (own != p).all(axis=1)
            known = (local[p] > OTHER) & free[owner]
            seen = np.bincount(
                (owner[known] * horizons + band[known]) * room + local[p][known],
                weight[known],
                len(pairs) * horizons * room,
            ).reshape(len(pairs), horizons, room)
            seen = seen.cumsum(axis=1)
            able = seen >= wanted[:, :, None]
            i, values = np.nonzero(able.any(axis=1))
            if not len(values):
                continue
            third = np.full(len(i), p), values
            usual, size = self._usual(own[i], numbers[i], pairs[i], third)
            score = excess_score(seen[i, :, values].T, usual, size)
            peak = np.where(able[i, :, values].T, score, 0.0).max(axis=0) - prices[i]
            found += [
                (
                    float(peak[n]),
                    tuple(sorted((*named[i[n]], (layout.attributes[p], int(values[n]))))),
                    float(prices[i[n]]),
                )
                for n in np.flatnonzero(peak > threshold - GUESSED)
            ]
        return found

    def _failures(
        self, pairs: list[Conditions]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What failed of some pairs within the longest horizon.

        Returns:
            Per failure of a pair: which pair, the shortest horizon that holds it, its weight, and
            its nodes, (attributes, failures).
        """
        tables, attributes = self._cells.tables, self._layout.attributes
        some = [tables.failing(s, self._cells.outcome) for s in range(len(tables.slices))]
        rows = list(zip(tables.slices, some, strict=True))
        local = np.concatenate([c.local[r][:, attributes] for c, r in rows]).T.astype(np.int64)
        weight = np.concatenate([c.slice.weight[r] for c, r in rows])
        band = np.repeat(self._band, [len(r) for r in some])
        column = dict(zip(attributes, local, strict=True))
        has = {value: column[value[0]] == value[1] for pair in pairs for value in pair}
        hits = [np.flatnonzero(has[one] & has[two]) for one, two in pairs]
        hit = np.concatenate(hits)
        owner = np.repeat(np.arange(len(pairs)), [len(h) for h in hits])
        return owner, band[hit], weight[hit], local[:, hit]

    def _usual(
        self,
        own: np.ndarray,
        numbers: np.ndarray,
        pairs: np.ndarray,
        third: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Failures to expect of pairs with a third value each if pairs say all.

        Args:
            own, numbers: (n, 2) positions and node numbers of the pairs' values.
            pairs: (n,) their places among the cells.
            third: (n,) positions and node numbers.

        Returns:
            They, and the least size κ of the pairs, (horizons, n).
        """
        cells, layout = self._cells, self._layout
        single = np.array(layout.starts)[1 + third[0]] + third[1]
        left, right = (layout.pairs((own[:, c], numbers[:, c]), third) for c in (0, 1))
        single, left, right = (np.searchsorted(cells.cells, n) for n in (single, left, right))
        one, two = cells.parents[pairs].T
        e = cells.expected
        fair = e[:, left] * e[:, right] * (e[:, pairs] * e[:, [0]])
        fair /= np.maximum(e[:, single] * (e[:, one] * e[:, two]), 1e-12)
        size = np.minimum(
            np.minimum(cells.size[:, left], cells.size[:, right]), cells.size[:, pairs]
        )
        return fair, size

    def _around(self, conditions: Conditions) -> np.ndarray:
        """Places of everything, of the three values, and of their three pairs."""
        layout = self._layout
        numbers = [0, *(layout.cell((c,)) for c in conditions)]
        numbers += [layout.cell(pair) for pair in combinations(conditions, 2)]
        return np.searchsorted(self._cells.cells, numbers)

    def _size(self, around: np.ndarray) -> np.ndarray:
        return np.asarray(self._cells.size[:, around[4:]].min(axis=1))

    def _count(self, conditions: Conditions, price: float) -> Part | None:
        """Count three values row by row and compare them with what is left of all around them."""
        cells = self._cells
        horizons = len(cells.tables.horizons)
        counts = np.zeros((2, horizons))
        for s, coded in enumerate(cells.tables.slices):
            rows = np.flatnonzero(match(coded, conditions))
            weight = coded.exposure_of(rows)
            counts[0, self._band[s]] += weight @ coded.slice.failed[rows, cells.outcome]
            counts[1, self._band[s]] += weight @ cells.mu(s)[rows]
        o, e = counts.cumsum(axis=1)
        around = self._around(conditions)
        rest_o = cells.observed[:, around] - o[:, None]
        rest_e = np.maximum(cells.expected[:, around] - e[:, None], 0.0)
        ratio = (rest_o + LEAVE_ONE_OUT) / (rest_e + LEAVE_ONE_OUT)
        fair = e * np.maximum(ratio.max(axis=1), 1.0)
        size = self._size(around)
        score = excess_score(o, fair, size) - price
        score[(o < cells.min_failures) | (o < MIN_RATIO * fair)] = -np.inf
        h = int(np.argmax(score))
        if not np.isfinite(score[h]):
            return None
        for k in range(4, 7):
            if cells.elevated(
                float(rest_o[h, k]),
                float(rest_e[h, k]),
                (
                    float(cells.observed[h, 0] - cells.observed[h, around[k]]),
                    float(cells.expected[h, 0] - cells.expected[h, around[k]]),
                ),
            ):
                return None
        p_value = float(excess_p_value(o[h], fair[h], size[h]))
        return Part(conditions, h, float(score[h]), p_value)
