"""The order search: what the likelihood can tell is found, what it cannot is not pretended."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from least import Least, ProblemError
from least.acyclicity import is_acyclic
from least.likelihood import Noise, OrderSearch
from least.ordering import conditional_variance_order
from least.scores import score
from least.synthetic import random_graph, random_weights, sample


def unequal(
    d: int, seed: int, noise: str = "gaussian", degree: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = random_weights(random_graph("ER", d, degree, rng), rng)
    rows = sample(true, 10 * d, rng, noise, rng.uniform(0.5, 2, d))  # type: ignore[arg-type]
    return true, rows - rows.mean(0)


def f1(model: Least, true: np.ndarray) -> float:
    return score(model.weights_, true).f1


def test_unequal_noise_is_no_obstacle() -> None:
    results = []
    for seed in range(3):
        true, rows = unequal(40, seed)
        found = Least("likelihood").fit(rows)
        assert is_acyclic(found.weights_)
        assert found.fit_.start == "likelihood"
        results.append((f1(Least().fit(rows), true), f1(found, true)))
    by_ordering, by_likelihood = np.mean(results, 0)
    assert by_likelihood >= 0.93
    assert by_likelihood > by_ordering + 0.03


def test_nongaussian_noise_tells_the_order_of_standardised_columns() -> None:
    true, rows = unequal(30, 1, "exponential")
    rows = rows / rows.std(0)
    model = Least("likelihood", noise="nongaussian", threshold=0.05).fit(rows)
    assert f1(model, true) >= 0.9
    assert f1(Least(threshold=0.05).fit(rows), true) < 0.5


@pytest.mark.parametrize("noise", ["any", "nongaussian"])
def test_units_of_columns_do_not_matter(noise: Noise) -> None:
    _, rows = unequal(15, 3, "gumbel")
    units = np.exp2(np.random.default_rng(0).integers(-3, 4, 15))  # exact in binary
    start, _ = conditional_variance_order(rows.T @ rows)  # of the first; it depends on units

    def found(x: np.ndarray) -> tuple[float, np.ndarray]:
        search = OrderSearch(x.T @ x / len(x), len(x), noise, x)
        return search.of(start).score, search.of(start).variances

    one, variances = found(rows)
    other, scaled = found(rows * units)
    assert one == pytest.approx(other, rel=1e-9)
    np.testing.assert_allclose(variances * units**2, scaled, rtol=1e-6)


def beside_the_best(seed: int, noise: Noise) -> float:
    """By how much the order found is worse than the best of all orders of four nodes."""
    _, rows = unequal(4, seed, "exponential", degree=1)
    rows = np.concatenate([rows] * 5) + np.random.default_rng(seed).normal(0, 0.1, (200, 4))
    search = OrderSearch(np.cov(rows, rowvar=False), 200, noise, rows)
    exhaustive = min(search.of(np.array(order)).score for order in permutations(range(4)))
    return search.best().score - exhaustive


@pytest.mark.parametrize("noise", ["any", "similar", "nongaussian"])
def test_the_search_ends_at_the_best_of_all_orders(noise: Noise) -> None:
    """But for one seed in two to three hundred: it is a search, and ends where no move helps."""
    # `similar` sweeps at a fixed scatter, so it may end a little beside the best.
    beside = np.array([beside_the_best(seed, noise) for seed in range(100)])
    assert (beside <= 1e-6).all() or noise == "similar"
    assert (beside > 1).sum() <= 1
    assert beside.max() < 4


def test_a_gaussian_pair_has_no_direction_but_a_collider_has() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000))
    pair = np.column_stack([a, 0.8 * a + b])
    gram = np.cov(pair, rowvar=False)
    search = OrderSearch(gram, 2000, "any")
    assert search.of(np.array([0, 1])).score == pytest.approx(search.of(np.array([1, 0])).score)
    collider = np.column_stack([a + b + 0.1 * rng.normal(size=2000), a, b])
    collider /= collider.std(0)
    model = Least("likelihood", noise="any", threshold=0.1).fit(collider)
    assert set(zip(*np.nonzero(model.weights_), strict=True)) == {(1, 0), (2, 0)}


def test_masks_hold() -> None:
    true, rows = unequal(15, 2)
    edges = np.argwhere(true != 0)
    required, allowed = np.zeros((15, 15), bool), np.ones((15, 15), bool)
    i, j = edges[0]
    required[j, i] = True  # against the truth
    k, m = edges[-1]
    allowed[k, m] = False
    for noise in ("similar", "any", "nongaussian"):
        model = Least("likelihood", noise=noise, required=required, allowed=allowed).fit(rows)
        assert model.weights_[j, i] != 0
        assert model.weights_[k, m] == 0
        assert is_acyclic(model.weights_)


@pytest.mark.parametrize("noise", ["similar", "any", "nongaussian"])
def test_hard_input_gets_an_acyclic_graph(noise: Noise) -> None:
    _, rows = unequal(12, 4)
    constant, doubled = rows.copy(), np.column_stack([rows, rows[:, :3]])
    constant[:, 5] = 3.0
    for x in (constant, doubled, rows[:8], rows[:, :1], rows[:, :2]):
        w = Least("likelihood", noise=noise).fit(x).weights_
        assert np.isfinite(w).all()
        assert is_acyclic(w)
    w = Least("likelihood", noise=noise).fit(constant).weights_
    assert not w[5].any()
    assert not w[:, 5].any()


def test_equal_input_gives_equal_bytes() -> None:
    _, rows = unequal(20, 5)
    first, second = (Least("likelihood", noise="any").fit(rows).weights_ for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_what_cannot_be_meant_is_named() -> None:
    _, rows = unequal(5, 0)
    with pytest.raises(ProblemError, match="needs start='likelihood'"):
        Least(noise="any").fit(rows)
    with pytest.raises(ProblemError, match="unknown noise 'pink'"):
        Least("likelihood", noise="pink").fit(rows)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="needs rows"):
        Least("likelihood", noise="nongaussian").fit_gram(np.eye(3), 100)
    with pytest.raises(ProblemError, match="starts from"):
        Least("likelihood", backend="sparse").fit(rows)
