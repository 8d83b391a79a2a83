"""LEAST-SP: equal to the dense learner on a full support, and right on large sparse graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from least import Least, Options, ProblemError, Status, dense, graphs, sparse
from least.acyclicity import bound_gradient, exponential_acyclicity, is_acyclic
from least.peeling import peel
from least.scores import score
from least.screening import (
    correlation_neighbours,
    gram_neighbours,
    pursuit_support,
    random_support,
)
from least.sparse_kernels import bound_gradient as sparse_bound_gradient
from least.sparse_problem import gram_of_sparse
from least.synthetic import random_graph, random_weights, sample


def model(
    d: int, degree: int = 2, rows: int = 1000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = random_weights(random_graph("ER", d, degree, rng), rng)
    return weights, sample(weights, rows, rng)


def transposed(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray((rows - rows.mean(0)).T, np.float32)


@given(seed=st.integers(0, 10**6), k=st.integers(0, 6), density=st.sampled_from([0.2, 1.0]))
@settings(max_examples=40, deadline=None)
def test_the_bound_on_a_support_equals_the_dense_one(seed: int, k: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.2, 1.5, (8, 8)) * (rng.random((8, 8)) < density)
    np.fill_diagonal(w, 0)
    columns = sp.csc_array(w)
    columns.sort_indices()
    gradient = np.empty(columns.nnz)
    value = sparse_bound_gradient(
        columns.indptr.astype(np.int64), columns.indices, columns.data, k, 0.9, gradient
    )
    expected = bound_gradient(w * w, k, 0.9)
    oracle = (expected.left @ expected.right.T)[columns.tocoo().row, columns.tocoo().col]
    assert value == pytest.approx(expected.value, rel=1e-9)
    np.testing.assert_allclose(gradient, oracle, atol=1e-9 * max(np.abs(oracle).max(initial=1), 1))


@pytest.mark.parametrize("optimizer", ["adam", "proximal"])
def test_sparse_on_a_full_support_equals_dense(optimizer: str) -> None:
    _, rows = model(12)
    rows = (rows - rows.mean(0)) / rows.std(0)
    variables = transposed(rows)
    sources, targets = np.nonzero(~np.eye(12, dtype=bool))
    gram = (variables @ variables.T / variables.shape[1]).astype(float)
    start = np.where(np.eye(12, dtype=bool), 0, 0.05)
    options = Options(
        optimizer=optimizer, inner_steps=20 if optimizer == "adam" else 600, eta=0.05,
        tolerance=0.0, dtype="float64", l1=0.05,
    )  # fmt: skip
    ours, record = sparse.fit_support(variables, sources, targets, start[sources, targets], options)
    theirs = dense.fit_gram(gram, None, start, options)
    tolerance = 1e-5 if optimizer == "adam" else 0.05  # steps differ in length, not in their goal
    np.testing.assert_allclose(ours.toarray(), theirs.weights, atol=tolerance)
    assert record.delta == pytest.approx(theirs.delta, rel=0.05, abs=1e-3)
    assert record.history[0].loss == pytest.approx(theirs.history[0].loss, rel=1e-3)


def test_peeling_finds_the_model_of_500_nodes() -> None:
    true, rows = model(500)
    fitted = Least(backend="sparse").fit(rows)
    assert score(fitted.weights_.toarray(), true).f1 >= 0.99
    assert is_acyclic(fitted.weights_.toarray())
    assert fitted.fit_.start == "ordering"
    found = peel(transposed(rows))
    place = np.argsort(found.order)
    backwards = [place[i] > place[j] for i, j in np.argwhere(true)]
    assert np.mean(backwards) < 0.01
    assert found.noise_variance == pytest.approx(1, abs=0.1)


def test_least_alone_on_a_screened_support() -> None:
    true, rows = model(200)
    fit = sparse.fit(rows, start="random")
    assert score(fit.weights.toarray(), true).f1 >= 0.75
    assert graphs.is_acyclic(fit.weights)
    assert fit.history[0].delta > 10 * fit.delta
    blind = sparse.fit(
        rows, start="random", support="random", options=sparse.ANNEALED.but(density=1e-3)
    )
    assert score(blind.weights.toarray(), true).f1 < 0.1  # the paper's support holds no true edges


def test_screening_finds_most_true_edges_with_few_candidates() -> None:
    true, rows = model(300)
    variables = transposed(rows)
    edges = {frozenset(pair) for pair in np.argwhere(true)}

    def found(sources: np.ndarray, targets: np.ndarray) -> float:
        return np.mean(
            [edge in set(map(frozenset, zip(sources, targets, strict=True))) for edge in edges]
        )

    near = correlation_neighbours(variables, 10)
    by_correlation = found(np.repeat(np.arange(300), 10), near.ravel())
    sources, targets = pursuit_support(variables)
    assert found(sources, targets) > max(0.85, by_correlation)
    assert len(sources) < 300 * 10
    correlations = np.abs(np.corrcoef(rows, rowvar=False)) - np.eye(300)
    assert set(near[7]) == set(np.argsort(-correlations[7])[:10])


def test_a_random_support_has_its_density_and_no_loops() -> None:
    sources, targets = random_support(1000, 0.01, np.random.default_rng(0))
    assert len(sources) == pytest.approx(10_000, rel=0.02)
    assert (sources != targets).all()


def test_batches_and_thresholding_keep_w_sparse() -> None:
    true, rows = model(30, rows=3000)
    variables = transposed(rows / rows.std(0))
    sources, targets = np.nonzero(~np.eye(30, dtype=bool))
    options = Options(
        optimizer="adam", batch=500, eta=0.05, eta_growth=3.0, outer_steps=4, inner_steps=150,
        zero_below=1e-3, density=0.2, tolerance=0.0,
    )  # fmt: skip
    weights, record = sparse.fit_support(variables, sources, targets, None, options)
    again, _ = sparse.fit_support(variables, sources, targets, None, options)
    assert 0 < weights.nnz < record.support / 2
    assert np.abs(weights.data).min() > 1e-3
    assert (weights != again).nnz == 0
    assert record.history[-1].delta < record.history[0].delta
    assert score(weights.toarray(), true).tpr > 0.2


def test_cycles_are_cut_at_their_weakest_edges() -> None:
    w = np.zeros((6, 6))
    w[[0, 1, 2], [1, 2, 0]] = [0.9, 0.8, 0.1]
    w[3, 4] = 0.05
    cut = graphs.cut_cycles(sp.csr_array(w)).toarray()
    assert cut[2, 0] == 0
    assert (cut != 0).sum() == 3
    pruned, tau = graphs.prune(sp.csr_array(w), 0.0)
    assert tau == pytest.approx(0.1)
    assert (pruned.toarray() != 0).sum() == 2
    rank = graphs.topological_rank(sp.csr_array(cut))
    assert rank[0] < rank[1] < rank[2]


@given(seed=st.integers(0, 10**6), d=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_cutting_cycles_always_ends_acyclic_and_only_removes(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5)
    np.fill_diagonal(w, 0)
    cut = graphs.cut_cycles(sp.csr_array(w)).toarray()
    assert is_acyclic(cut)
    assert ((cut == w) | (cut == 0)).all()
    pruned, tau = graphs.prune(sp.csr_array(w), 0.0)
    assert is_acyclic(pruned.toarray())
    np.testing.assert_array_equal(pruned.toarray(), np.where(np.abs(w) > tau, w, 0))


def test_hard_input_gets_an_answer_or_a_name() -> None:
    assert sparse.fit(np.arange(8.0)[:, None]).weights.nnz == 0
    _, rows = model(20)
    rows[:, 4] = 3.0
    constant = sparse.fit(rows).weights.toarray()
    assert not constant[4].any()
    assert not constant[:, 4].any()
    doubled = sparse.fit(np.column_stack([rows, rows])).weights
    assert np.isfinite(doubled.data).all()
    assert graphs.is_acyclic(doubled)
    with pytest.raises(ProblemError, match="not finite"):
        sparse.fit(np.full((4, 3), np.inf))
    with pytest.raises(ProblemError, match="from a node to itself"):
        sparse.fit_support(transposed(rows), np.array([1]), np.array([1]))
    with pytest.raises(ProblemError, match="an edge twice"):
        sparse.fit_support(transposed(rows), np.array([1, 1]), np.array([2, 2]))
    with pytest.raises(ProblemError, match="no edge masks"):
        Least(backend="sparse", allowed=np.ones((20, 20), bool)).fit(rows)


def test_standardised_columns_are_no_silent_empty_graph() -> None:
    _, rows = model(30)
    standardised = (rows - rows.mean(0)) / rows.std(0)
    with pytest.raises(ProblemError, match="nothing to go by"):
        sparse.fit(standardised)
    with pytest.raises(ProblemError, match="nothing to go by"):
        Least(backend="sparse", standardise=True).fit(rows)
    alone = Least("random", backend="sparse", standardise=True, threshold=0.1).fit(rows)
    assert alone.weights_.nnz > 20
    independent = np.random.default_rng(0).normal(size=(100, 30))
    assert Least(backend="sparse").fit(independent).weights_.nnz == 0  # equal, but not by force


def test_a_step_that_leaves_the_reals_is_reported() -> None:
    _, rows = model(10)
    sources, targets = np.nonzero(~np.eye(10, dtype=bool))
    options = Options(optimizer="adam", learning_rate=1e200, density=1.0, tolerance=0.0)
    weights, record = sparse.fit_support(transposed(rows), sources, targets, None, options)
    assert record.status is Status.NONFINITE
    assert np.isfinite(weights.data).all()


def test_sparse_rows_a_gram_matrix_and_dense_rows_agree() -> None:
    rng = np.random.default_rng(3)
    rows = np.where(rng.random((400, 60)) < 0.2, rng.normal(size=(400, 60)), 0)
    rows[:, 7] += 0.9 * rows[:, 3]
    dense_gram = np.cov(rows, rowvar=False, bias=True)
    gram = gram_of_sparse(sp.csr_array(rows), block=17)
    np.testing.assert_allclose(gram.matrix, dense_gram, atol=1e-6)
    by_rows = sparse.fit(rows, start="random", support="correlation", threshold=0.1)
    by_sparse = Least("random", backend="sparse", threshold=0.1).fit(sp.csr_array(rows))
    by_gram = Least("random", backend="sparse", threshold=0.1).fit_gram(dense_gram, 400)
    assert by_rows.weights[3, 7] == pytest.approx(0.9, abs=0.1)
    for other in (by_sparse, by_gram):
        np.testing.assert_allclose(other.weights_.toarray(), by_rows.weights.toarray(), atol=1e-3)
    with pytest.raises(ProblemError, match="need start='random'"):
        Least(backend="sparse").fit(sp.csr_array(rows))
    with pytest.raises(ProblemError, match="backend='sparse'"):
        Least().fit(sp.csr_array(rows))
    with pytest.raises(ProblemError, match="batches need dense rows"):
        sparse.fit_support(
            gram, np.array([3]), np.array([7]), None, Options(optimizer="adam", batch=9)
        )
    rows[0, 0] = np.nan
    with pytest.raises(ProblemError, match="not finite"):
        Least("random", backend="sparse").fit(sp.csr_array(rows))


@given(seed=st.integers(0, 10**6), d=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_h_of_a_sparse_graph_equals_the_dense_one(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.4)
    expected = exponential_acyclicity(w)
    assert graphs.exponential_trace(sp.csr_array(w * w)) == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )


def test_h_of_a_large_component_is_a_lower_bound_that_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    w = 0.4 * rng.normal(size=(60, 60)) * (rng.random((60, 60)) < 0.1)
    whole = graphs.exponential_trace(sp.csr_array(w * w))
    monkeypatch.setattr(graphs, "DENSE_COMPONENT", 1)
    terms = graphs.exponential_trace(sp.csr_array(w * w))
    assert 0.95 * whole < terms <= whole


def test_least_sp_can_end_on_h() -> None:
    _, rows = model(40)
    options = sparse.ANNEALED.but(terminate_on="h", delta_tolerance=1e-3)
    fit = sparse.fit(rows, start="random", options=options)
    assert fit.status is Status.CONVERGED
    assert fit.history[-1].h is not None
    assert fit.history[-1].h <= 1e-3


def test_the_strongest_neighbours_are_the_strongest() -> None:
    rng = np.random.default_rng(1)
    gram = np.cov(rng.normal(size=(50, 30)), rowvar=False)
    scale = np.sqrt(np.diag(gram))
    correlations = np.abs(gram / np.outer(scale, scale)) - np.eye(30)
    near = gram_neighbours(gram.astype(np.float32), 6)
    for j in range(30):
        assert list(near[j]) == list(np.argsort(-correlations[j])[:6])
