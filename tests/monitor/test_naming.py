"""Node numbers ↔ the texts that people read."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.domain import MISSING, OTHER, Cause
from monitor.encoding import GramSum, Nodes
from monitor.naming import Naming
from monitor.vocabulary import MISSING_TEXT, OTHER_TEXT
from tests.monitor.towns import CODE, SCHEMA, WINDOW, Town, coded

TOWN = Town(seldom=0.1)


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    nodes = Nodes(len(SCHEMA.attributes), WINDOW, frozenset({CODE}))
    coded(TOWN.slices(4), nodes)
    return nodes


@pytest.fixture(scope="module")
def naming(nodes: Nodes) -> Naming:
    return Naming(SCHEMA, TOWN.vocabulary(), nodes)


@pytest.mark.parametrize(
    ("cause", "codes"),
    [
        (Cause(), ()),
        (Cause.of(airline="AC"), ((1, (1,)),)),
        (Cause.of(airline=["AC", "MU"]), ((1, (1, 2)),)),
        (Cause.of(office="SEL", fare=["F7", "F3"]), ((0, (2,)), (2, (3, 7)))),
        (Cause.of(office=MISSING_TEXT), ((0, (MISSING,)),)),
        (Cause.of(office=["BKK", MISSING_TEXT]), None),
        (Cause.of(fare="never seen"), ((2, (OTHER,)),)),
    ],
    ids=str,
)
def test_a_cause_is_the_same_in_words_by_code_and_by_node_number(naming, cause, codes) -> None:
    by_code = naming.codes(cause)
    if codes is not None:
        assert {a: set(v) for a, v in by_code} == {a: set(v) for a, v in codes}
    told = naming.cause(naming.numbers(by_code))
    unknown = Cause.of(fare=OTHER_TEXT)
    assert told == (unknown if cause == Cause.of(fare="never seen") else cause)


def test_several_values_are_one_step_of_the_path(naming, nodes) -> None:
    gram = GramSum(len(SCHEMA.attributes), len(SCHEMA.outcomes))
    for piece in coded(TOWN.slices(4), nodes):
        gram.push(piece, nodes.sizes())
    encoding = gram.encode(nodes, WINDOW.min_count, 100)
    names = naming.of(encoding)
    nothing = np.zeros((len(names), len(names)))
    selector = naming.numbers(naming.codes(Cause.of(airline=["MU", "AC"], office="SEL")))
    path = naming.path(1, selector, encoding, nothing, names, 4)
    assert path == ("office=SEL", "airline=AC|MU", "pay")
