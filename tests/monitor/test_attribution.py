"""Who is to blame: outages of every kind in a town whose usual failures are known exactly."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.attribution import (
    Attribution,
    CodeModel,
    Scatter,
    Settled,
    Suspect,
    attribute,
    began,
    has_ended,
    match,
)
from monitor.bar import KINDS
from monitor.domain import Events
from monitor.encoding import Coded, Nodes
from monitor.slices import aggregate
from monitor.vocabulary import MISSING_TEXT
from monitor.window import QUANTUM, Horizons
from tests.monitor.towns import (
    BAR,
    CODE,
    SCHEMA,
    SETTINGS,
    VALUES,
    WINDOW,
    Outage,
    Promotion,
    Town,
    coded,
    judged,
    named,
    start_of,
)


def blamed(*outages: Outage, outcome: str = "pay", promotions: tuple[Promotion, ...] = ()):
    """The active causes, best first, in words."""
    found, nodes = judged(Town(outages, promotions), outcome=outcome)
    return [named(s.selector, nodes) for s in found.suspects if not s.ended]


@pytest.mark.parametrize(
    "cause",
    [{"airline": "AC"}, {"fare": "F2"}, {"office": "SEL"}, {"fare": "F7"}],
    ids=str,
)
def test_an_outage_of_one_value_names_that_value(cause: dict[str, str]) -> None:
    assert blamed(Outage(44, 47, cause=cause)) == [cause]


@pytest.mark.parametrize(
    "cause",
    [
        {"airline": "MU", "office": "SEL"},
        {"airline": "LH", "fare": "F1"},
        {"office": "BKK", "fare": "F2"},
    ],
    ids=str,
)
def test_an_outage_of_a_pair_names_the_pair(cause: dict[str, str]) -> None:
    assert blamed(Outage(42, 47, rate=0.9, cause=cause)) == [cause]


@pytest.mark.parametrize(
    "cause",
    [
        {"office": "BKK", "airline": "MU", "fare": "F1"},
        {"office": "SEL", "airline": "AC", "fare": "F3"},
        {"office": "FRA", "airline": "LH", "fare": "F2"},
    ],
    ids=str,
)
def test_an_outage_of_three_values_together_names_all_three(cause: dict[str, str]) -> None:
    assert blamed(Outage(36, 47, rate=0.9, cause=cause)) == [cause]


@pytest.mark.parametrize(
    "cause",
    [
        {"office": "BKK", "airline": "AC", "fare": "F1"},
        {"office": "SEL", "airline": "MU", "fare": "F2"},
    ],
    ids=str,
)
def test_three_values_are_found_where_none_of_their_pairs_stands_out(cause: dict[str, str]) -> None:
    found, nodes = judged(Town((Outage(40, 47, rate=0.4, cause=cause),)))
    assert [named(s.selector, nodes) for s in found.suspects] == [cause]
    wider = [KINDS.index(kind) for kind in ("everything", "value", "several", "pair")]
    assert (found.peaks[wider] < BAR[wider]).all()


def test_when_everything_fails_nobody_is_blamed() -> None:
    assert blamed(Outage(45, 47, rate=0.3)) == [{}]


def test_two_airlines_that_fail_alike_at_once_are_one_cause() -> None:
    two = [Outage(44, 47, cause={"airline": "LH"}), Outage(44, 47, cause={"airline": "KE"})]
    assert blamed(*two) == [{"airline": "LH|KE"}]


def test_two_outages_at_once_are_two_causes() -> None:
    two = [Outage(44, 47, cause={"airline": "KE"}), Outage(44, 47, cause={"office": "JFK"})]
    assert sorted(map(str, blamed(*two))) == sorted(str(o.cause) for o in two)


def test_of_two_outages_that_cross_every_cause_lies_in_one_of_them() -> None:
    two = [Outage(44, 47, cause={"airline": "LH"}), Outage(44, 47, cause={"office": "SEL"})]
    first, *others = blamed(*two)
    assert first == {"office": "SEL"}
    assert others
    assert all(cause["airline"] == "LH" for cause in others)


def test_a_value_that_only_looks_guilty_through_another_is_explained_away() -> None:
    # Most of AC's tickets come from F3, so F3 fails three times as often as usual.
    outage = Outage(40, 47, cause={"airline": "AC"})
    town = Town((outage,))
    found, nodes = judged(town)
    assert [named(s.selector, nodes) for s in found.suspects] == [{"airline": "AC"}]
    rivals = [named(rival, nodes) for rival, _ in found.suspects[0].runners_up]
    assert any("fare" in rival or "airline" in rival for rival in rivals)


def test_an_outcome_is_judged_by_its_own_failures() -> None:
    outage = Outage(44, 47, outcome="seat", cause={"fare": "F2"})
    assert blamed(outage, outcome="seat") == [{"fare": "F2"}]
    assert blamed(outage, outcome="pay") == []


def test_an_event_that_ended_hours_ago_is_not_active() -> None:
    found, nodes = judged(Town((Outage(20, 26, cause={"airline": "AC"}),)))
    ended = [(named(s.selector, nodes), s.ended) for s in found.suspects]
    assert ended == [({"airline": "AC"}, True)]


def test_a_leak_that_becomes_smaller_is_not_over_and_one_that_stops_is() -> None:
    def over(*newest: int) -> bool:
        suspect = Suspect((), 4, 9.0, 0.0, 0.0, ())
        suspect.observed = np.array([8.0] * 20 + [12.0] * 24 + [float(n) for n in newest])
        suspect.expected = np.full(48, 4.0)
        return has_ended(suspect, 48)

    assert not over(8, 8, 8, 8)
    assert not over(1, 12, 12, 0), "one slice alone says little"
    assert over(2, 3, 2, 3)


def test_what_the_log_tells_late_is_not_over() -> None:
    suspect = Suspect((), 4, 9.0, 0.0, 0.0, ())
    suspect.observed = np.array([4.0] * 30 + [12.0] * 14 + [0.0] * 4)
    suspect.expected = np.full(48, 4.0)
    assert has_ended(suspect, 48)
    assert not has_ended(suspect, 48, np.array([0.0, 0.0, 0.0, 0.0] + [1.0] * 44))


def test_an_ended_event_does_not_hide_the_next_one() -> None:
    assert blamed(
        Outage(20, 26, cause={"airline": "AC"}), Outage(44, 47, cause={"office": "SEL"})
    ) == [{"office": "SEL"}]


@pytest.mark.parametrize("seed", range(5))
def test_quiet_traffic_is_silent(seed: int) -> None:
    found, _ = judged(Town(seed=seed))
    assert found.suspects == ()
    assert found.unexplained == 0.0


@pytest.mark.parametrize("cause", [{"airline": "MU"}, {"fare": "F6"}], ids=str)
def test_a_promotion_is_silent(cause: dict[str, str]) -> None:
    assert blamed(promotions=(Promotion(40, 47, cause),)) == []


def test_a_handful_of_failures_is_never_an_anomaly() -> None:
    found, _ = judged(Town((Outage(47, 47, rate=1.0, cause={"office": "GIG", "fare": "F7"}),)))
    assert found.suspects == ()


def test_an_outage_without_failures_at_all_leaves_nothing_to_judge() -> None:
    tables = Horizons((0, 1, 2), 2, (1, 2))
    found = attribute(0, tables, Scatter.alike(0.1, 2), BAR, 5, 6)
    assert found.suspects == ()
    assert (found.peaks == -np.inf).all()


def test_a_suspect_counts_its_own_rows_slice_by_slice() -> None:
    town = Town((Outage(44, 47, cause={"airline": "AC"}),))
    found, _ = judged(town)
    (suspect,) = found.suspects
    for number in range(48):
        events = town.events(number)
        hit = events.values[:, 1] == VALUES["airline"].index("AC") + 1
        assert suspect.rows[number] == hit.sum()
        assert suspect.observed[number] == events.failed[hit, 1].sum()
        assert suspect.expected[number] == pytest.approx(0.03 * hit.sum(), rel=1e-3)
    assert began(suspect) == 44
    assert 0 < suspect.p_value <= suspect.q_value < 1e-3
    assert suspect.total(4) == (
        suspect.observed[-4:].sum(), suspect.expected[-4:].sum(), suspect.rows[-4:].sum()
    )  # fmt: skip


def test_what_else_stands_out_is_told_beside_the_cause_best_first() -> None:
    found, _ = judged(Town((Outage(42, 47, rate=0.9, cause={"airline": "MU", "office": "SEL"}),)))
    (suspect,) = found.suspects
    assert suspect.selector not in [rival for rival, _ in suspect.runners_up]
    scores = [score for _, score in suspect.runners_up]
    assert scores == sorted(scores, reverse=True)


def test_the_excess_of_a_found_cause_is_explained() -> None:
    found, _ = judged(Town((Outage(40, 47, rate=0.8, cause={"airline": "AC"}),)))
    assert found.unexplained < 0.1


def test_only_so_many_causes_are_named() -> None:
    outages = tuple(Outage(40, 47, rate=0.9, cause={"office": o}) for o in VALUES["office"][1:4])
    nodes = Nodes(len(SCHEMA.attributes), WINDOW)
    tables = Horizons((0, 1, 2), 2, SETTINGS.detection.horizons)
    for piece in coded(Town(outages).slices(48), nodes):
        tables.push(piece, nodes.sizes()[:3])
    scatter = Scatter.alike(0.1, len(tables.horizons))
    for most in (1, 2):
        assert 1 <= len(attribute(1, tables, scatter, BAR, 5, most).suspects) <= most


def test_rows_match_when_every_attribute_has_a_named_value() -> None:
    nodes = Nodes(len(SCHEMA.attributes), WINDOW)
    (one,) = coded(Town().slices(1), nodes)
    office, airline = one.local[:, 0] == 2, one.local[:, 1] == 1
    np.testing.assert_array_equal(match(one.local, ((0, (2,)), (1, (1,)))), office & airline)
    several = np.isin(one.local[:, 0], (1, 2))
    np.testing.assert_array_equal(match(one.local, ((0, (1, 2)), (1, (1,)))), several & airline)
    assert match(one.local, ()).all()


AC = ((1, (1,)),)
"""Airline AC as a selector: the first airline is node 1."""


def test_an_outage_that_was_told_and_is_over_is_no_news() -> None:
    town = Town((Outage(20, 30, cause={"airline": "AC"}),))
    untold, nodes = judged(town)
    assert [(named(s.selector, nodes), s.ended) for s in untold.suspects] == [
        ({"airline": "AC"}, True)
    ]
    told, _ = judged(town, settled=(Settled(AC, start_of(31)),))
    assert told.suspects == ()


def test_the_next_outage_of_the_same_cause_is_news_and_counts_from_its_own_start() -> None:
    town = Town((Outage(20, 30, cause={"airline": "AC"}), Outage(45, 47, cause={"airline": "AC"})))
    found, nodes = judged(town, settled=(Settled(AC, start_of(31)),))
    (again,) = found.suspects
    assert named(again.selector, nodes) == {"airline": "AC"}
    assert not again.ended
    assert began(again) == 45
    # what was told lies on the side of the expected: no excess of it is left
    assert again.observed[:31].sum() == pytest.approx(again.expected[:31].sum(), rel=0.05)


def test_yesterdays_specific_outages_do_not_add_up_to_everything() -> None:
    three = tuple(Outage(10, 30, cause={"airline": a}) for a in ("AC", "MU", "LH"))
    settled = tuple(Settled(((1, (n,)),), start_of(31)) for n in (1, 2, 3))
    assert judged(Town(three), settled=settled)[0].suspects == ()


def test_what_failed_as_a_whole_and_was_told_hides_no_cause_inside_of_it() -> None:
    storm = Outage(20, 30, rate=0.3)
    assert judged(Town((storm,)), settled=(Settled((), start_of(31)),))[0].suspects == ()
    both = Town((storm, Outage(42, 47, rate=0.9, cause={"office": "BKK"})))
    found, nodes = judged(both, settled=(Settled((), start_of(31)),))
    assert {"office": "BKK"} in [named(s.selector, nodes) for s in found.suspects]


class _Coast(Town):
    """A town where four small offices are served by AC nine times out of ten."""

    def _traffic(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        traffic = super()._traffic(rng, rows)
        coast = (traffic[:, 0] >= 3) & (rng.random(rows) < 0.9)
        traffic[coast, 1] = 1
        return traffic


def test_a_storm_over_several_offices_is_not_blamed_on_the_airline_that_serves_them() -> None:
    hit = [Outage(44, 47, rate=0.95, cause={"office": o}) for o in ("FRA", "JFK", "LHR", "GIG")]
    found, nodes = judged(_Coast(tuple(hit)))
    assert "office" in named(found.suspects[0].selector, nodes)
    assert {"airline": "AC"} not in [named(s.selector, nodes) for s in found.suspects]


def told(
    rates: np.ndarray,
    usual: np.ndarray,
    slices: int = 48,
    since: int = 44,
    bar: np.ndarray = BAR,
) -> Attribution:
    """Causes where value i of one attribute usually fails at `usual[i]` and lately at `rates[i]`.

    Exactly the mean fails: what is named is no matter of chance.
    """
    count, rows = len(usual), 400
    tables = Horizons((0,), 1, (1, 2, 4, 12, 48))
    values = np.repeat(np.arange(1, count + 1, dtype=np.int32), 2)[:, None]
    for number in range(slices):
        failures = np.round(rows * (rates if number >= since else usual)).astype(int)
        weight = np.column_stack([failures, rows - failures]).ravel()
        failed = np.tile([True, False], count)[:, None]
        piece = aggregate(start_of(number), values, failed, weight)
        fair = np.round(usual / QUANTUM) * QUANTUM
        tables.push(Coded(piece, piece.values, fair[piece.values[:, 0] - 1][:, None]), (count + 1,))
    return attribute(0, tables, Scatter.alike(0.1, 5), bar, 5, 6)


USUAL = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.12, 0.16, 0.2])


def just_now(
    failures: int, hit: int, values: int, usual: float, bar: np.ndarray = BAR
) -> Attribution:
    """Causes where some values have so many failures in the newest slice, of 400 bookings each."""
    rates = np.full(values, usual)
    rates[:hit] = failures / 400
    return told(rates, np.full(values, usual), since=47, bar=bar)


def test_values_with_few_failures_each_are_named_where_several_are_hit_at_once() -> None:
    (found,) = just_now(failures=3, hit=8, values=40, usual=0.0008).suspects
    assert found.selector == ((0, tuple(range(1, 9))),)
    assert found.observed[-1] == 8 * 3


def test_everything_is_no_less_likely_by_chance_for_the_thousand_pairs_beside_it() -> None:
    suspect = judged(Town((Outage(46, 47, rate=0.12),)))[0].suspects[0]
    assert suspect.selector == ()
    looked_at = 3 * len(SETTINGS.detection.horizons)  # kinds of cells, of which it is one
    assert suspect.q_value == pytest.approx(suspect.p_value * looked_at)


def test_several_values_speak_with_all_their_evidence_in_the_q_value_too() -> None:
    (found,) = just_now(failures=4, hit=8, values=40, usual=0.0008).suspects
    assert found.score > 5
    assert found.p_value < found.q_value <= 1.001 * np.exp(-found.score)


def test_two_values_with_few_failures_each_are_chance() -> None:
    # Eight failures where 1.6 are expected: at three nats that would be everything.
    bar = np.full_like(BAR, 5.0)
    assert not just_now(failures=4, hit=2, values=40, usual=0.0001, bar=bar).suspects


def test_values_that_usually_have_most_failures_are_everything() -> None:
    found = just_now(failures=4, hit=3, values=4, usual=0.0001)
    assert [s.selector for s in found.suspects] == [()]


def test_a_share_of_all_that_fails_whatever_it_was_before_is_one_cause() -> None:
    found = told(USUAL + 0.15, USUAL)
    assert [s.selector for s in found.suspects] == [()]


def test_what_multiplies_every_failure_is_one_cause() -> None:
    found = told(np.minimum(USUAL * 4, 0.9), USUAL)
    assert [s.selector for s in found.suspects] == [()]


def test_everything_goes_before_a_value_that_stands_out_less_than_all_the_others_do() -> None:
    rates = np.minimum(USUAL * 4, 0.9)
    rates[3] = USUAL[3] * 12
    found = told(rates, USUAL)
    assert [s.selector for s in found.suspects] == [(), ((0, (4,)),)]


def test_a_value_that_a_storm_hits_twice_as_hard_as_others_is_part_of_the_storm() -> None:
    rates = np.minimum(USUAL * 4, 0.9)
    rates[3] = USUAL[3] * 8
    assert [s.selector for s in told(rates, USUAL).suspects] == [()]


def test_one_value_that_fails_is_not_everything() -> None:
    rates = USUAL.copy()
    rates[5] = 0.9
    found = told(rates, USUAL)
    assert [s.selector for s in found.suspects] == [((0, (6,)),)]


# --- several values -----------------------------------------------------------------------------


def test_several_values_inside_of_another_are_one_cause() -> None:
    two = [Outage(44, 47, rate=0.6, cause={"airline": "MU", "fare": f}) for f in ("F1", "F4")]
    assert blamed(*two) == [{"airline": "MU", "fare": "F1|F4"}]


# --- error codes --------------------------------------------------------------------------------

USUAL_CODES = CodeModel(CODE, None, np.array([[0.0, 0.7, 0.3]]), np.array([5000.0]))
"""What the town's failures carry on quiet days."""


def with_codes(*outages: Outage) -> list[dict[str, str]]:
    found, nodes = judged(Town(outages), codes=USUAL_CODES)
    return [named(s.selector, nodes) for s in found.suspects if not s.ended]


def test_the_usual_codes_of_quiet_traffic_are_silent() -> None:
    assert with_codes() == []


def test_a_code_alone_is_the_cause_where_it_fails_everywhere_and_hardly_anything_else() -> None:
    everywhere = Outage(44, 47, rate=0.04, code="E-SCHEMA")
    assert blamed(everywhere) == [], "without its code nobody would know"
    assert with_codes(everywhere) == [{"code": "E-SCHEMA"}]


def test_a_code_in_one_fare_source_names_the_fare_source_too() -> None:
    there = Outage(44, 47, rate=0.15, cause={"fare": "F4"}, code="E-SCHEMA")
    assert blamed(there) == [{"fare": "F4"}]
    assert with_codes(there) == [{"fare": "F4", "code": "E-SCHEMA"}]


# --- missing values -----------------------------------------------------------------------------


class _Nowhere(Town):
    """A town where bookings without an office fail since slice 44."""

    def events(self, number: int) -> Events:
        events = super().events(number)
        if number >= 44:
            rng = np.random.default_rng(number)
            nowhere = events.values[:, 0] < 0
            events.failed[nowhere, 1] |= rng.random(nowhere.sum()) < 0.6
        return events


class _Forgotten(Town):
    """A town where seven of ten failed bookings of AC lose their office since slice 44."""

    def events(self, number: int) -> Events:
        events = super().events(number)
        if number >= 44:
            rng = np.random.default_rng(number)
            lost = events.failed[:, 1] & (events.values[:, 1] == 1)
            events.values[lost & (rng.random(len(lost)) < 0.7), 0] = -1
        return events


def test_a_missing_value_may_be_the_cause() -> None:
    found, nodes = judged(_Nowhere(seldom=0.1))
    assert [named(s.selector, nodes) for s in found.suspects] == [{"office": MISSING_TEXT}]


def test_a_value_that_is_missing_because_it_failed_is_a_symptom_and_no_cause() -> None:
    found, nodes = judged(_Forgotten((Outage(44, 47, cause={"airline": "AC"}),)))
    assert [named(s.selector, nodes) for s in found.suspects] == [{"airline": "AC"}]
