"""From findings to news: every story is told once, from its beginning to its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.domain import (
    Cause,
    Change,
    Finding,
    Incident,
    IncidentSettings,
    Method,
    Notification,
    Severity,
    State,
)
from monitor.incidents import identity, track

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TICK = timedelta(minutes=30)
SETTINGS = IncidentSettings()
AC = Cause.of(airline="AC")
AC_BKK = Cause.of(airline="AC", office="BKK")


def finding(cause: Cause = AC, **changes: object) -> Finding:
    usual = Finding(
        method=Method.EXCESS,
        outcome="pay",
        cause=cause,
        path=("airline=AC", "pay"),
        score=12.5,
        p_value=1e-9,
        q_value=1e-6,
        observed=40,
        expected=4,
        rows=200,
        horizon=TICK,
        began=NOON - TICK,
        rate_before=0.02,
        rate_now=0.2,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


class Story:
    """Incidents over many ticks."""

    def __init__(self) -> None:
        self.incidents: tuple[Incident, ...] = ()
        self.at = NOON

    def tick(self, *findings: Finding, gap: bool = False) -> list[tuple[str, str]]:
        """One tick; the news in short."""
        return [
            (n.change.value, str(n.incident.finding.cause)) for n in self.news(*findings, gap=gap)
        ]

    def news(self, *findings: Finding, gap: bool = False) -> tuple[Notification, ...]:
        self.incidents, news = track(self.incidents, findings, self.at, SETTINGS, gap=gap)
        self.at += TICK
        return news


def test_an_incident_is_opened_once_and_unchanged_while_it_lasts() -> None:
    story = Story()
    assert story.tick(finding()) == [("opened", "airline=AC")]
    for _ in range(10):
        assert story.tick(finding()) == []
    (incident,) = story.incidents
    assert incident.state is State.OPEN
    assert incident.opened_at == NOON
    assert incident.last_seen_at == story.at - TICK


def test_an_excess_twice_as_large_is_worse() -> None:
    story = Story()
    story.tick(finding())
    assert story.tick(finding(observed=70)) == []
    assert story.tick(finding(observed=80, score=20.0)) == [("worsened", "airline=AC")]
    assert story.tick(finding(observed=90)) == [], "against what was last reported"
    (incident,) = story.incidents
    assert incident.worsened_at == (NOON + 2 * TICK,)
    assert (incident.finding.observed, incident.latest.observed) == (80, 90)


def test_worse_without_a_higher_score_is_told_with_its_latest_counts() -> None:
    story = Story()
    story.tick(finding(score=30.0))
    assert story.tick(finding(observed=100, score=20.0)) == [("worsened", "airline=AC")]
    (incident,) = story.incidents
    assert incident.finding.score == 30.0
    assert incident.latest.observed == 100
    assert story.tick(finding(observed=100, score=20.0)) == []


def test_slow_growth_is_told_when_the_excess_has_doubled_since_people_heard_of_it() -> None:
    story = Story()
    story.tick(finding(observed=40))
    for observed in range(44, 76, 4):
        assert story.tick(finding(observed=observed, score=float(observed))) == []
    assert story.tick(finding(observed=76, score=76.0)) == [("worsened", "airline=AC")]
    assert story.tick(finding(observed=140, score=140.0)) == []  # not yet twice what was told


def test_what_merely_lasts_adds_up_without_becoming_news() -> None:
    story = Story()
    story.tick(finding(observed=40, expected=4))
    for ticks in (2, 4, 8):
        lasting = finding(observed=36 * ticks, expected=4 * ticks, horizon=ticks * TICK)
        assert story.tick(lasting) == []
    (incident,) = story.incidents
    assert len(incident.worsened_at) > 0, "but it is on record"


def test_old_failures_without_a_fresh_one_open_nothing() -> None:
    story = Story()
    assert story.tick(finding(fresh=False)) == []
    assert story.tick(finding(fresh=True)) == [("opened", "airline=AC")]


def test_a_more_exact_cause_refines_the_incident() -> None:
    story = Story()
    story.tick(finding())
    identifier = story.incidents[0].id
    assert story.tick(finding(AC_BKK, score=20.0)) == [("refined", "airline=AC & office=BKK")]
    assert story.tick(finding(AC, score=15.0)) == []
    (incident,) = story.incidents
    assert incident.id == identifier
    assert incident.causes == (AC, AC_BKK)
    assert incident.finding.cause == AC_BKK


def test_a_wider_cause_continues_the_story_too() -> None:
    story = Story()
    story.tick(finding(AC_BKK, score=40.0))
    assert story.tick(finding(AC, score=19.0)) == [], "too little to be the same trouble"
    assert story.tick(finding(AC, score=21.0)) == [("refined", "airline=AC")]
    assert story.tick(finding(AC_BKK, score=40.0)) == [], "names do not swap back and forth"
    assert len(story.incidents) == 1


FS3 = Cause.of(airline="AC", office="BKK", fare_source="FS3")


def test_three_values_judged_by_all_that_happened_are_told_though_the_pair_was_more_evident() -> (
    None
):
    story = Story()
    story.tick(finding(AC_BKK, score=80.0))
    assert story.tick(finding(FS3, score=39.0)) == [], "too little to be the same trouble"
    assert story.tick(finding(FS3, score=65.0)) == [("refined", str(FS3))]
    assert story.tick(finding(AC_BKK, score=70.0)) == [], "names do not swap back and forth"
    assert story.tick(finding(AC_BKK, score=140.0)) == [("refined", str(AC_BKK))]
    assert len(story.incidents) == 1


def test_three_values_that_were_told_first_give_way_to_a_pair_that_is_found_later() -> None:
    story = Story()
    story.tick(finding(FS3, score=20.0))
    assert story.tick(finding(AC_BKK, score=9.0)) == []
    assert story.tick(finding(AC_BKK, score=11.0)) == [("refined", str(AC_BKK))]


def test_more_values_of_the_same_attribute_continue_the_story() -> None:
    story = Story()
    story.tick(finding(AC, score=20.0))
    both = Cause.of(airline=["AC", "MU"])
    assert story.tick(finding(both, score=30.0)) == [("refined", str(both))]
    assert len(story.incidents) == 1


def test_everything_is_no_refinement_of_one_airline() -> None:
    story = Story()
    story.tick(finding())
    assert story.tick(finding(Cause()), finding()) == [("opened", "everything")]
    assert len(story.incidents) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": "seat"},
        {"method": Method.PAPER},
        {"cause": Cause.of(airline="MU")},
        {"cause": Cause.of(office="BKK")},
    ],
    ids=str,
)
def test_another_outcome_method_or_cause_is_another_incident(other: dict[str, object]) -> None:
    story = Story()
    story.tick(finding())
    assert [change for change, _ in story.tick(finding(), finding(**other))] == ["opened"]
    assert len({i.id for i in story.incidents}) == 2


def test_two_causes_inside_one_incident_do_not_swap_places() -> None:
    story = Story()
    story.tick(finding(AC_BKK))
    other = Cause.of(airline="AC", office="SEL")
    assert story.tick(finding(AC_BKK), finding(other)) == [("opened", str(other))]
    assert story.tick(finding(other), finding(AC_BKK)) == []


def test_it_is_resolved_after_patience_and_once() -> None:
    story = Story()
    story.tick(finding())
    assert [story.tick() for _ in range(3)] == [[], [], []]
    assert story.tick() == [("resolved", "airline=AC")]
    assert story.tick() == []
    (incident,) = story.incidents
    assert incident.state is State.RESOLVED
    assert incident.resolved_at == NOON + 4 * TICK


def test_a_pause_shorter_than_patience_is_no_end() -> None:
    story = Story()
    story.tick(finding())
    for _ in range(6):
        assert [story.tick(), story.tick(), story.tick(), story.tick(finding())] == [[]] * 4


def test_an_ended_finding_opens_nothing_and_keeps_nothing_open() -> None:
    story = Story()
    assert story.tick(finding(ended=True)) == []
    assert story.incidents == ()
    story.tick(finding())
    changes = [story.tick(finding(ended=True)) for _ in range(4)]
    assert changes == [[], [], [], [("resolved", "airline=AC")]]


def test_a_gap_resolves_nothing() -> None:
    story = Story()
    story.tick(finding())
    assert [story.tick(gap=True) for _ in range(20)] == [[]] * 20
    assert story.incidents[0].state is State.OPEN
    # After six or ten hours of nothing, one healthy tick is one healthy tick.
    assert [story.tick() for _ in range(3)] == [[]] * 3
    assert story.tick() == [("resolved", "airline=AC")]


def test_a_cause_seen_again_after_a_gap_is_the_same_incident() -> None:
    story = Story()
    story.tick(finding())
    for _ in range(12):
        assert story.tick(gap=True) == []
    assert story.tick() == []
    assert story.tick(finding()) == []
    assert [story.tick() for _ in range(4)][-1] == [("resolved", "airline=AC")]
    assert len(story.incidents) == 1


def test_a_cause_that_is_on_and_off_every_tick_for_a_day_is_told_twice_at_most() -> None:
    story = Story()
    news = [change for i in range(48) for change in story.tick(*[finding()] * (i % 2 == 0))]
    news += [change for _ in range(8) for change in story.tick()]
    assert news == [("opened", "airline=AC"), ("resolved", "airline=AC")]


def test_a_wider_cause_takes_in_the_narrower_incidents_that_it_explains() -> None:
    story = Story()
    sel = Cause.of(airline="AC", office="SEL")
    story.tick(finding(AC_BKK, score=20.0), finding(sel, score=15.0))
    assert len(story.incidents) == 2
    # Now it is known to be the whole airline: BKK's incident goes on as the airline's, and
    # SEL's does not "work again".
    changes = story.tick(finding(AC, score=40.0))
    assert changes == [("refined", "airline=AC"), ("merged", str(sel))]
    first, second = story.incidents
    assert (first.state, second.state, second.merged_into) == (State.OPEN, State.RESOLVED, first.id)
    # What was known under the narrower name belongs to the heir from now on.
    assert story.tick(finding(sel, score=41.0)) == [("refined", str(sel))]
    assert [i.id for i in story.incidents if i.state is State.OPEN] == [first.id]


def test_a_too_general_incident_ends_in_the_exact_one() -> None:
    story = Story()
    story.tick(finding(AC_BKK, score=20.0))
    exact = story.incidents[0]
    story.tick(finding(AC_BKK, score=20.0), finding(AC, score=12.0))
    general = next(i for i in story.incidents if i.id != exact.id)
    assert general.finding.cause == AC
    assert story.tick(finding(AC_BKK, score=20.0)) == [], "one story, which goes on"
    (general,) = (i for i in story.incidents if i.id == general.id)
    assert (general.state, general.merged_into) == (State.RESOLVED, exact.id)


@pytest.mark.parametrize(
    ("observed", "rows", "severity"),
    [
        (6, 6, "info"),  # all fail, but there are few of them
        (33, 2000, "info"),
        (34, 2000, "warning"),
        (9, 80, "warning"),
        (80, 100, "critical"),
        (305, 20000, "critical"),
    ],
)
def test_severity_goes_by_failures_and_by_the_share_failing(
    observed: int, rows: int, severity: str
) -> None:
    story = Story()
    story.tick(finding(observed=observed, rows=rows, rate_now=observed / rows, expected=4))
    assert story.incidents[0].severity.value == severity


def test_a_higher_severity_is_news_once_and_never_falls() -> None:
    story = Story()
    story.tick(finding(observed=200, rows=5000, rate_now=0.04, expected=0))
    assert story.incidents[0].severity is Severity.WARNING
    rises = finding(observed=310, rows=5000, rate_now=0.06, expected=0)
    assert story.tick(rises) == [("worsened", "airline=AC")]
    assert story.tick(finding(observed=250, expected=0)) == []
    assert story.tick(rises) == []
    assert story.incidents[0].severity is Severity.CRITICAL


def test_old_rows_of_a_resolved_incident_do_not_reopen_it() -> None:
    story = Story()
    story.tick(finding())
    for _ in range(4):
        story.tick()
    # The 24-hour horizon still holds the failures of noon.
    assert story.tick(finding(horizon=48 * TICK)) == []
    assert story.incidents[0].state is State.RESOLVED
    assert len(story.incidents) == 1


def test_failures_that_begin_after_the_end_reopen_the_incident() -> None:
    story = Story()
    story.tick(finding())
    for _ in range(4):
        story.tick()
    (over,) = story.incidents
    assert over.state is State.RESOLVED
    assert story.tick(finding(began=story.at)) == [("regressed", "airline=AC")]
    (again,) = story.incidents
    assert (again.id, again.state, again.resolved_at) == (over.id, State.OPEN, None)
    assert again.worsened_at[-1] == again.updated_at, "a label of that time finds it"
    assert story.tick(finding()) == []


def test_what_began_between_the_last_sight_and_the_end_reopens_it_too() -> None:
    """It was swallowed for a day: too old for a new incident, and the old one was over."""
    story = Story()
    story.tick(finding())
    seen = story.at - TICK
    for _ in range(4):
        story.tick()
    assert story.tick(finding(began=seen)) == [("regressed", "airline=AC")]
    assert len(story.incidents) == 1


def test_a_resolved_incident_is_forgotten_with_its_rows() -> None:
    story = Story()
    story.tick(finding())
    for _ in range(4 + 47):
        story.tick()
    assert len(story.incidents) == 1
    story.tick()
    assert story.incidents == ()


def test_an_acknowledged_incident_goes_on_and_ends() -> None:
    story = Story()
    story.tick(finding())
    story.incidents = (replace(story.incidents[0], state=State.ACKNOWLEDGED),)
    assert story.tick(finding()) == []
    assert story.incidents[0].state is State.ACKNOWLEDGED
    assert [story.tick() for _ in range(4)][-1] == [("resolved", "airline=AC")]


def test_the_identity_hangs_on_what_failed_why_and_when_only() -> None:
    same = identity(finding(score=1.0, observed=7, path=("x", "pay")), NOON)
    assert same == identity(finding(), NOON)
    others = [
        identity(finding(), NOON + TICK),
        identity(finding(AC_BKK), NOON),
        identity(finding(outcome="seat"), NOON),
        identity(finding(method=Method.PAPER), NOON),
    ]
    assert len({same, *others}) == 5
    assert len(same) == 12


def test_identity_does_not_depend_on_the_order_of_findings() -> None:
    one, two = Story(), Story()
    findings = [finding(), finding(Cause.of(office="SEL"), score=30.0), finding(outcome="seat")]
    one.tick(*findings)
    two.tick(*reversed(findings))
    assert {i.id for i in one.incidents} == {i.id for i in two.incidents}


def test_news_say_when_and_carry_the_incident_as_it_now_is() -> None:
    story = Story()
    (opened,) = story.news(finding())
    assert opened.change is Change.OPENED
    assert opened.at == NOON
    assert opened.incident == story.incidents[0]


# One outage, one story


LH = Cause.of(carrier="LH")
LH_GDS = Cause.of(carrier="LH", source="GDS-1A")


def test_outcomes_that_fail_of_one_cause_are_one_story() -> None:
    story = Story()
    first, second, other = story.news(
        finding(LH_GDS, outcome="hold", score=30.0),
        finding(LH, outcome="server_error", score=20.0),
        finding(AC, outcome="server_error", score=10.0),
    )
    assert first.incident.story == second.incident.story == first.incident.id
    assert other.incident.story == other.incident.id
    story.news(finding(LH_GDS, outcome="hold"), finding(LH, outcome="server_error"))
    (third,) = story.news(
        finding(LH_GDS, outcome="hold"),
        finding(LH, outcome="server_error"),
        finding(LH_GDS, outcome="pay", began=story.at - TICK),
    )
    assert third.incident.story == first.incident.id, "a story keeps its id"


def test_everything_is_a_story_of_its_own() -> None:
    story = Story()
    whole, part, also = story.news(
        finding(Cause.of(), outcome="hold", score=30.0),
        finding(LH, outcome="pay", score=20.0),
        finding(Cause.of(), outcome="server_error", score=10.0),
    )
    assert (whole.incident.story, part.incident.story) == (whole.incident.id, part.incident.id)
    assert also.incident.story == whole.incident.id


def test_the_same_cause_on_another_day_is_another_story() -> None:
    story = Story()
    story.tick(finding(LH, outcome="hold"))
    for _ in range(6):
        story.tick()
    (later,) = story.news(finding(LH, outcome="pay", began=story.at - TICK))
    assert later.incident.story == later.incident.id


def test_the_end_is_told_when_the_whole_story_is_over() -> None:
    story = Story()
    hold, pay = finding(LH, outcome="hold", score=30.0), finding(LH, outcome="pay", score=20.0)
    story.tick(hold, pay)
    for _ in range(60):  # more than the memory
        assert story.tick(hold) == []
    ended = next(i for i in story.incidents if i.finding.outcome == "pay")
    assert (ended.state, ended.story_goes_on) == (State.RESOLVED, True)
    for _ in range(3):
        assert story.tick() == []
    over = story.news()
    assert {(n.incident.finding.outcome, n.change) for n in over} == {
        ("hold", Change.RESOLVED),
        ("pay", Change.RESOLVED),
    }
    assert not any(i.story_goes_on for i in story.incidents)
    assert story.news() == ()


def test_what_comes_back_while_its_story_goes_on_is_no_news() -> None:
    story = Story()
    hold, pay = finding(LH, outcome="hold", score=30.0), finding(LH, outcome="pay", score=20.0)
    story.tick(hold, pay)
    for _ in range(5):
        story.tick(hold)
    assert story.tick(hold, replace(pay, began=story.at - TICK)) == []
    assert all(i.state is State.OPEN and not i.story_goes_on for i in story.incidents)
