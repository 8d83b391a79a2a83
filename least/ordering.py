"""A causal order from conditional variances, and the regression along it.

If all noise variances are equal, the node of least variance given the nodes already placed is one
whose parents are all placed. Placing nodes so is a Cholesky factorisation of the Gram matrix that
always pivots on the smallest remaining diagonal entry. It uses nothing but that assumption: on
standardised columns, or with unequal noise, it fails (Reisach et al. 2021).

Source: Chen, Drton and Wang 2019, "On causal discovery with an equal-variance assumption".
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts come when they are used

SMALLEST_VARIANCE = 1e-10
"""Remaining variance, relative to the column's own, that counts as zero (a duplicated column)."""


def conditional_variance_order(
    gram: np.ndarray, required: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The order, and the variance of each node given its predecessors.

    Args:
        gram: (d, d) covariance of centred columns.
        required: (d, d) bool, acyclic; i comes before j wherever required[i, j].

    Returns:
        order (d,), variances (d,) by node. O(d³).
    """
    gram = np.asarray(gram, float)
    d = len(gram)
    factor = np.zeros((d, d))
    variances, remaining = np.diag(gram).copy(), np.diag(gram).copy()
    floor = SMALLEST_VARIANCE * np.where(variances > 0, variances, 1)
    waiting = np.zeros(d, int) if required is None else np.asarray(required, int).sum(0)
    placed, order = np.zeros(d, bool), np.empty(d, np.intp)
    for t in range(d):
        best = int(np.argmin(np.where(placed | (waiting > 0), np.inf, remaining)))
        order[t], placed[best] = best, True
        variances[best] = max(remaining[best], 0.0)
        if required is not None:
            waiting -= np.asarray(required[best], int)
        if remaining[best] <= floor[best]:
            continue  # an exact combination of its predecessors explains nothing more
        column = gram[:, best] - factor[:, :t] @ factor[best, :t]
        factor[:, t] = np.where(placed, 0, column / np.sqrt(remaining[best]))
        factor[best, t] = np.sqrt(remaining[best])
        remaining = np.maximum(remaining - np.where(placed, 0, factor[:, t] ** 2), 0)
    return order, variances


def regress_along(
    gram: np.ndarray,
    order: np.ndarray,
    rows: float | None = None,
    *,
    allowed: np.ndarray | None = None,
    required: np.ndarray | None = None,
    significance: float = 3.5,
) -> np.ndarray:
    """Least squares of every node on its allowed predecessors, pruned if `rows` is known.

    Pruning is backward elimination: parents whose coefficient is below `significance` standard
    errors leave, worst first, and the rest is fitted again. Required parents always stay.

    Args:
        gram: (d, d) covariance.
        order: (d,), parents before children.
        rows: n behind `gram`; None keeps every predecessor.
        allowed, required: (d, d) bool.

    Returns:
        (d, d) weights; acyclic. Collinear predecessors share a weight (least norm).
    """
    gram = np.asarray(gram, float)
    d = len(gram)
    candidates = np.zeros((d, d), bool)
    candidates[np.ix_(order, order)] = np.triu(np.ones((d, d), bool), 1)
    if allowed is not None:
        candidates &= allowed
    kept = np.zeros((d, d), bool) if required is None else required & candidates
    if rows is not None and allowed is None:
        candidates &= _promising(gram, order, rows, significance) | kept
    weights = np.zeros((d, d))
    for node in range(d):
        parents = np.flatnonzero(candidates[:, node])
        if rows is None:
            weights[parents, node] = _least_squares(gram, parents, node)[0]
        else:
            _eliminate(gram, parents, node, rows, kept[:, node], significance, weights)
    return weights


def _promising(gram: np.ndarray, order: np.ndarray, rows: float, significance: float) -> np.ndarray:
    """Pairs that are at least half as significant as asked in the regression on all predecessors.

    With G = L Lᵀ along the order, row p of diag(L)·L⁻¹ holds node p's regression on its
    predecessors, and running sums of squares of L⁻¹ hold the diagonals of all leading inverses,
    hence every standard error, in O(d³) for all nodes together.
    """
    d = len(gram)
    ordered = gram[np.ix_(order, order)]
    promising = np.ones((d, d), bool)
    try:
        factor = scipy.linalg.cholesky(ordered, lower=True)
    except np.linalg.LinAlgError:
        return promising
    pivots = np.diag(factor)
    if rows <= 2 * d or (pivots**2 <= SMALLEST_VARIANCE * np.diag(ordered)).any():
        return promising  # too few rows for the full regression to say anything
    inverse = scipy.linalg.solve_triangular(factor, np.eye(d), lower=True)
    spread = np.cumsum(inverse**2, axis=0)
    before = np.vstack([np.ones((1, d)), spread[:-1]])  # row p: diag of the inverse of the first p
    errors = np.sqrt(np.maximum(before, 1e-300) / rows)
    promising[np.ix_(order, order)] = (np.abs(inverse) / errors >= significance / 2).T
    return promising


def _least_squares(
    gram: np.ndarray, parents: np.ndarray, node: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Coefficients and the inverse of the parents' Gram matrix (None if they are collinear)."""
    inner = gram[np.ix_(parents, parents)]
    try:
        factor = np.linalg.cholesky(inner)
        if (np.diag(factor) ** 2 > SMALLEST_VARIANCE * np.diag(inner)).all():
            inverse = np.linalg.inv(inner)
            return inverse @ gram[parents, node], inverse
    except np.linalg.LinAlgError:
        pass
    return scipy.linalg.lstsq(inner, gram[parents, node], cond=SMALLEST_VARIANCE)[0], None


def _eliminate(
    gram: np.ndarray,
    parents: np.ndarray,
    node: int,
    rows: float,
    kept: np.ndarray,
    significance: float,
    weights: np.ndarray,
) -> None:
    """Write node's pruned regression into `weights[:, node]`."""
    if len(parents) > rows / 2:  # more unknowns than the rows can carry: the strongest first
        strength = np.abs(gram[parents, node]) / np.sqrt(np.maximum(gram[parents, parents], 1e-300))
        strength[kept[parents]] = np.inf
        parents = parents[np.argsort(-strength, kind="stable")[: max(int(rows // 2), 1)]]
    while len(parents):
        coefficients, inverse = _least_squares(gram, parents, node)
        if inverse is None:
            spread = np.ones(len(parents)) / np.maximum(gram[parents, parents], 1e-300)
        else:
            spread = np.diag(inverse)
        left = max(float(gram[node, node] - gram[parents, node] @ coefficients), 0.0)
        freedom = max(rows - len(parents), 1)
        errors = np.sqrt(np.maximum(spread * left / freedom, 1e-300))
        t = np.where(kept[parents], np.inf, np.abs(coefficients) / errors)
        worst = float(t.min())
        if worst >= significance:
            weights[parents, node] = coefficients
            return
        # Several at once while they are far from significant; the last ones one by one.
        parents = parents[t > min(significance, max(1.5 * worst, 1.0))]
