"""Candidate edges for problems too large for a (d, d) matrix.

All functions take the data transposed: (d, n) float32, one centred variable per row, contiguous.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from least.compiled import numba

BLOCK = 2000
"""Rows of the correlation matrix that exist at one time, at most."""

PRODUCTS = 50_000_000
"""Entries of it that exist at one time (200 MB)."""


def correlation_neighbours(variables: np.ndarray, count: int) -> np.ndarray:
    """For every variable the `count` others with the largest |correlation|.

    Args:
        variables: (d, n).
        count: at most d − 1.

    Returns:
        (d, count) int32, strongest first. O(d²·n) time, O(d·count) memory.
    """
    unit = _unit(variables)
    return _strongest(unit, unit, count)


def pursuit_support(
    variables: np.ndarray,
    neighbours: int = 50,
    *,
    sweeps: int = 2,
    again: int = 20,
    most: int = 40,
    significance: float = 3.5,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Edges i → j that orthogonal matching pursuit keeps for every j.

    The first pursuit chooses among the `neighbours` most correlated variables. Each further sweep
    looks at what is left of j: the variables, and the leftovers of variables, most correlated with
    that join the parents kept so far, and the pursuit runs again. At d = 1,000 one sweep lifts the
    share of true edges found from 0.71 to 0.90 with hardly more candidates.

    Args:
        variables: (d, n).
        sweeps: how often leftovers are screened.
        again: candidates that a sweep takes from each kind.
        most: parents per variable.
        significance: standard errors an additional parent must bring.

    Returns:
        sources, targets: (s,) int64 each.
    """
    d, n = variables.shape
    gain = significance**2 / n
    unit = _unit(variables)
    candidates = _strongest(unit, unit, neighbours)
    chosen, taken = np.zeros((d, most), np.int32), np.zeros(d, np.int64)
    residual = np.empty_like(variables)
    for sweep in range(sweeps + 1):
        if progress is not None:
            progress("screening", sweep, sweeps + 1)
        if sweep:
            left = _unit(residual)
            parts = [_strongest(left, left, again), _strongest(left, unit, again)]
            parts.append(np.where(np.arange(most) < taken[:, None], chosen, -1))
            candidates = np.concatenate(parts, axis=1)
        _pursue_all(variables, candidates, gain, chosen, taken, residual)
    sources = np.concatenate([chosen[j, : taken[j]] for j in range(d)]).astype(np.int64)
    return sources, np.repeat(np.arange(d), taken)


def _unit(variables: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(variables, axis=1, keepdims=True)
    unit: np.ndarray = variables / np.maximum(length, 1e-30)
    return unit


def gram_neighbours(gram: np.ndarray, count: int) -> np.ndarray:
    """`correlation_neighbours` from the Gram matrix."""
    d = len(gram)
    scale = (1 / np.sqrt(np.maximum(np.diag(gram), 1e-30))).astype(np.float32)
    neighbours = np.empty((d, min(count, d - 1)), np.int32)
    for first in range(0, d, BLOCK):
        strength = gram[first : first + BLOCK] * scale
        _keep_strongest(np.ascontiguousarray(strength), first, neighbours)
    return neighbours


def _strongest(left: np.ndarray, right: np.ndarray, count: int) -> np.ndarray:
    """For every row of `left` the `count` other rows of `right` with the largest |product|."""
    d = len(left)
    neighbours = np.empty((d, min(count, d - 1)), np.int32)
    block = max(min(BLOCK, PRODUCTS // d), 64)
    for first in range(0, d, block):
        _keep_strongest(left[first : first + block] @ right.T, first, neighbours)
    return neighbours


@numba.njit(cache=True)
def _keep_strongest(strength: np.ndarray, first: int, neighbours: np.ndarray) -> None:
    """The largest |entries| of each row, strongest first, into `neighbours[first:]`.

    One pass with a short sorted list: on rows of 10⁵ entries a tenth of a partition's time.
    """
    count = neighbours.shape[1]
    sizes = np.empty(count, np.float32)
    for a in range(strength.shape[0]):
        held = 0
        row = neighbours[first + a]
        least = np.float32(-1)
        for j in range(strength.shape[1]):
            size = abs(strength[a, j])
            if (held == count and not size > least) or j == first + a:
                continue
            place = held if held < count else count - 1
            while place > 0 and sizes[place - 1] < size:
                if place < count:
                    sizes[place], row[place] = sizes[place - 1], row[place - 1]
                place -= 1
            sizes[place], row[place] = size, j
            held = min(held + 1, count)
            if held == count:
                least = sizes[count - 1]


def random_support(
    d: int, density: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's support: a share `density` of all ordered pairs, drawn blindly.

    At d = 10⁴ and density 1e-4 it holds one true edge in ten thousand: F1 is 0 whatever follows.
    """
    drawn = np.unique(rng.integers(0, d * d, int(density * d * d)))
    sources, targets = drawn // d, drawn % d
    keep = sources != targets
    return sources[keep], targets[keep]


def both_directions(
    sources: np.ndarray, targets: np.ndarray, d: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs and their opposites, each once, in order."""
    pairs = np.unique(
        np.concatenate([sources * np.int64(d) + targets, targets * np.int64(d) + sources])
    )
    return pairs // d, pairs % d


@numba.njit(cache=True)
def pursue(gram: np.ndarray, most: int, gain: float, chosen: np.ndarray) -> tuple[int, float]:
    """Forward selection for variable 0 among variables 1…m of a local Gram matrix.

    The next parent is the one that lowers the residual variance most; it must lower it by the share
    `gain`. A growing Cholesky factor of the chosen ones keeps a step at O(m·t).

    Args:
        gram: (m+1, m+1) float64.
        chosen: (most,) int64, filled with indices into 1…m, less one.

    Returns:
        How many were chosen, and the residual variance.
    """
    m = gram.shape[0] - 1
    factor = np.zeros((m, most))
    left, gradient, spread = gram[0, 0], np.empty(m), np.empty(m)
    used = np.zeros(m, np.bool_)
    for i in range(m):
        gradient[i], spread[i] = gram[0, i + 1], gram[i + 1, i + 1]
    for t in range(most):
        best, best_gain = -1, 0.0
        for i in range(m):
            if not used[i] and spread[i] > 1e-6 * gram[i + 1, i + 1]:
                value = gradient[i] * gradient[i] / spread[i]
                if value > best_gain:
                    best, best_gain = i, value
        if best < 0 or best_gain < gain * left:
            return t, left
        used[best] = True
        chosen[t] = best
        deviation = np.sqrt(spread[best])
        pull = gradient[best] / deviation
        for i in range(m):
            if not used[i]:
                value = gram[best + 1, i + 1]
                for u in range(t):
                    value -= factor[best, u] * factor[i, u]
                value /= deviation
                factor[i, t] = value
                gradient[i] -= value * pull
                spread[i] -= value * value
        factor[best, t] = deviation
        left -= pull * pull
    return most, left


@numba.njit(cache=True)
def _pursue_all(
    variables: np.ndarray,
    candidates: np.ndarray,
    gain: float,
    chosen: np.ndarray,
    taken: np.ndarray,
    residual: np.ndarray,
) -> None:
    """Pursuit for every variable among its row of `candidates` (−1 is none, repeats are one)."""
    d, n = variables.shape
    width = candidates.shape[1]
    names = np.empty(width, np.int64)
    picked = np.empty(chosen.shape[1], np.int64)
    for j in range(d):
        m = 0
        for t in range(width):
            name = candidates[j, t]
            known = name < 0 or name == j
            for u in range(m):
                known |= names[u] == name
            if not known:
                names[m] = name
                m += 1
        rows = np.empty((m + 1, n), np.float32)
        rows[0] = variables[j]
        for t in range(m):
            rows[t + 1] = variables[names[t]]
        gram = (np.dot(rows, rows.T) / n).astype(np.float64)
        count, _ = pursue(gram, min(chosen.shape[1], m), gain, picked)
        taken[j] = count
        residual[j] = variables[j]
        if count == 0:
            continue
        weights = solve_chosen(gram, picked[:count])
        for t in range(count):
            chosen[j, t] = names[picked[t]]
            weight = np.float32(weights[t])
            for i in range(n):
                residual[j, i] -= weight * rows[picked[t] + 1, i]


@numba.njit(cache=True)
def solve_chosen(gram: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Coefficients of variable 0 on the chosen ones of 1…m; a trace of ridge keeps it solvable."""
    count = len(chosen)
    inner, pull = np.empty((count, count)), np.empty(count)
    for u in range(count):
        pull[u] = gram[0, chosen[u] + 1]
        for v in range(count):
            inner[u, v] = gram[chosen[u] + 1, chosen[v] + 1]
        inner[u, u] *= 1 + 1e-9
        inner[u, u] += 1e-30
    return np.linalg.solve(inner, pull)
