"""LEAST inside the monitor: it remembers from tick to tick, and over a restart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from monitor.encoding import Encoding, GramSum, Nodes
from monitor.learning import LeastLearner, allowed_edges
from monitor.paths import strongest_path
from tests.monitor.towns import SCHEMA, SETTINGS, WINDOW, Outage, Town, coded

TOWN = Town((Outage(8, 15, rate=0.8, cause={"airline": "AC"}),), rows=300)


@pytest.fixture(scope="module")
def windows() -> list[Encoding]:
    """Three windows of eight slices, each half a day on from the last."""
    nodes = Nodes(len(SCHEMA.attributes), WINDOW)
    pieces = coded(TOWN.slices(16), nodes)
    found = []
    for first in (0, 4, 8):
        gram = GramSum(len(SCHEMA.attributes), 2)
        for one in pieces[first : first + 8]:
            gram.push(one, nodes.sizes())
        found.append(gram.encode(nodes, WINDOW.min_count, 100))
    return found


def test_the_graph_is_acyclic_in_tiers_and_shows_who_fails(windows: list[Encoding]) -> None:
    learner = LeastLearner(SCHEMA, SETTINGS.learner)
    for window in windows:
        learned = learner.learn(window)
    weights = learned.weights
    assert learned.status in ("converged", "max_steps")
    assert learned.steps > 0
    assert weights.shape == (len(window.number),) * 2
    assert not weights[~allowed_edges(window, SCHEMA, tiers=True)].any()
    count, _ = connected_components(weights != 0, directed=True, connection="strong")
    assert count == len(weights)
    assert np.abs(weights[weights != 0]).min() > SETTINGS.learner.threshold
    # Of all airlines it is AC whose failures can be followed to the outcome most strongly.
    airlines = tuple(int(i) for i in np.flatnonzero(window.attribute == 1))
    path = strongest_path(airlines, 1, weights, max_length=6)
    assert (window.attribute[path[0]], window.number[path[0]]) == (1, 1)


def test_a_restored_learner_goes_on_to_the_last_bit(windows: list[Encoding]) -> None:
    one = LeastLearner(SCHEMA, SETTINGS.learner)
    one.learn(windows[0])
    one.learn(windows[1])
    other = LeastLearner(SCHEMA, SETTINGS.learner)
    other.restore({name: array.copy() for name, array in one.to_arrays().items()})
    np.testing.assert_array_equal(one.learn(windows[2]).weights, other.learn(windows[2]).weights)


def test_nodes_come_and_go_between_two_ticks(windows: list[Encoding]) -> None:
    learner = LeastLearner(SCHEMA, SETTINGS.learner)
    learner.learn(windows[0])
    keep = np.ones(len(windows[1].number), bool)
    keep[[3, 5]] = False
    fewer = Encoding(
        windows[1].attribute[keep],
        windows[1].number[keep],
        windows[1].gram[np.ix_(keep, keep)],
        windows[1].rows,
        0,
    )
    assert learner.learn(fewer).weights.shape == (keep.sum(),) * 2
    again = learner.learn(windows[1])
    assert again.weights.shape == (len(keep),) * 2
    assert np.isfinite(again.weights).all()
