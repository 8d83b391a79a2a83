"""A causal order by likelihood, for noise variances that differ: best order score search.

Every node stands somewhere in an order; its parents are chosen among its predecessors by greedy
growing and shrinking. One node at a time moves to the place that lowers the total score most, until
no move helps; then some nodes are thrown elsewhere and the search goes on, a few times. The score
of a node is its part of −2·log-likelihood plus a price per parent; what is known of the noise
decides how much of the order it can tell:

- `any`: Gaussian noise of whatever variances. Only the Markov equivalence class is identified;
  edges that lie in no v-structure, and follow from none, may point either way.
- `similar`: Gaussian noise whose log-variances scatter about a common value. Within a class the
  member of least scatter wins; the scatter is estimated along the way, so that equal variances and
  arbitrary ones are its two ends. It needs columns in their own units: standardising destroys it.
- `nongaussian`: independent noise that is not Gaussian, of whatever variances. The whole order is
  identified, on standardised columns too.

Sources: the search, Andrews et al. 2023, "Fast scalable and accurate discovery of DAGs using the
best order score search and grow-shrink trees"; the entropy of non-Gaussian residuals, Hyvärinen
1998, "New approximations of differential entropy", used for causal order by Hyvärinen and Smith
2013.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from least.likelihood_kernels import search
from least.ordering import conditional_variance_order

Noise = Literal["similar", "any", "nongaussian"]

MOST_PARENTS = 200
"""Parents per node; hubs of scale-free graphs have many."""

TRIES = 8
"""Times that a fifth of the nodes is thrown elsewhere and the search goes on. Without, standardised
ER-2 data of 50 nodes ends in a local optimum more often than not."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the search found."""

    order: np.ndarray
    """(d,) parents before children."""
    variances: np.ndarray
    """(d,) residual variance of each node given its parents."""
    score: float
    """−2·log-likelihood, up to a constant of the data, plus the price of all parents."""
    sweeps: int
    moves: int


class OrderSearch:
    """One problem; `best` searches, `of` scores a given order.

    Args:
        gram: (d, d) covariance of centred columns; no column is constant.
        rows: n.
        noise: what is known of the noise, see the module.
        X: (n, d) centred columns; needed for `nongaussian`.
        allowed: (d, d) bool, edges that may exist.
        required: (d, d) bool, acyclic; i stays before j wherever required[i, j].
        significance: standard errors that a parent must bring.
    """

    def __init__(
        self,
        gram: np.ndarray,
        rows: float,
        noise: Noise,
        X: np.ndarray | None = None,
        *,
        allowed: np.ndarray | None = None,
        required: np.ndarray | None = None,
        significance: float = 3.5,
    ) -> None:
        if noise not in ("similar", "any", "nongaussian"):
            raise ValueError(f"unknown noise {noise!r}: similar, any or nongaussian")
        if noise == "nongaussian" and X is None:
            raise ValueError("non-Gaussian noise needs rows")
        d = len(gram)
        deviation = np.sqrt(np.diag(gram))
        deviation = np.where(deviation > 0, deviation, 1.0)
        self._gram = np.asarray(gram, float)
        self._unit = np.ascontiguousarray(self._gram / np.outer(deviation, deviation))
        self._deviation = deviation
        self._rows = float(rows)
        self._similar = noise == "similar"
        self._required = required
        self._may = np.ones((d, d), np.bool_) if allowed is None else np.array(allowed, np.bool_)
        self._must = (
            np.zeros((d, d), np.bool_) if required is None else np.array(required, np.bool_)
        )
        self._price = significance**2
        # 1/K_vv is what is left of v given all others, so r²·K_vv bounds what v can explain.
        ridge = 1e-9 if rows > 2 * d else 1e-2
        self._precision = np.diag(np.linalg.inv(self._unit + ridge * np.eye(d))).copy()
        self._data = np.zeros((1, 1))
        if noise == "nongaussian":
            assert X is not None
            self._data = np.ascontiguousarray((X / deviation).T, float)

    def best(self, tries: int = TRIES, seed: int = 0, most_sweeps: int = 50) -> Order:
        """The best order found from the one of least conditional variances."""
        rng = np.random.default_rng(seed)
        start, _ = conditional_variance_order(self._gram, self._required)
        best = self._run(start, most_sweeps)
        d = len(start)
        for _ in range(tries if d > 2 else 0):
            found = self._run(self._thrown(best.order, rng), most_sweeps)
            if found.score < best.score - 1e-6:
                best = found
        return best

    def of(self, order: np.ndarray) -> Order:
        """The score of an order as it is."""
        return self._run(order, 0)

    def _run(self, order: np.ndarray, most_sweeps: int) -> Order:
        d = len(order)
        most = max(min(MOST_PARENTS, d - 1, int(self._rows / 2)), 1)
        order = np.array(order, np.int64)
        left = np.ones(d)
        score, sweeps, moves = search(
            self._unit, self._precision, self._rows, self._data, self._may, self._must,
            self._price, 2 * np.log(self._deviation), self._similar, order,
            np.zeros((d, most), np.int64), np.zeros(d, np.int64), np.zeros((d, most)), left,
            np.zeros(d), most_sweeps,
        )  # fmt: skip
        return Order(order, left * self._deviation**2, float(score), int(sweeps), int(moves))

    def _thrown(self, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The order with a fifth of its nodes, at least two, put elsewhere."""
        d = len(order)
        place = np.empty(d)
        place[order] = np.arange(d)
        moved = rng.choice(d, max(d // 5, 2), replace=False)
        place[moved] = rng.uniform(-1, d, len(moved))
        if self._required is None or not self._required.any():
            return np.argsort(place, kind="stable")
        waiting = self._required.sum(0)
        ready = [(place[j], j) for j in np.flatnonzero(waiting == 0)]
        heapq.heapify(ready)
        result = []
        while ready:  # the first by place among those whose required parents all stand
            _, j = heapq.heappop(ready)
            result.append(j)
            for k in np.flatnonzero(self._required[j]):
                waiting[k] -= 1
                if waiting[k] == 0:
                    heapq.heappush(ready, (place[k], k))
        return np.array(result, np.int64)
