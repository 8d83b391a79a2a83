"""`Least`: known models are recovered, and hard input gets an answer or a clear complaint."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from least import Least, Options, ProblemError, Status
from least.acyclicity import is_acyclic
from least.ordering import conditional_variance_order, regress_along
from least.scores import score
from least.synthetic import random_graph, random_weights, sample, topological_order


def benchmark_case(
    kind: str, d: int, degree: int, noise: str, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = random_weights(random_graph(kind, d, degree, rng), rng)
    return weights, sample(weights, 10 * d, rng, noise)


@pytest.mark.parametrize("noise", ["gaussian", "exponential", "gumbel"])
@pytest.mark.parametrize(("kind", "degree"), [("ER", 2), ("SF", 4)])
def test_the_papers_benchmark_is_solved(kind: str, degree: int, noise: str) -> None:
    true, rows = benchmark_case(kind, 50, degree, noise)
    model = Least().fit(rows)
    assert score(model.weights_, true).f1 >= 0.98
    assert is_acyclic(model.weights_)
    assert model.fit_.start == "ordering"
    found = (model.weights_ != 0) & (true != 0)
    assert np.abs(model.weights_ - true)[found].mean() < 0.05


def test_least_alone_recovers_a_small_model() -> None:
    true, rows = benchmark_case("ER", 10, 1, "gaussian", seed=3)
    options = Options(l1=0.03, eta=0.01, eta_growth=2.6, rounds=10, inner_steps=300, outer_steps=7)
    model = Least("random", options=options).fit(rows)
    assert score(model.weights_, true).f1 >= 0.9
    assert model.fit_.start == "random"
    assert model.fit_.changed > 0


def test_a_gram_matrix_says_as_much_as_its_rows() -> None:
    _, rows = benchmark_case("ER", 20, 2, "gaussian")
    centred = rows - rows.mean(0)
    by_rows = Least().fit(rows).weights_
    by_gram = Least().fit_gram(centred.T @ centred / len(rows), len(rows)).weights_
    assert by_rows.tobytes() == by_gram.tobytes()


def test_the_order_puts_causes_first_and_obeys_required_edges() -> None:
    rng = np.random.default_rng(0)
    weights = np.diag([1.5, -1.0, 0.8], 1)
    rows = sample(weights, 5000, rng)
    gram = np.cov(rows, rowvar=False)
    order, variances = conditional_variance_order(gram)
    assert list(order) == [0, 1, 2, 3]
    assert variances == pytest.approx(np.ones(4), abs=0.1)
    np.testing.assert_allclose(regress_along(gram, order), weights, atol=0.1)
    assert (regress_along(gram, order, 5000) != 0).sum() == 3
    backwards = np.zeros((4, 4), bool)
    backwards[3, 0] = True
    order, _ = conditional_variance_order(gram, backwards)
    assert list(order).index(3) < list(order).index(0)


def test_required_and_forbidden_edges_hold() -> None:
    true, rows = benchmark_case("ER", 12, 2, "gaussian", seed=5)
    i, j = np.argwhere(true != 0)[0]
    k, m = next((a, b) for a, b in np.argwhere(true.T != 0) if (a, b) != (j, i))
    allowed, required = np.ones((12, 12), bool), np.zeros((12, 12), bool)
    allowed[i, j] = False
    required[k, m] = True
    model = Least(allowed=allowed, required=required).fit(rows)
    assert model.weights_[i, j] == 0
    assert model.weights_[k, m] != 0
    assert model.weights_[m, k] == 0
    assert is_acyclic(model.weights_)


def test_required_edges_that_form_a_cycle_are_named() -> None:
    required = np.zeros((4, 4), bool)
    required[[0, 1, 2], [1, 2, 0]] = True
    with pytest.raises(ProblemError, match="form a cycle: 0 → 1 → 2 → 0"):
        Least(required=required).fit(np.random.default_rng(0).normal(size=(50, 4)))


def test_a_required_edge_that_is_forbidden_is_named() -> None:
    required = np.zeros((3, 3), bool)
    required[0, 2] = True
    with pytest.raises(ProblemError, match="0 → 2 is not allowed"):
        Least(allowed=~required, required=required).fit(np.eye(3))


def test_constant_columns_keep_no_edges() -> None:
    _, rows = benchmark_case("ER", 8, 2, "gaussian")
    rows[:, 3] = 7.5
    for standardise in (False, True):
        w = Least(standardise=standardise).fit(rows).weights_
        assert not w[3].any()
        assert not w[:, 3].any()
        assert np.isfinite(w).all()


def test_duplicated_columns_get_one_answer_without_a_crash() -> None:
    _, rows = benchmark_case("ER", 8, 2, "gaussian")
    doubled = np.column_stack([rows, rows[:, 0], rows[:, 0]])
    w = Least().fit(doubled).weights_
    assert np.isfinite(w).all()
    assert is_acyclic(w)


def test_fewer_rows_than_columns_still_give_an_acyclic_graph() -> None:
    _, rows = benchmark_case("ER", 60, 2, "gaussian")
    model = Least().fit(rows[:25])
    assert np.isfinite(model.weights_).all()
    assert is_acyclic(model.weights_)
    assert (model.weights_ != 0).sum(0).max() <= 12  # no node has more parents than n / 2


def test_a_single_column_is_a_graph_without_edges() -> None:
    model = Least().fit(np.arange(10.0)[:, None])
    assert model.weights_.shape == (1, 1)
    assert model.fit_.status is Status.CONVERGED
    assert model.fit_.delta == 0


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (np.array([[1.0, np.nan], [1, 2]]), r"X\[0, 1\] is NaN"),
        (np.array([[1.0, 2], [np.inf, 2]]), r"X\[1, 0\] is inf"),
        (np.ones(5), "two-dimensional"),
        (np.ones((1, 3)), "1 rows"),
        (np.array([["a"], ["b"]]), "must hold numbers"),
    ],
)
def test_bad_rows_are_named(rows: np.ndarray, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        Least().fit(rows)


def test_bad_gram_matrices_are_named() -> None:
    with pytest.raises(ProblemError, match="symmetric"):
        Least().fit_gram(np.array([[1.0, 0.5], [0.1, 1.0]]), 100)
    with pytest.raises(ProblemError, match="rows must be"):
        Least().fit_gram(np.eye(2), 0)


def test_counts_of_small_integer_types_do_not_overflow() -> None:
    rng = np.random.default_rng(0)
    cause = rng.integers(0, 100, 3000)
    effect = np.clip(cause + rng.integers(-5, 6, 3000), 0, 120)
    rows = np.column_stack([cause, effect])
    small = Least().fit(rows.astype(np.int8)).weights_
    large = Least().fit(rows.astype(float)).weights_
    assert small.tobytes() == large.tobytes()


def test_int64_counts_near_their_limit_are_no_overflow() -> None:
    rng = np.random.default_rng(0)
    cause = rng.integers(0, 2**40, 500)
    rows = np.column_stack([cause, cause // 2 + rng.integers(0, 2**40, 500)])
    assert np.abs(rows.T @ rows).max() < 2**63  # numpy wrapped around in silence
    model = Least(standardise=True, threshold=0.1).fit(rows)
    expected = np.corrcoef(rows.astype(float), rowvar=False)[0, 1]
    assert model.weights_.max() == pytest.approx(expected, abs=0.05)
    with pytest.raises(ProblemError, match="exceeds float32"):
        Least().fit(rows.astype(float) * 1e15)


def test_an_ill_summed_gram_matrix_is_still_answered() -> None:
    # Sums in float32 stop growing at 1.6e7 rows of ones: the diagonal falls short of the rest.
    gram = np.array([[0.5, 0.8, 0.1], [0.8, 0.6, 0.2], [0.1, 0.2, 1.0]], np.float32)
    assert np.linalg.eigvalsh(gram)[0] < 0
    for start in ("ordering", "likelihood", "random"):
        model = Least(start).fit_gram(gram, 1e9)
        assert np.isfinite(model.weights_).all()
        assert is_acyclic(model.weights_)


@pytest.mark.parametrize("start", ["ordering", "likelihood", "random"])
@pytest.mark.parametrize("rows", [2, 3])
def test_next_to_no_rows_give_an_acyclic_graph(start: str, rows: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 6))
    w = Least(start).fit(x).weights_
    assert np.isfinite(w).all()
    assert is_acyclic(w)


def test_a_billion_rows_by_their_gram_matrix() -> None:
    gram = np.array([[1.0, 0.8], [0.8, 1.64]])
    model = Least().fit_gram(gram.astype(np.float32), 1e9)
    assert model.weights_[0, 1] == pytest.approx(0.8, abs=1e-3)


def test_scikit_learn_manners() -> None:
    model = Least(threshold=0.2)
    assert model.get_params()["threshold"] == 0.2
    clone = Least(**model.get_params())
    assert clone.set_params(refit=False).get_params()["refit"] is False
    with pytest.raises(ValueError, match="no parameter 'treshold'"):
        model.set_params(treshold=1)
    with pytest.raises(ProblemError, match="unknown start"):
        Least("cold").fit(np.eye(4))  # type: ignore[arg-type]


def test_a_warm_start_goes_on_from_the_last_fit() -> None:
    _, rows = benchmark_case("ER", 15, 1, "gaussian")
    model = Least("warm", options=Options(tolerance=1e-4))
    first = model.fit(rows).fit_
    second = model.fit(rows).fit_
    assert second.steps < first.steps
    with pytest.raises(ProblemError, match="the last fit had 15 columns"):
        model.fit(rows[:, :5])


def test_importing_the_library_waits_for_nothing_but_numpy() -> None:
    program = """
import sys, time
import numpy
begun = time.process_time()
import least
from least import Least, Options
print(time.process_time() - begun)
heavy = {"tensorflow", "scipy.linalg", "scipy.sparse", "numba", "pandas", "pyarrow", "sklearn"}
print(sorted(heavy & sys.modules.keys()))
import least.cli
print("tensorflow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, heavy, started = done.stdout.splitlines()
    assert (heavy, started) == ("[]", "False")
    assert float(seconds) < 0.3


@pytest.mark.parametrize(("kind", "edges"), [("ER", 40), ("SF", 37)])
def test_random_graphs_are_acyclic_and_sized(kind: str, edges: int) -> None:
    graph = random_graph(kind, 20, 2, np.random.default_rng(1))
    assert graph.sum() == edges
    order = list(topological_order(graph))
    assert all(order.index(i) < order.index(j) for i, j in np.argwhere(graph))


def test_options_complain_about_what_they_cannot_mean() -> None:
    for bad in ({"l1": -1.0}, {"inner_steps": 0}, {"row_weight": 1.5}, {"optimizer": "sgd"}):
        with pytest.raises(ProblemError, match=next(iter(bad))):
            Options(**bad)  # type: ignore[arg-type]
