"""Scores, p-values and scatter, against SciPy's and statsmodels' own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.rates import test_poisson_2indep as poisson_two_sample

from monitor.significance import (
    excess_p_value,
    excess_score,
    poisson_score,
    q_values,
    scatter,
    two_sample_p_value,
)

counts = st.integers(0, 400)
means = st.floats(0.05, 200)
scatters = st.floats(0.05, 2.0)


@given(counts, means, scatters)
def test_the_score_is_the_likelihood_ratio_of_two_negative_binomials(o, e, s) -> None:
    size = 1 / s**2
    score = float(excess_score(np.array(float(o)), np.array(e), np.array(size)))
    if o <= e:
        assert score == 0.0
        return
    as_seen, as_expected = (stats.nbinom.logpmf(o, size, size / (size + mean)) for mean in (o, e))
    assert score == pytest.approx(as_seen - as_expected, rel=1e-6, abs=1e-6)


@given(counts, means)
def test_without_scatter_it_is_that_of_two_poissons(o, e) -> None:
    expected = stats.poisson.logpmf(o, max(o, 1e-12)) - stats.poisson.logpmf(o, e)
    assert poisson_score(o, e) == pytest.approx(expected if o > e else 0.0, rel=1e-6, abs=1e-6)
    nearly = float(excess_score(np.array(float(o)), np.array(e), np.array(1e10)))
    assert nearly == pytest.approx(poisson_score(o, e), rel=1e-3, abs=1e-3)


@given(counts, means, scatters)
def test_scatter_makes_an_excess_less_surprising(o, e, s) -> None:
    score = float(excess_score(np.array(float(o)), np.array(e), np.array(1 / s**2)))
    assert 0.0 <= score <= poisson_score(o, e) + 1e-6


def test_a_cell_without_failures_is_no_excess_however_little_was_expected() -> None:
    assert excess_score(np.array([0.0, 3.0]), np.zeros(2), np.ones(2))[0] == 0.0
    assert poisson_score(0.0, 0.0) == 0.0
    assert np.isfinite(poisson_score(5.0, 0.0))


@given(counts, means, scatters)
def test_the_p_value_is_the_tail_of_the_negative_binomial(o, e, s) -> None:
    size = 1 / s**2
    p = float(excess_p_value(np.array(float(o)), np.array(e), np.array(size)))
    oracle = stats.nbinom.sf(o - 1, size, size / (size + e))
    assert p == pytest.approx(oracle, rel=1e-6, abs=1e-290)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(50, 5000), st.integers(50, 5000))
def test_the_two_sample_p_value_is_the_exact_conditional_one(now, before, rows_now, rows_before):
    p = float(two_sample_p_value(np.array([now]), np.array([before]), rows_now, rows_before)[0])
    share = rows_now / (rows_now + rows_before)
    assert p == pytest.approx(stats.binom.sf(now - 1, now + before, share), rel=1e-9, abs=1e-290)
    if now and before:
        oracle = poisson_two_sample(
            now, rows_now, before, rows_before, method="exact-cond", alternative="larger"
        )
        assert p == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)


def test_without_any_rows_nothing_is_surprising() -> None:
    np.testing.assert_array_equal(two_sample_p_value(np.array([3.0]), np.array([0.0]), 0, 0), [1.0])


@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=30))
def test_q_values_are_those_of_benjamini_and_hochberg(p_values) -> None:
    p = np.array(p_values)
    oracle = multipletests(p, method="fdr_bh")[1]
    np.testing.assert_allclose(q_values(p, len(p)), oracle, rtol=1e-12)


@given(st.lists(st.floats(1e-12, 0.01), min_size=1, max_size=10), st.integers(0, 1000))
def test_tests_that_found_nothing_count_too(p_values, quiet) -> None:
    p = np.array(p_values)
    oracle = multipletests(np.append(p, np.ones(quiet)), method="fdr_bh")[1][: len(p)]
    np.testing.assert_allclose(q_values(p, len(p) + quiet), oracle, rtol=1e-12)


def test_no_tests_no_q_values() -> None:
    assert len(q_values(np.empty(0), 10)) == 0


@pytest.mark.parametrize("s", [0.12, 0.36, 1.0])
def test_the_scatter_of_quiet_counts_is_recovered(s: float) -> None:
    rng = np.random.default_rng(5)
    expected = rng.uniform(5, 80, 4000)
    size = 1 / s**2
    observed = rng.negative_binomial(size, size / (size + expected)).astype(float)
    assert scatter(observed, expected, prior=0.4, prior_cells=1) == pytest.approx(s, rel=0.35)


def test_a_few_incidents_in_the_history_do_not_count_as_scatter() -> None:
    rng = np.random.default_rng(6)
    expected = rng.uniform(5, 80, 2000)
    observed = rng.poisson(expected).astype(float)
    observed[:20] *= 30
    assert scatter(observed, expected, prior=0.4, prior_cells=1) < 0.12


def test_little_history_means_the_usual_scatter() -> None:
    few = np.array([5.0, 6.0])
    assert scatter(few, few, prior=0.4, prior_cells=200) == 0.4
    assert scatter(np.zeros(0), np.zeros(0), prior=0.3, prior_cells=200) == 0.3
    calm = np.full(50, 40.0)  # 50 cells against a prior worth 200
    assert 0.2 < scatter(calm, calm, prior=0.4, prior_cells=200) < 0.4
