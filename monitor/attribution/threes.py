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
        self._failed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What failed within the longest horizon: nodes, weights, and shortest horizons."""
        if self._failed is None:
            local, weight, band = [], [], []
            for s, coded in enumerate(self._cells.tables.slices):
                failed = np.flatnonzero(coded.slice.failed[:, self._cells.outcome])
                local.append(coded.local[failed].astype(np.int64))
                weight.append(coded.slice.weight[failed])
                band.append(np.full(len(failed), self._band[s]))
            self._failed = np.concatenate(local), np.concatenate(weight), np.concatenate(band)
        return self._failed

    def best(self, scores: np.ndarray, threshold: float) -> Part | None:
        """The part that holds most nats above the threshold after the price of the search.

        Args:
            scores: (horizons, cells) of pairs against what is fair, weak ones included.
        """
        guesses = []
        peaks = (scores + self._cells.price)[:, self._cells.pairs].max(axis=0, initial=0.0)
        diluted = np.flatnonzero(peaks > DILUTED)
        for i in diluted[np.argsort(-peaks[diluted], kind="stable")[:PAIRS]]:
            guesses += self._guess(int(self._cells.pairs[i]), threshold)
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

    def _guess(self, j: int, threshold: float) -> list[tuple[float, Conditions, float]]:
        """Promising parts of a pair: guessed score, conditions, price."""
        cells, layout = self._cells, self._layout
        pair = layout.conditions(int(cells.cells[j]))
        local, weight, band = self._rows()
        (first, one), (second, two) = pair
        hit = np.flatnonzero((local[:, first] == one) & (local[:, second] == two))
        local, weight, band = local[hit], weight[hit], band[hit]
        horizons = len(cells.tables.horizons)
        wanted = np.maximum(
            SHARE * (cells.observed[:, j] - cells.expected[:, j]), cells.min_failures
        )
        others = [p for p, a in enumerate(layout.attributes) if a not in (first, second)]
        e = cells.tables.expected[-1, cells.outcome]
        starts = [layout.starts[1 + p] for p in others]
        present = sum(
            np.count_nonzero(e[start : start + layout.room[p]])
            for start, p in zip(starts, others, strict=True)
        )
        price = float(cells.price[j] + np.log(max(present, 1)))
        found = []
        for p in others:
            a, room = layout.attributes[p], layout.room[p]
            value = local[:, a]
            known = value > OTHER
            seen = np.bincount(
                band[known] * room + value[known], weight[known], horizons * room
            ).reshape(horizons, room)
            seen = seen.cumsum(axis=0)
            able = seen >= wanted[:, None]
            values = np.flatnonzero(able.any(axis=0))
            if not len(values):
                continue
            usual, size = self._usual(pair, a, values)
            score = excess_score(seen[:, values], usual, size)
            peak = np.where(able[:, values], score, 0.0).max(axis=0) - price
            found += [
                (float(peak[i]), tuple(sorted((*pair, (a, int(values[i]))))), price)
                for i in np.flatnonzero(peak > threshold - GUESSED)
            ]
        return found

    def _usual(self, pair: Conditions, a: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Failures to expect of a pair with each value of a third attribute if pairs say all.

        Returns:
            They, and the least size κ of the pairs, (horizons, values).
        """
        cells, layout = self._cells, self._layout
        numbers = []
        for others in ((), (pair[0],), (pair[1],)):
            start, following = (layout.cell((*others, (a, value))) for value in (0, 1))
            numbers.append(start + (following - start) * values)
        single, left, right = (np.searchsorted(cells.cells, number) for number in numbers)
        both, one, two = np.searchsorted(
            cells.cells, [layout.cell(pair), layout.cell(pair[:1]), layout.cell(pair[1:])]
        )
        e = cells.expected
        fair = e[:, left] * e[:, right] * (e[:, both] * e[:, 0])[:, None]
        fair /= np.maximum(e[:, single] * (e[:, one] * e[:, two])[:, None], 1e-12)
        size = np.minimum(
            np.minimum(cells.size[:, left], cells.size[:, right]), cells.size[:, [both]]
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
            hit = match(coded, conditions)
            weight = coded.exposure[hit]
            counts[0, self._band[s]] += weight @ coded.slice.failed[hit, cells.outcome]
            counts[1, self._band[s]] += weight @ cells.mu(s)[hit]
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
