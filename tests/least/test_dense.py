"""LEAST-TF: its gradient, masks, determinism, memory and statuses."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from least import dense
from least.acyclicity import bound_gradient as numpy_gradient
from least.acyclicity import exponential_acyclicity, spectral_bound
from least.problem import Options, ProblemError, Status
from least.synthetic import random_graph, random_weights, sample

tf = dense.tf


def correlation(d: int, seed: int = 0, rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """A true graph and the correlation matrix of a sample of it."""
    rng = np.random.default_rng(seed)
    edges = random_graph("ER", d, 1, rng)
    return edges, np.corrcoef(sample(random_weights(edges, rng), rows, rng), rowvar=False)


@given(seed=st.integers(0, 10**6), k=st.integers(0, 6), density=st.sampled_from([0.2, 1.0]))
@settings(max_examples=25, deadline=None)
def test_tensorflows_gradient_equals_ours_and_numpys(seed: int, k: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.2, 1.5, (7, 7)) * (rng.random((7, 7)) < density)
    squared = tf.constant(w * w)
    with tf.GradientTape() as tape:
        tape.watch(squared)
        value, steps = dense.bound(squared, k, tf.constant(0.9, tf.float64))
    automatic = tape.gradient(value, squared).numpy() * (w != 0)
    by_hand = dense.bound_gradient(squared, steps).numpy() * (w != 0)
    expected = numpy_gradient(w * w, k, 0.9)
    oracle = (expected.left @ expected.right.T) * (w != 0)
    scale = max(np.abs(oracle).max(), 1)
    assert value.numpy() == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(by_hand, oracle, atol=1e-9 * scale)
    np.testing.assert_allclose(automatic, oracle, atol=1e-9 * scale)


@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.5, 0.9]))
@settings(max_examples=10, deadline=None)
def test_the_whole_objectives_gradient_equals_finite_differences(seed: int, alpha: float) -> None:
    # ½·tr((I−W)ᵀG(I−W)) + ρ/2·δ² + η·δ: what Adam's step follows, less L1's proximal part.
    rng = np.random.default_rng(seed)
    d, rho, eta = 5, 0.7, 0.3
    x = rng.normal(size=(40, d))
    gram = x.T @ x / 40
    w = rng.uniform(0.3, 1.0, (d, d)) * rng.choice([-1, 1], (d, d))
    np.fill_diagonal(w, 0)

    def objective(w: np.ndarray) -> float:
        delta = spectral_bound(w, 3, alpha)
        rest = np.eye(d) - w
        return 0.5 * np.sum(rest * (gram @ rest)) + rho / 2 * delta**2 + eta * delta

    squared = tf.constant(w * w)
    delta, tape = dense.bound(squared, 3, tf.constant(alpha, tf.float64))
    by_hand = gram @ w - gram
    by_hand = by_hand + 2 * (rho * delta + eta) * dense.bound_gradient(squared, tape) * w
    for i, j in [(0, 1), (1, 0), (3, 2), (4, 0)]:
        up, down = w.copy(), w.copy()
        up[i, j] += 1e-6
        down[i, j] -= 1e-6
        slope = (objective(up) - objective(down)) / 2e-6
        assert by_hand.numpy()[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_both_optimisers_find_the_lasso_where_no_cycle_is_possible() -> None:
    _, gram = correlation(20)
    allowed = np.triu(np.ones((20, 20), bool), 1)  # the problem is convex then
    options = Options(
        inner_steps=3000, eta=0.0, tolerance=1e-7, dtype="float64", learning_rate=1e-3
    )
    exact = dense.fit_gram(gram, allowed, None, options)
    w = exact.weights
    pull = (gram - gram @ w)[allowed]  # stationary: the pull of the data is λ, at most λ at zero
    np.testing.assert_allclose(pull[w[allowed] != 0], 0.02 * np.sign(w[w != 0]), atol=1e-5)
    assert (np.abs(pull) <= 0.02 + 1e-5).all()
    adam = dense.fit_gram(gram, allowed, None, options.but(optimizer="adam"))
    assert adam.history[-1].loss == pytest.approx(exact.history[-1].loss, rel=2e-3)


def test_proximal_needs_a_tenth_of_adams_steps() -> None:
    _, gram = correlation(30, seed=1)
    proximal = dense.fit_gram(gram, options=Options(inner_steps=40, tolerance=0.0))
    adam = dense.fit_gram(gram, options=Options(inner_steps=400, optimizer="adam", tolerance=0.0))

    def objective(fit) -> float:
        return fit.history[-1].loss + Options().eta * fit.delta

    assert objective(proximal) < objective(adam) + 0.01


def test_no_weight_appears_where_none_is_allowed() -> None:
    _, gram = correlation(70)
    allowed = np.random.default_rng(3).random((70, 70)) < 0.3
    w = dense.fit_gram(gram, allowed, np.ones((70, 70))).weights
    assert (w[~allowed] == 0).all()
    assert (np.diag(w) == 0).all()
    assert (w[allowed] != 0).any()


def test_a_warm_start_ends_sooner() -> None:
    _, gram = correlation(40)
    options = Options(
        tolerance=1e-4, eta=0.0, inner_steps=1000
    )  # convex: one answer from every start
    cold = dense.fit_gram(gram, None, None, options)
    warm = dense.fit_gram(gram, None, cold.weights, options)
    assert cold.status is warm.status is Status.CONVERGED
    assert warm.steps <= cold.steps / 2
    assert warm.start == "given"


def test_a_growing_multiplier_ends_in_an_acyclic_graph() -> None:
    _, gram = correlation(20)
    options = Options(eta=0.1, eta_growth=3.0, outer_steps=12, inner_steps=100)
    fit = dense.fit_gram(gram, options=options)
    assert fit.status is Status.CONVERGED
    assert fit.delta <= options.delta_tolerance
    assert exponential_acyclicity(fit.weights) < 1e-3
    assert fit.delta == pytest.approx(spectral_bound(fit.weights.astype(float)), abs=1e-5)
    assert fit.steps == sum(step.steps for step in fit.history)
    assert fit.history[1].eta == pytest.approx(0.3)


def test_the_papers_loop_raises_rho_and_eta_and_can_end_on_h() -> None:
    _, gram = correlation(10)
    options = Options.paper().but(outer_steps=60, rho_growth=1.5, terminate_on="h")
    fit = dense.fit_gram(gram, options=options)
    first, second = fit.history[:2]
    assert second.eta == pytest.approx(first.eta + first.rho * first.delta)
    assert second.rho == pytest.approx(1.5 * first.rho)
    assert all(step.h is not None for step in fit.history)
    assert fit.status is Status.CONVERGED
    assert fit.history[-1].h <= options.delta_tolerance


def test_batches_come_near_the_whole() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 5))
    x[:, 3] += 0.8 * x[:, 1]
    x -= x.mean(0)
    gram = x.T @ x / len(x)
    allowed = np.triu(np.ones((5, 5), bool), 1)
    options = Options(optimizer="adam", batch=256, inner_steps=1500, tolerance=0.0, eta=0.0)
    fit = dense.fit_gram(gram, allowed, None, options, samples=x)
    assert fit.weights[1, 3] == pytest.approx(0.78, abs=0.06)
    again = dense.fit_gram(gram, allowed, None, options, samples=x)
    assert fit.weights.tobytes() == again.weights.tobytes()
    with pytest.raises(ProblemError, match="batches need rows"):
        dense.fit_gram(gram, allowed, None, options)


def test_a_step_that_leaves_the_reals_keeps_the_last_finite_graph() -> None:
    _, gram = correlation(10)
    options = Options(optimizer="adam", learning_rate=1e30, eta=0.0, tolerance=0.0)
    fit = dense.fit_gram(gram, options=options)
    assert fit.status is Status.NONFINITE
    assert np.isfinite(fit.weights).all()


@pytest.mark.parametrize(
    ("gram", "complaint"),
    [
        (np.full((3, 3), np.nan), "not finite"),
        (np.ones((3, 2)), "square"),
        (np.zeros((0, 0)), "not empty"),
        (np.eye(3) * 1e60, "exceeds float32"),
    ],
)
def test_bad_matrices_are_named(gram: np.ndarray, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        dense.fit_gram(gram)


def peak_memory() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_first_fits_of_all_sizes_cost_memory_the_next_hundreds_none() -> None:
    grams = [correlation(d)[1] for d in (20, 60, 90, 127)]
    for gram in grams * 3:
        dense.fit_gram(gram, options=Options.monitor())
    before = peak_memory()
    for _ in range(60):
        for gram in grams:
            dense.fit_gram(gram, options=Options.monitor())
    assert peak_memory() < before * 1.02


def resident_memory() -> int:
    """Bytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_a_thousand_fits_leave_memory_where_it_was() -> None:
    grams = [correlation(d)[1] for d in (30, 127)]
    for gram in grams * 20:
        dense.fit_gram(gram, options=Options.monitor())
    before = resident_memory()
    for _ in range(500):
        for gram in grams:
            dense.fit_gram(gram, options=Options.monitor())
    assert resident_memory() < before * 1.02


HASH = """
import hashlib, numpy as np
from least.dense import fit_gram
from least.problem import Options
digest = hashlib.sha256()
for d in (40, 130, 300):
    x = np.random.default_rng(d).normal(size=(500, d)).cumsum(1)
    w = None
    for _ in range(2):
        w = fit_gram(np.corrcoef(x, rowvar=False), None, w, Options(inner_steps=15)).weights
        digest.update(w.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_two_processes_agree_byte_for_byte() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", HASH], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.strip()) == 64
