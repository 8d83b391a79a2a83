"""Counts observed and expected → scores, p-values, q-values; and how much counts scatter.

Failures come in bursts: their variance exceeds Poisson's. A negative binomial with mean E and
size κ = 1/s² has variance E + s²E², where s is the relative scatter of the expected rate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaln

CUT_CELLS = 200
"""Cells for which it is worked out how much of their counts is cut off."""
SCATTER_GRID = np.array([0.05, 0.08, 0.12, 0.18, 0.25, 0.36, 0.5, 0.7, 1.0, 1.4, 2.0])


def excess_score(observed: np.ndarray, expected: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Λ(O, E, κ): log-likelihood ratio of "more than expected", in nats; 0 without an excess.

    O·ln(O/E) − (O+κ)·ln((O+κ)/(E+κ)): the negative binomial of mean O against mean E.

    >>> excess_score(np.array([10.0]), np.array([10.0]), np.array([4.0]))
    array([0.])
    """
    expected = np.maximum(expected, 1e-4)
    ratio = observed * np.log(np.maximum(observed, 1e-9) / expected)
    score = ratio - (observed + size) * np.log((observed + size) / (expected + size))
    return np.where(observed > expected, score, 0.0)


def poisson_score(observed: float, expected: float) -> float:
    """`excess_score` without over-dispersion: it is shared by cells within one window."""
    expected = max(expected, 1e-6)
    if observed <= expected:
        return 0.0
    return float(observed * np.log(observed / expected) - (observed - expected))


def excess_p_value(observed: np.ndarray, expected: np.ndarray, size: np.ndarray) -> np.ndarray:
    """P(X ≥ observed) for a negative binomial X of mean `expected` and size κ."""
    expected = np.maximum(expected, 1e-9)
    tail = betainc(np.maximum(observed, 1e-9), size, expected / (expected + size))
    return np.where(observed > 0, tail, 1.0)


def spread_p_values(
    observed: np.ndarray, expected: np.ndarray, size: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """p-values of `excess_p_value` that are uniform under the model, whatever the mean.

    Counts are whole numbers, so P(X ≥ O) alone cannot be uniform; it is spread at random between
    P(X ≥ O) and P(X > O).
    """
    above = excess_p_value(observed + 1, expected, size)
    reached = excess_p_value(observed, expected, size)
    return np.asarray(above + rng.random(len(observed)) * (reached - above))


def two_sample_p_value(
    now: np.ndarray, before: np.ndarray, rows_now: float, rows_before: float
) -> np.ndarray:
    """P(as many occurrences in T or more, given those in T and T′ together).

    Occurrences of a path in T against T′ under equal rates per row: conditional on their
    sum, those in T are binomial. The paper names no test; this is the exact one.
    """
    if rows_now + rows_before <= 0:
        return np.ones(len(now))
    share = rows_now / (rows_now + rows_before)
    tail = betainc(np.maximum(now, 1e-9), before + 1, share)
    return np.where(now > 0, tail, 1.0)


def q_values(p_values: np.ndarray, tests: int) -> np.ndarray:
    """Benjamini-Hochberg q-values of the smallest of `tests` p-values.

    Only promising candidates are listed; the others count as tests with p = 1.

    >>> q_values(np.array([0.001, 0.01]), 10)
    array([0.01, 0.05])
    """
    if not len(p_values):
        return p_values
    order = np.argsort(p_values, kind="stable")
    ranked = p_values[order] * max(tests, len(p_values)) / np.arange(1, len(p_values) + 1)
    ranked = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    out = np.empty_like(ranked)
    out[order] = ranked
    return out


def scatter(
    observed: np.ndarray,
    expected: np.ndarray,
    prior: float,
    prior_cells: float,
    *,
    truncated: bool = False,
) -> float:
    """Relative scatter s of counts around their expectation, by trimmed maximum likelihood.

    The largest 2 % of Pearson residuals are left out: they may be incidents.

    Args:
        observed, expected: counts of cells in quiet history.
        prior: s before there is any history.
        prior_cells: how many cells the prior is worth.
        truncated: whether the likelihood knows of the trimming. Otherwise s comes out too small,
            the more so the smaller the counts.
    """
    enough = expected > 0.3
    observed, expected = observed[enough], expected[enough]
    if len(observed) < 8:
        return prior
    residual = (observed - expected) / np.sqrt(expected)
    cut = np.quantile(residual, 0.98)
    kept = residual <= cut
    o, e = observed[kept], expected[kept]
    size = 1 / SCATTER_GRID[:, None] ** 2
    likelihood = (
        gammaln(o + size)
        - gammaln(size)
        + size * np.log(size / (size + e))
        + o * np.log(e / (size + e))
    ).sum(axis=1)
    if truncated:
        some = np.sort(e)[:: max(len(e) // CUT_CELLS, 1)]
        above = betainc(np.floor(some + cut * np.sqrt(some)) + 1, size, some / (some + size))
        likelihood -= np.log1p(-np.minimum(above, 1 - 1e-9)).mean(axis=1) * len(e)
    best = SCATTER_GRID[int(np.argmax(likelihood))]
    weight = len(o) / (len(o) + prior_cells)
    return float(np.exp(weight * np.log(best) + (1 - weight) * np.log(prior)))
