"""The paper's own method, on a graph drawn by hand: counts, p-values and roots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from monitor.domain import Cause, Method
from monitor.encoding import Encoding, GramSum, Nodes
from monitor.naming import Naming
from monitor.paper import Failures, PaperVerdict, significant_paths
from tests.monitor.towns import HALF_HOUR, SCHEMA, SETTINGS, VALUES, Outage, Town, coded, start_of

SHORT = replace(
    SETTINGS,
    window=replace(SETTINGS.window, length=4 * HALF_HOUR),
    learner=replace(SETTINGS.learner, max_path_length=5),
)


class Case:
    """Eight slices: T′ is the first half, T the second; AC fails in T."""

    def __init__(self, *outages: Outage) -> None:
        self.town = Town(outages, rows=400)
        self.nodes = Nodes(len(SCHEMA.attributes), SHORT.window)
        self.coded = coded(self.town.slices(8), self.nodes)
        gram = GramSum(len(SCHEMA.attributes), 2)
        for one in self.coded[4:]:
            gram.push(one, self.nodes.sizes())
        self.encoding: Encoding = gram.encode(self.nodes, 5, 100)
        self.naming = Naming(SCHEMA, self.town.vocabulary(), self.nodes)
        self.names = self.naming.of(self.encoding)
        self.weights = np.zeros((len(self.names), len(self.names)))

    def edge(self, source: str, target: str, weight: float = 0.5) -> Case:
        self.weights[self.names.index(source), self.names.index(target)] = weight
        return self

    def verdict(self, slices: int = 8, **detection: object) -> PaperVerdict:
        settings = replace(SHORT, detection=replace(SHORT.detection, **detection))  # type: ignore[arg-type]
        failures = [Failures.of(one) for one in self.coded[:slices]]
        return significant_paths(
            failures, self.encoding, self.weights, start_of(4), settings, self.naming, self.names
        )

    def count(self, first: int, last: int, **values: str) -> int:
        """Failures to pay among rows with these values, from the events themselves."""
        total = 0
        for number in range(first, last):
            events = self.town.events(number)
            hit = events.failed[:, 1].copy()
            for name, value in values.items():
                column = list(VALUES).index(name)
                hit &= events.values[:, column] == VALUES[name].index(value) + 1
            total += int(hit.sum())
        return total


OUTAGE = Outage(4, 7, cause={"airline": "AC"})


def test_a_path_more_frequent_than_before_is_told_by_its_root() -> None:
    case = Case(OUTAGE).edge("airline=AC", "fare=F3").edge("fare=F3", "pay")
    (found,) = case.verdict().findings
    now, before = (case.count(*span, airline="AC", fare="F3") for span in ((4, 8), (0, 4)))
    assert found.method is Method.PAPER
    assert found.path == ("airline=AC", "fare=F3", "pay")
    assert found.cause == Cause.of(airline="AC"), "the tail of the path is the root"
    assert (found.observed, found.expected) == (now, before)
    oracle = stats.binom.sf(now - 1, now + before, 0.5)
    assert found.p_value == pytest.approx(oracle, rel=1e-9)
    assert found.score == pytest.approx(-np.log(oracle), rel=1e-9)
    assert found.q_value == found.p_value, "it was the only test"
    assert found.rate_now == now / 1600


def test_a_quiet_path_is_no_finding_but_counts_as_a_test() -> None:
    case = Case(OUTAGE).edge("airline=AC", "pay").edge("airline=LH", "pay")
    (found,) = case.verdict().findings
    assert found.cause == Cause.of(airline="AC")
    assert found.q_value == pytest.approx(2 * found.p_value)


def test_of_one_root_only_the_strongest_path_is_told() -> None:
    case = Case(OUTAGE)
    for fare in ("F1", "F3"):
        case.edge("airline=AC", f"fare={fare}").edge(f"fare={fare}", "pay")
    (found,) = case.verdict().findings
    assert found.path == ("airline=AC", "fare=F3", "pay")


def test_the_threshold_is_the_operators() -> None:
    case = Case().edge("airline=AC", "pay")
    assert case.verdict().findings == ()
    assert len(case.verdict(paper_p_value=0.9999).findings) == 1


def test_before_there_are_two_windows_there_is_no_verdict() -> None:
    case = Case(OUTAGE).edge("airline=AC", "pay")
    assert case.verdict(slices=7) == PaperVerdict((), False)


def test_without_edges_there_is_nothing_to_test() -> None:
    assert Case(OUTAGE).verdict() == PaperVerdict((), False)


def test_more_paths_than_the_bound_is_said() -> None:
    case = Case(OUTAGE).edge("airline=AC", "pay").edge("airline=LH", "pay")
    few = replace(SHORT, learner=replace(SHORT.learner, max_paths=1))
    failures = [Failures.of(one) for one in case.coded]
    verdict = significant_paths(
        failures, case.encoding, case.weights, start_of(4), few, case.naming, case.names
    )
    assert verdict.truncated


def test_a_cause_is_named_with_its_mediators() -> None:
    case = Case(OUTAGE).edge("airline=AC", "fare=F3").edge("fare=F3", "pay")
    pay = case.names.index("pay")

    def told(**cause: str) -> tuple[str, ...]:
        selector = case.naming.numbers(case.naming.codes(Cause.of(**cause)))
        assert case.naming.cause(selector) == Cause.of(**cause)
        return case.naming.path(pay, selector, case.encoding, case.weights, case.names, 5)

    assert told(airline="AC") == ("airline=AC", "fare=F3", "pay")
    assert told(office="BKK", airline="AC") == ("office=BKK", "airline=AC", "fare=F3", "pay")
    assert told(airline="LH") == ("airline=LH", "pay")
    assert told(airline="AC", fare="F3") == ("airline=AC", "fare=F3", "pay")
    assert told() == ("everything", "pay")
