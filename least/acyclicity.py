"""δ(W), the paper's upper bound on the spectral radius of W∘W, with its gradient by hand.

Two forms. `printed_bound` follows the paper's lemmas line by line, in O(k·d²) memory, and serves
as the oracle in tests. `bound_gradient` keeps the similarity transform factored: S⁽ʲ⁾ equals
diag(u)⁻¹ S diag(u) with u the running product of the b's, so row and column sums are
matrix-vector products and the gradient is a sum of 2(k+1) outer products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts come when they are used

SCALE_FLOOR = 1e-12
"""Smallest entry of u relative to its largest. A similarity transform by any positive u leaves the
spectral radius alone, so the bound stays a bound where the floor bites."""

MAX_LOG_RATIO = 30.0
"""|ln(c/r)| is cut here in the derivatives of b, which would overflow otherwise."""


@dataclass(frozen=True, slots=True)
class BoundGradient:
    """δ and ∂δ/∂S in factored form: ∂δ/∂S = left · rightᵀ."""

    value: float
    """δ = Σ b: what the paper optimises."""
    tight: float
    """max b: the tight bound; also at least the spectral radius."""
    left: np.ndarray  # (d, 2(k+1))
    right: np.ndarray  # (d, 2(k+1))

    def by_weight(self, weights: np.ndarray) -> np.ndarray:
        """∂δ/∂W = 2 · ∂δ/∂S ∘ W, (d, d)."""
        gradient: np.ndarray = 2.0 * (self.left @ self.right.T) * weights
        return gradient


def bound_gradient(squared: np.ndarray, rounds: int, row_weight: float) -> BoundGradient:
    """δ of S = W∘W and its gradient by S, factored.

    A node whose row or column of S⁽ʲ⁾ is empty lies on no cycle: its b is 0 and it leaves all later
    rounds (the paper sets D⁻¹ to 0 there), so nothing is ever divided by zero.

    Args:
        squared: (d, d), non-negative; may be any object with `@` and `.T`.
        rounds: k ≥ 0.
        row_weight: α in [0, 1].

    Source: LEAST paper, Eq. uppdelta and lemmas 3-5, in O(k·s) time and O(k·d) memory.
    """
    d = squared.shape[0]
    dtype = squared.dtype
    u = np.ones(d, dtype)
    tape = []
    for j in range(rounds + 1):
        inverse = _reciprocal(u)
        su, sv = squared @ u, squared.T @ inverse
        r, c = inverse * su, u * sv
        live = (r > 0) & (c > 0)
        log_r, log_c = np.log(np.where(live, r, 1)), np.log(np.where(live, c, 1))
        b = np.where(live, np.exp(row_weight * log_r + (1 - row_weight) * log_c), 0)
        ratio = np.clip(log_c - log_r, -MAX_LOG_RATIO, MAX_LOG_RATIO)
        # ∂b/∂r and ∂b/∂c
        x = np.where(live, row_weight * np.exp((1 - row_weight) * ratio), 0)
        y = np.where(live, (1 - row_weight) * np.exp(-row_weight * ratio), 0)
        grown = u * b
        scale = grown.max(initial=0) or dtype.type(1)  # δ does not depend on the scale of u
        floored = (grown > 0) & (grown / scale < SCALE_FLOOR)
        tape.append((u, inverse, su, sv, b, x, y, scale, floored))
        if j < rounds:
            u = np.where(floored, SCALE_FLOOR, grown / scale).astype(dtype)

    left, right = [], []
    b_bar, u_bar = np.ones(d, dtype), np.zeros(d, dtype)
    for j in range(rounds, -1, -1):
        u, inverse, su, sv, _, x, y, _, _ = tape[j]
        r_bar, c_bar = b_bar * x, b_bar * y
        left += [inverse * r_bar, inverse]
        right += [u, u * c_bar]
        if j == 0:
            break
        inverse_bar = r_bar * su + squared @ (u * c_bar)
        u_bar = u_bar + squared.T @ (inverse * r_bar) + c_bar * sv - inverse_bar * inverse * inverse
        u_before, *_, b_before, _, _, scale, floored = tape[j - 1]
        u_bar = np.where(floored, 0, u_bar / scale)
        b_bar, u_bar = u_bar * u_before, u_bar * b_before
    last = tape[-1][4]
    return BoundGradient(
        float(last.sum()), float(last.max(initial=0)), np.stack(left, 1), np.stack(right, 1)
    )


def spectral_bound(weights: np.ndarray, rounds: int = 5, row_weight: float = 0.9) -> float:
    """δ(W); zero means that no cycle exists as far as the bound sees.

    δ is at least the spectral radius of W∘W, but it is not zero on every acyclic graph: it sees
    through paths of up to about 2k + 2 nodes. Use `is_acyclic` to decide.

    >>> spectral_bound(np.array([[0.0, 2.0], [0.0, 0.0]]), rounds=1, row_weight=0.5)
    0.0
    """
    return bound_gradient(weights * weights, rounds, row_weight).value


def printed_bound(weights: np.ndarray, rounds: int, row_weight: float) -> tuple[float, np.ndarray]:
    """δ(W) and ∂δ/∂W by the paper's procedures Forward and Backward, as printed.

    For tests: O(k·d²) memory. Lemma 5's masked recursion runs over j = 1…k (the paper's k−1 is a
    misprint).
    """
    matrices, rows, columns, bs = [weights * weights], [], [], []
    for j in range(rounds + 1):
        r, c = matrices[j].sum(1), matrices[j].sum(0)
        b = r**row_weight * c ** (1 - row_weight)
        rows.append(r)
        columns.append(c)
        bs.append(b)
        if j < rounds:
            matrices.append(_reciprocal(b)[:, None] * matrices[j] * b[None, :])
    support = (weights != 0).astype(weights.dtype)

    def partials(j: int) -> tuple[np.ndarray, np.ndarray]:
        live = (rows[j] > 0) & (columns[j] > 0)
        r, c = np.where(live, rows[j], 1), np.where(live, columns[j], 1)
        return (
            np.where(live, row_weight * (c / r) ** (1 - row_weight), 0),
            np.where(live, (1 - row_weight) * (r / c) ** row_weight, 0),
        )

    x, y = partials(rounds)
    gradient = (x[:, None] + y[None, :]) * support
    for j in range(rounds, 0, -1):
        x, y = partials(j - 1)
        b, inverse, before = bs[j - 1], _reciprocal(bs[j - 1]), matrices[j - 1]
        z = -(gradient * before * b[None, :]).sum(1) * inverse**2
        z += (inverse[:, None] * gradient * before).sum(0)
        gradient = (
            inverse[:, None] * gradient * b[None, :]
            + ((x * z)[:, None] + (y * z)[None, :]) * support
        )
    return float(bs[rounds].sum()), 2 * gradient * weights


def exponential_acyclicity(weights: np.ndarray) -> float:
    """h(W) = Tr e^(W∘W) − d; zero exactly on acyclic graphs. O(d³).

    Source: Zheng et al. 2018 (NOTEARS).

    >>> exponential_acyclicity(np.array([[0.0, 1.0], [0.0, 0.0]]))
    0.0
    """
    squared = np.asarray(weights, float) ** 2
    return max(0.0, float(np.trace(scipy.linalg.expm(squared))) - len(squared))


def is_acyclic(edges: np.ndarray) -> bool:
    """Exact: does the graph with an edge wherever `edges` is non-zero have no directed cycle?

    Args:
        edges: (d, d), numbers or bool.
    """
    present = np.asarray(edges) != 0
    incoming = present.sum(0)
    ready = np.flatnonzero(incoming == 0)
    removed = 0
    while len(ready):  # Kahn's algorithm, a whole layer at a time
        removed += len(ready)
        incoming = incoming - present[ready].sum(0)
        incoming[ready] = -1
        ready = np.flatnonzero(incoming == 0)
    return removed == len(present)


def acyclic_threshold(weights: np.ndarray, least: float = 0.0) -> float:
    """The smallest τ ≥ `least` for which the edges |W| > τ form no cycle.

    It is `least` itself or the size of one of the weights, found by bisection over them.

    >>> acyclic_threshold(np.array([[0.0, 0.9], [0.2, 0.0]]))
    0.2
    """
    sizes = np.abs(weights)
    if is_acyclic(sizes > least):
        return least
    levels = np.unique(sizes[sizes > least])
    low, high = -1, len(levels) - 1  # levels[high] is acyclic: no weight is larger than the largest
    while high - low > 1:
        middle = (low + high) // 2
        if is_acyclic(sizes > levels[middle]):
            high = middle
        else:
            low = middle
    return float(levels[high])


def _reciprocal(vector: np.ndarray) -> np.ndarray:
    """1/x, and 0 where x is 0."""
    result: np.ndarray = np.divide(1, vector, out=np.zeros_like(vector), where=vector > 0)
    return result
