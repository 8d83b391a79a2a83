"""Paths into the outcomes against brute force; cycles cut, back edges forbidden."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from monitor.domain import Attribute, Schema
from monitor.encoding import Encoding
from monitor.learning import Learned, allowed_edges, cut_cycles
from monitor.paths import paths_into, strongest_path

OUTCOMES = 2


def encoding(attribute: list[int], gram: np.ndarray | None = None) -> Encoding:
    of = np.array([-1] * OUTCOMES + attribute)
    d = len(of)
    together = np.ones((d, d)) if gram is None else gram
    number = np.array(
        [*range(OUTCOMES), *(attribute[:i].count(a) for i, a in enumerate(attribute))]
    )
    return Encoding(of, number, together, 10, 0)


@st.composite
def worlds(draw) -> tuple[np.ndarray, Encoding]:
    """A random graph without cycles, into outcomes 0 and 1, and rows in which nodes meet."""
    attribute = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=7)))
    d = OUTCOMES + len(attribute)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5)
    weights[:OUTCOMES] = 0
    order = np.arange(d)  # edges from earlier to later nodes, or into an outcome
    weights[(order[:, None] >= order[None, :]) & (order[None, :] >= OUTCOMES)] = 0
    gram = np.ones((d, d)) * (rng.random((d, d)) < 0.8)
    gram = np.maximum(gram, gram.T)
    return weights, encoding(attribute, gram)


def brute_force(outcome: int, weights: np.ndarray, world: Encoding) -> set[tuple[int, ...]]:
    """Every upward walk that cannot be made longer."""

    def longer(path: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [
            (node, *path)
            for node in range(len(weights))
            if weights[node, path[0]] != 0
            and world.attribute[node] not in [world.attribute[p] for p in path]
            and all(world.gram[node, p] > 0 for p in path)
        ]

    def ends(path: tuple[int, ...]) -> set[tuple[int, ...]]:
        onward = longer(path)
        return set().union(*map(ends, onward)) if onward else {path}

    return ends((outcome,)) - {(outcome,)}


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_every_path_is_found_once(world) -> None:
    weights, nodes = world
    for outcome in range(OUTCOMES):
        found = paths_into(outcome, weights, nodes, max_paths=10_000, max_length=20)
        assert not found.truncated
        assert len(set(found.paths)) == len(found.paths)
        assert set(found.paths) == brute_force(outcome, weights, nodes)


@settings(max_examples=100, deadline=None)
@given(worlds(), st.integers(1, 5), st.integers(2, 4))
def test_a_bound_that_bites_says_so(world, max_paths, max_length) -> None:
    weights, nodes = world
    whole = brute_force(0, weights, nodes)
    found = paths_into(0, weights, nodes, max_paths, max_length)
    assert len(found.paths) <= max_paths
    assert all(len(path) <= max_length for path in found.paths)
    cut = {path[-max_length:] for path in whole}
    assert set(found.paths) <= cut
    if not found.truncated:
        assert set(found.paths) == whole
    elif len(whole) <= max_paths:
        assert any(len(path) > max_length for path in whole)


def test_the_strongest_path_comes_first() -> None:
    weights = np.zeros((5, 5))
    weights[2, 0], weights[3, 0], weights[4, 0] = 0.2, -0.9, 0.5
    found = paths_into(0, weights, encoding([0, 1, 2]), 2, 6)
    assert found.paths == ((3, 0), (4, 0))
    assert found.truncated


def test_two_values_of_one_attribute_share_no_path() -> None:
    weights = np.zeros((4, 4))
    weights[2, 3] = weights[3, 0] = 1.0
    assert paths_into(0, weights, encoding([0, 0]), 9, 9).paths == ((3, 0),)


def test_an_outcome_without_causes_has_no_paths() -> None:
    assert paths_into(0, np.zeros((3, 3)), encoding([0]), 9, 9).paths == ()


def widest(root: int, outcome: int, weights: np.ndarray) -> float:
    """The largest weakest link of any walk from root to outcome, by Warshall."""
    reach = np.where(weights > 0, weights, 0.0)
    for k in range(len(weights)):
        reach = np.maximum(reach, np.minimum(reach[:, k : k + 1], reach[k : k + 1]))
    return float(reach[root, outcome])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.booleans())
def test_the_strongest_path_has_the_strongest_weakest_link(seed, d, cyclic) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.6)
    np.fill_diagonal(weights, 0)
    weights[0] = 0
    if not cyclic:
        weights[1:, 1:] = np.triu(weights[1:, 1:], 1)
    for root in range(1, d):
        path = strongest_path((root,), 0, weights, max_length=d)
        best = widest(root, 0, weights)
        if best == 0:
            assert path == ()
            continue
        assert path[0] == root
        assert path[-1] == 0
        assert len(set(path)) == len(path)
        assert min(weights[a, b] for a, b in pairwise(path)) == best


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_the_strongest_path_keeps_to_its_length(seed, max_length) -> None:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((8, 8)), 1)[::-1, ::-1]  # every node has an edge to all lower ones
    for root in range(1, 8):
        path = strongest_path((root,), 0, weights, max_length)
        assert 2 <= len(path) <= max_length


def test_a_path_that_lowers_failures_explains_none() -> None:
    weights = np.zeros((3, 3))
    weights[2, 0] = -0.8
    assert strongest_path((2,), 0, weights, 6) == ()
    assert strongest_path((), 0, weights, 6) == ()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_what_is_left_has_no_cycle_and_only_edges_on_cycles_went(seed, d) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.3)
    np.fill_diagonal(weights, 0)
    before = weights.copy()
    cut = cut_cycles(weights)
    np.testing.assert_array_equal(weights, before)
    count, _ = connected_components(cut != 0, directed=True, connection="strong")
    assert count == d
    np.testing.assert_array_equal(cut[cut != 0], before[cut != 0])
    _, component = connected_components(before != 0, directed=True, connection="strong")
    for i, j in zip(*np.nonzero(before - cut), strict=True):
        assert component[i] == component[j]


def test_the_weakest_edge_of_a_cycle_goes() -> None:
    weights = np.zeros((4, 4))
    weights[0, 1], weights[1, 2], weights[2, 0], weights[2, 3] = 0.9, -0.1, 0.5, 0.05
    cut = cut_cycles(weights)
    assert [(int(i), int(j)) for i, j in zip(*np.nonzero(cut), strict=True)] == [
        (0, 1),
        (2, 0),
        (2, 3),
    ]


SCHEMA = Schema((Attribute("city", 0), Attribute("office", 0), Attribute("airline", 1)), ("a", "b"))


def test_edges_run_within_a_tier_or_to_a_later_one() -> None:
    nodes = encoding([0, 0, 1, 2])
    allowed = allowed_edges(nodes, SCHEMA, tiers=True)
    out, city, city2, office, airline = slice(0, 2), 2, 3, 4, 5
    assert not allowed[out].any(), "nothing follows from an outcome"
    assert allowed[[city, city2, office, airline], out].all()
    assert allowed[city, office]
    assert allowed[office, city]
    assert allowed[city, airline]
    assert not allowed[airline, city]
    assert not allowed[city, city2]
    assert not allowed.diagonal().any()


@pytest.mark.parametrize("tiers", [True, False])
def test_no_edge_out_of_an_outcome_nor_between_values_of_one_attribute(tiers: bool) -> None:
    nodes = encoding([0, 0, 1, 2, 2])
    allowed = allowed_edges(nodes, SCHEMA, tiers)
    same = nodes.attribute[:, None] == nodes.attribute[None, :]
    assert not allowed[same].any()
    assert not allowed[nodes.attribute < 0].any()
    if not tiers:
        assert allowed[5, 2], "the paper lets an airline cause a city"


def test_without_a_learner_there_is_an_empty_graph() -> None:
    nothing = Learned.nothing(encoding([0, 1]))
    assert nothing.weights.shape == (4, 4)
    assert not nothing.weights.any()
    assert nothing.status == "skipped"
