"""Scores against definitions worked out by hand, and against brute force."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from least.scores import auc, score


def graph(d: int, *edges: tuple[int, int]) -> np.ndarray:
    result = np.zeros((d, d), bool)
    for i, j in edges:
        result[i, j] = True
    return result


def test_one_edge_right_one_reversed_one_extra_one_missing() -> None:
    true = graph(4, (0, 1), (1, 2), (2, 3))
    result = score(graph(4, (0, 1), (2, 1), (0, 3)), true)
    assert (result.right, result.reversed, result.extra, result.missing) == (1, 1, 1, 1)
    assert result.shd == 3
    assert result.f1 == pytest.approx(2 * 1 / (3 + 3))
    assert result.skeleton_f1 == pytest.approx(2 * 2 / (3 + 3))
    assert result.fdr == pytest.approx(2 / 3)
    assert result.tpr == pytest.approx(1 / 3)
    assert result.fpr == pytest.approx(2 / 3)  # six pairs, three of them neighbours


def test_scores_equal_those_of_gcastle_and_scikit_learn() -> None:
    # Their answers, as recorded by benchmarks/_outside_scores.py; gcastle rounds to four digits
    # and counts an empty F1 as NaN or 0.
    recorded = Path(__file__).parent / "recorded" / "outside_scores.json"
    cases = json.loads(recorded.read_text())["cases"]
    assert len(cases) >= 50
    for case in cases:
        true = graph(case["d"], *map(tuple, case["true"]))
        learned = graph(case["d"], *map(tuple, case["learned"]))
        ours, theirs = score(learned, true), case["gcastle"]
        assert ours.shd == theirs["shd"]
        assert ours.fdr == pytest.approx(theirs["fdr"], abs=6e-5)
        assert ours.tpr == pytest.approx(theirs["tpr"], abs=6e-5)
        if ours.right:
            assert ours.f1 == pytest.approx(theirs["F1"], abs=2e-4)
        if ours.true < case["d"] * (case["d"] - 1) // 2:  # a full graph has no strangers
            assert ours.fpr == pytest.approx(theirs["fpr"], abs=6e-5)
        assert auc(np.array(case["weights"]), true) == pytest.approx(case["auc"], abs=1e-12)


def test_nothing_learned_and_nothing_to_learn() -> None:
    empty = graph(3)
    assert score(empty, empty).f1 == 1.0
    assert score(empty, graph(3, (0, 1))).f1 == 0.0
    assert score(empty, graph(3, (0, 1))).shd == 1
    assert math.isnan(auc(np.zeros((3, 3)), empty))


@given(seed=st.integers(0, 10**6), d=st.integers(2, 7))
def test_shd_counts_pairs_that_differ(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    true = np.triu(rng.random((d, d)) < 0.4, 1)
    label = rng.permutation(d)
    learned = np.triu(rng.random((d, d)) < 0.4, 1)[np.ix_(label, label)]
    pairs = [(i, j) for i in range(d) for j in range(i)]
    differ = sum((learned[i, j], learned[j, i]) != (true[i, j], true[j, i]) for i, j in pairs)
    assert score(learned, true).shd == differ


@given(seed=st.integers(0, 10**6))
def test_auc_is_the_chance_that_an_edge_outranks_a_non_edge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = np.triu(rng.random((5, 5)) < 0.5, 1)
    weights = rng.integers(0, 3, (5, 5)).astype(float)
    off = ~np.eye(5, dtype=bool)
    edges, others = weights[off & true], weights[off & ~true]
    if not len(edges):
        return
    wins = [(e > o) + 0.5 * (e == o) for e in edges for o in others]
    assert auc(weights, true) == pytest.approx(np.mean(wins))
