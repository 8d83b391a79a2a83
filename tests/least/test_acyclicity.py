"""δ: the printed form, the factored form, finite differences and the spectral radius agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from least import acyclicity
from least.acyclicity import (
    MAX_LOG_RATIO,
    acyclic_threshold,
    bound_gradient,
    exponential_acyclicity,
    is_acyclic,
    printed_bound,
    spectral_bound,
)


@st.composite
def weight_matrices(draw: st.DrawFn) -> np.ndarray:
    d = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.1, 0.4, 1.0]))
    sizes = rng.uniform(0.2, 1.5, (d, d)) * rng.choice([-1, 1], (d, d))
    weights = np.where(rng.random((d, d)) < density, sizes, 0.0)
    np.fill_diagonal(weights, 0)
    return weights


settings_of_bound = {"k": st.integers(0, 6), "alpha": st.sampled_from([0.5, 0.9])}


def a_limit_bites(w: np.ndarray, k: int, alpha: float) -> bool:
    """Where u spans twelve decades, or c/r thirteen, the bound or its slope is another, on purpose
    (SCALE_FLOOR, MAX_LOG_RATIO)."""
    matrix, u = w * w, np.ones(len(w))
    for j in range(k + 1):
        r, c = matrix.sum(1), matrix.sum(0)
        live = (r > 0) & (c > 0)
        if np.abs(np.log(c[live] / r[live])).max(initial=0) > 0.99 * MAX_LOG_RATIO:
            return True
        b = r**alpha * c ** (1 - alpha)
        inverse = np.divide(1, b, out=np.zeros_like(b), where=b > 0)
        matrix = inverse[:, None] * matrix * b[None, :]
        u = u * b / max((u * b).max(), 1e-300)
        if j < k and ((u > 0) & (u < 1e-11)).any():
            return True
    return False


def test_a_steep_ratio_is_cut_in_the_slope_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = np.zeros((7, 7))
    w[[0, 1, 2, 2], [5, 3, 1, 3]] = 0.4264078, -1.00422083, -1.31649588, 1.43524389
    w[3, [0, 1, 2, 6]] = 0.77766412, 0.73463668, 0.44153793, -1.12916442
    w[[5, 5, 6], [1, 6, 1]] = -0.51449425, 0.42199933, -0.66317474
    value, gradient = printed_bound(w, 5, 0.5)
    assert a_limit_bites(w, 5, 0.5)
    assert spectral_bound(w, 5, 0.5) == pytest.approx(value, rel=1e-9)
    monkeypatch.setattr(acyclicity, "MAX_LOG_RATIO", np.inf)
    without = bound_gradient(w * w, 5, 0.5).by_weight(w)
    np.testing.assert_allclose(without, gradient, atol=1e-8 * np.abs(gradient).max())


@given(w=weight_matrices(), **settings_of_bound)
@settings(max_examples=150, deadline=None)
def test_the_factored_form_equals_the_printed_one(w: np.ndarray, k: int, alpha: float) -> None:
    assume(not a_limit_bites(w, k, alpha))
    value, gradient = printed_bound(w, k, alpha)
    factored = bound_gradient(w * w, k, alpha)
    assert factored.value == pytest.approx(value, rel=1e-9, abs=1e-12)
    scale = np.abs(gradient).max(initial=1e-3)
    np.testing.assert_allclose(factored.by_weight(w), gradient, atol=1e-8 * scale)


@given(w=weight_matrices(), **settings_of_bound)
@settings(max_examples=40, deadline=None)
def test_the_gradient_equals_finite_differences(w: np.ndarray, k: int, alpha: float) -> None:
    assume(not a_limit_bites(w, k, alpha))
    gradient = bound_gradient(w * w, k, alpha).by_weight(w)
    step = 1e-6
    for i, j in np.argwhere(w != 0)[:12]:
        up, down = w.copy(), w.copy()
        up[i, j] += step
        down[i, j] -= step
        slope = (spectral_bound(up, k, alpha) - spectral_bound(down, k, alpha)) / (2 * step)
        assert gradient[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@given(w=weight_matrices(), **settings_of_bound)
@settings(max_examples=150, deadline=None)
def test_no_cycle_hides_from_the_bound(w: np.ndarray, k: int, alpha: float) -> None:
    radius = np.abs(np.linalg.eigvals(w * w)).max()
    bound = bound_gradient(w * w, k, alpha)
    assert bound.tight >= radius * (1 - 1e-9) - 1e-9
    assert bound.value >= bound.tight
    if bound.value == 0:
        assert is_acyclic(w)


def test_a_long_chain_is_acyclic_although_delta_is_not_zero() -> None:
    chain = np.diag(np.ones(12), 1)
    assert spectral_bound(np.diag(np.ones(11), 1), rounds=5) == 0
    assert spectral_bound(chain, rounds=5) == pytest.approx(1)
    assert spectral_bound(chain, rounds=6) == 0
    assert is_acyclic(chain)
    assert exponential_acyclicity(chain) == pytest.approx(0, abs=1e-9)


def test_h_counts_cycles_and_delta_bounds_it() -> None:
    two_cycle = np.array([[0.0, 0.1], [0.1, 0.0]])
    assert exponential_acyclicity(two_cycle) == pytest.approx(2 * np.cosh(0.01) - 2)
    # The paper's lemma: δ ≤ ln(ε/d + 1) makes h ≤ ε.
    epsilon = 2 * np.expm1(spectral_bound(two_cycle))
    assert exponential_acyclicity(two_cycle) <= epsilon


@given(w=weight_matrices())
@settings(max_examples=100, deadline=None)
def test_the_threshold_is_the_smallest_that_leaves_no_cycle(w: np.ndarray) -> None:
    tau = acyclic_threshold(w)
    assert is_acyclic(np.abs(w) > tau)
    smaller = [level for level in np.unique(np.abs(w)) if level < tau]
    assert all(not is_acyclic(np.abs(w) > level) for level in smaller)
    assert acyclic_threshold(w, least=10.0) == 10.0
    assert is_acyclic(w) == (exponential_acyclicity(w) < 1e-9)
