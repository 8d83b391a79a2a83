"""Ordering by conditional variance for up to 10⁵ variables: residual-screened peeling.

The dense ordering places one node at a time and looks at all pairs. Here every node whose residual
variance given its known parents has come down to the common noise variance is placed at once; the
residuals of the others are then correlated with the residuals of the newly placed, and only nodes
with a significant correlation are regressed again, on their few candidates. Like its dense twin it
assumes equal noise variances and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from least.compiled import numba
from least.screening import pursue, solve_chosen

BLOCK = 4000
"""Variables whose cross-correlations exist at one time (BLOCK² float32 = 64 MB)."""


@dataclass(frozen=True, slots=True)
class Peeled:
    """An order and the parents found on the way."""

    order: np.ndarray
    """(d,) parents before children."""
    sources: np.ndarray  # (s,) int64
    targets: np.ndarray  # (s,) int64
    weights: np.ndarray  # (s,) float64
    variances: np.ndarray
    """(d,) residual variance of each node given its parents."""
    noise_variance: float
    """The common noise variance as estimated from the first layer."""
    rounds: int


@dataclass(frozen=True, slots=True)
class PeelOptions:
    """When a node counts as explained, and what counts as a candidate."""

    slack: float = 0.2
    """A node is placed when its residual variance is within this share of the noise variance."""
    screen: float = 4.5
    """Standard errors a correlation of residuals needs to make a candidate."""
    significance: float = 3.5
    """Standard errors an additional parent must bring."""
    most_parents: int = 40
    most_candidates: int = 256


class _State:
    """Everything a round reads and writes."""

    def __init__(self, variables: np.ndarray, options: PeelOptions) -> None:
        d, self.n = variables.shape
        self.x = variables
        self.residual = variables.copy()
        self.variance = np.einsum("ij,ij->i", variables, variables, dtype=np.float64) / self.n
        self.deviation = np.sqrt(self.variance).astype(np.float32)
        self.left = self.variance.copy()
        self.candidates = np.zeros((d, options.most_candidates), np.int32)
        self.candidate_count = np.zeros(d, np.int64)
        self.parents = np.zeros((d, options.most_parents), np.int32)
        self.parent_count = np.zeros(d, np.int64)
        self.coefficients = np.zeros((d, options.most_parents), np.float32)
        self.cut = np.float32(options.screen / np.sqrt(self.n))
        self.gain = options.significance**2 / self.n

    def screen(self, nodes: np.ndarray, placed: np.ndarray, raw: bool = False) -> np.ndarray:
        """Add placed nodes as candidates of `nodes`; returns the nodes that got a new one.

        Args:
            raw: correlate with the placed variables themselves rather than their residuals.
        """
        touched = np.zeros(len(nodes), bool)
        for i in range(0, len(nodes), BLOCK):
            here = nodes[i : i + BLOCK]
            mine = self.residual[here] / (self.n * self._scale(here))[:, None]
            fresh = np.zeros(len(here), bool)
            for k in range(0, len(placed), BLOCK):
                there = placed[k : k + BLOCK]
                other = self.x[there] if raw else self.residual[there]
                scale = np.maximum(self.deviation[there], 1e-30) if raw else self._scale(there)
                correlation = mine @ (other / scale[:, None]).T
                _add_candidates(
                    correlation, here, there, self.cut, self.candidates, self.candidate_count, fresh
                )
            touched[i : i + BLOCK] = fresh
        return nodes[touched]

    def regress(self, nodes: np.ndarray) -> None:
        """Fit `nodes` again on their candidates."""
        if len(nodes):
            _regress(
                self.x, nodes, self.candidates, self.candidate_count, self.gain, self.parents,
                self.parent_count, self.coefficients, self.left, self.residual,
            )  # fmt: skip

    def _scale(self, nodes: np.ndarray) -> np.ndarray:
        scale: np.ndarray = np.sqrt(np.maximum(self.left[nodes], 1e-30)).astype(np.float32)
        return scale


def peel(
    variables: np.ndarray,
    options: PeelOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Peeled:
    """Order all variables and find their parents.

    Args:
        variables: (d, n) float32, centred, contiguous.
        progress: called with ("ordering", placed, d) after each round.
    """
    options = options or PeelOptions()
    state = _State(variables, options)
    d = len(variables)
    rank, placed_count, rounds = np.full(d, -1), 0, 0
    seen = state.variance.copy()
    # The first layer: the smallest variances belong to nodes without parents.
    smallest = np.sort(state.left)[int(0.001 * d)]
    noise = float(np.median(state.left[state.left <= (1 + options.slack) * smallest]))
    bar = (1 + options.slack) * noise
    while placed_count < d:
        waiting = np.flatnonzero(rank < 0)
        ready = waiting[state.left[waiting] <= bar]
        if not len(ready):
            ready = _force(state, waiting, np.flatnonzero(rank >= 0), bar)
        ready = ready[np.argsort(state.left[ready], kind="stable")]
        rank[ready] = np.arange(placed_count, placed_count + len(ready))
        placed_count += len(ready)
        waiting = np.flatnonzero(rank < 0)
        state.regress(state.screen(waiting, ready))
        # A parent found late uncovers correlations with nodes placed long ago.
        for _ in range(4):
            improved = waiting[state.left[waiting] < 0.75 * seen[waiting]]
            seen[improved] = state.left[improved]
            if not len(improved):
                break
            placed = np.flatnonzero(rank >= 0)
            again = np.union1d(
                state.screen(improved, placed), state.screen(improved, placed, raw=True)
            )
            if not len(again):
                break
            state.regress(again)
        rounds += 1
        if progress is not None:
            progress("ordering", placed_count, d)
    _last_look(state, rank, noise)
    targets = np.repeat(np.arange(d), state.parent_count)
    sources = np.concatenate([state.parents[j, : state.parent_count[j]] for j in range(d)]).astype(
        np.int64
    )
    weights = np.concatenate([state.coefficients[j, : state.parent_count[j]] for j in range(d)])
    return Peeled(
        np.argsort(rank), sources, targets, weights.astype(float), state.left, noise, rounds
    )


def _force(state: _State, waiting: np.ndarray, placed: np.ndarray, bar: float) -> np.ndarray:
    """Nobody is explained: look again at the nearest fifth, else place the nearest thirtieth."""
    nearest = waiting[np.argsort(state.left[waiting], kind="stable")]
    state.regress(state.screen(nearest[: max(200, len(waiting) // 5)], placed))
    ready: np.ndarray = waiting[state.left[waiting] <= bar]
    if len(ready):
        return ready
    nearest = waiting[np.argsort(state.left[waiting], kind="stable")]
    placed_anyway: np.ndarray = nearest[: max(1 + len(state.x) // 1000, len(waiting) // 30)]
    return placed_anyway


def _last_look(state: _State, rank: np.ndarray, noise: float) -> None:
    """Nodes left with too much variance are screened once more against all their predecessors."""
    order = np.argsort(rank)
    poor = np.flatnonzero(state.left > 1.15 * noise)
    poor = poor[np.argsort(rank[poor])]
    for first in range(0, len(poor), BLOCK):
        group = poor[first : first + BLOCK]
        mine = state.residual[group] / (state.n * state._scale(group))[:, None]
        touched = np.zeros(len(group), bool)
        for k in range(0, int(rank[group].max()), BLOCK):
            there = order[k : k + BLOCK]
            correlation = mine @ (state.residual[there] / state._scale(there)[:, None]).T
            correlation[rank[there][None, :] >= rank[group][:, None]] = 0
            _add_candidates(
                correlation, group, there, state.cut, state.candidates, state.candidate_count,
                touched,
            )  # fmt: skip
        state.regress(group[touched])


@numba.njit(cache=True)
def _add_candidates(
    correlation: np.ndarray,
    nodes: np.ndarray,
    placed: np.ndarray,
    cut: float,
    candidates: np.ndarray,
    count: np.ndarray,
    touched: np.ndarray,
) -> None:
    most = candidates.shape[1]
    for a in range(len(nodes)):
        j = nodes[a]
        for b in range(len(placed)):
            if abs(correlation[a, b]) > cut and count[j] < most:
                known = False
                for t in range(count[j]):
                    if candidates[j, t] == placed[b]:
                        known = True
                        break
                if not known:
                    candidates[j, count[j]] = placed[b]
                    count[j] += 1
                    touched[a] = True


@numba.njit(cache=True)
def _regress(
    x: np.ndarray,
    nodes: np.ndarray,
    candidates: np.ndarray,
    candidate_count: np.ndarray,
    gain: float,
    parents: np.ndarray,
    parent_count: np.ndarray,
    coefficients: np.ndarray,
    left: np.ndarray,
    residual: np.ndarray,
) -> None:
    n = x.shape[1]
    most = parents.shape[1]
    chosen = np.empty(most, np.int64)
    for j in nodes:
        m = candidate_count[j]
        rows = np.empty((m + 1, n), np.float32)
        rows[0] = x[j]
        for t in range(m):
            rows[t + 1] = x[candidates[j, t]]
        gram = (np.dot(rows, rows.T) / n).astype(np.float64)
        count, left[j] = pursue(gram, min(most, m), gain, chosen)
        parent_count[j] = count
        residual[j] = x[j]
        if count == 0:
            continue
        solution = solve_chosen(gram, chosen[:count])
        for u in range(count):
            parent = candidates[j, chosen[u]]
            parents[j, u] = parent
            coefficients[j, u] = solution[u]
            weight = np.float32(solution[u])
            for i in range(n):
                residual[j, i] -= weight * x[parent, i]
