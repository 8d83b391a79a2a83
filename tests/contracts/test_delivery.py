"""What is told, to whom, and in how many messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from monitor.config import Route
from monitor.domain import Cause, Change, Incident, Notification, Severity, State
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import DeliveryError
from monitor.edge.notifiers.bundling import RECHECK
from monitor.edge.notifiers.message import MOST_PARTS, headline, together_headline, together_text
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.notifiers.webhook import WebhookNotifier
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from monitor.matching import Matcher, MatcherError
from tests.contracts.receivers import (
    FINDING,
    HALF_HOUR,
    INCIDENT,
    NOON,
    OPENED,
    Clock,
    Told,
    mailbox,
    receiver,
)
from tests.contracts.test_notifiers import by_mail


@dataclass
class Person(Told):
    """Wants one message, and only how things stand."""

    states_only: bool = False
    bundles: list[tuple[Notification, ...]] = field(default_factory=list)

    def send(self, notification: Notification) -> None:
        super().send(notification)
        self.bundles.append((notification,))

    def send_together(self, notifications: Sequence[Notification]) -> None:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.seen += notifications
        self.bundles.append(tuple(notifications))


class Watch:
    """A store, an outbox with one notifier, and a clock."""

    def __init__(
        self,
        notifier: Told,
        route: Route,
        quiet: Callable[[Incident, datetime], tuple[str, datetime] | None] = lambda i, at: None,
    ) -> None:
        self.notifier, self.clock, self.store = notifier, Clock(), MemoryStore()
        self.metrics = Metrics()
        self.outbox = Outbox(
            self.store,
            [notifier],
            self.metrics,
            self.clock,
            routes={notifier.name: route},
            quiet=quiet,
        )

    def tick(self, *news: Notification) -> None:
        """A tick's work, delivered."""
        self.clock.now = max(self.clock.now, *(n.at for n in news))
        self.store.commit(
            Work(
                incidents=tuple({n.incident.id: n.incident for n in news}.values()),
                notifications=news,
                notifiers=(self.notifier.name,),
            )
        )
        self.outbox.deliver()

    def fates(self) -> dict[str, int]:
        return {count.status: count.count for count in self.store.outbox()}


def changed(
    change: Change,
    at: datetime = NOON,
    *,
    id: str = "a1b2",
    cause: Cause | None = None,
    severity: Severity = Severity.WARNING,
    outcome: str = "reserve",
) -> Notification:
    found = replace(FINDING, cause=cause or FINDING.cause, outcome=outcome)
    over = change in (Change.RESOLVED, Change.MERGED)
    incident = replace(
        INCIDENT,
        id=id,
        finding=found,
        latest=found,
        severity=severity,
        state=State.RESOLVED if over else State.OPEN,
        resolved_at=at if over else None,
        updated_at=at,
    )
    return Notification(incident, change, at)


def storm(
    count: int = 40, change: Change = Change.OPENED, at: datetime = NOON
) -> list[Notification]:
    return [
        changed(change, at, id=f"d{i:02}", cause=Cause.of(destination=f"D{i:02}"))
        for i in range(count)
    ]


# Matchers


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        ("outcome=pay", False),
        ("outcome=reserve", True),
        ("airline=AC", True),
        ('airline="AC"', True),
        ("airline=MU", False),
        ("airline!=MU", True),
        ("airline!=AC", False),
        ("airline=~A.*", True),
        ("airline=~A", False),
        ("airline!~B|C", True),
        ("office=BKK", False),
        ("office!=BKK", True),
        ("severity=warning", True),
        ("incident=a1b2", True),
        ("method=excess", True),
    ],
)
def test_a_matcher_holds_for_causes_that_lie_within_it(matcher: str, holds: bool) -> None:
    assert Matcher.parse(matcher).holds(changed(Change.OPENED).incident) is holds


def test_a_cause_that_reaches_beyond_a_matcher_is_not_matched() -> None:
    both = changed(Change.OPENED, cause=Cause.of(airline=["AC", "MU"])).incident
    assert not Matcher.parse("airline=AC").holds(both)
    assert Matcher.parse("airline=~AC|MU").holds(both)
    assert not Matcher.parse("airline!=MU").holds(both)


@pytest.mark.parametrize("text", ["", "airline", "=AC", "a b=c", "airline=~(", "x" * 501])
def test_what_is_no_matcher_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(MatcherError, match=r"no matcher; write|no regular expression"):
        Matcher.parse(text)


# Filters


def test_a_pager_hears_of_an_incident_when_it_becomes_critical_and_of_its_end() -> None:
    watch = Watch(Told(), Route(severity=Severity.CRITICAL))
    watch.tick(changed(Change.OPENED, severity=Severity.WARNING))
    assert watch.notifier.seen == []
    worse = changed(Change.WORSENED, NOON + HALF_HOUR, severity=Severity.CRITICAL)
    watch.tick(worse)
    watch.tick(changed(Change.RESOLVED, NOON + 2 * HALF_HOUR, severity=Severity.CRITICAL))
    # The first that it hears is "opened".
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED, Change.RESOLVED]
    assert watch.fates() == {"sent": 2, "skipped": 1}


def test_nobody_hears_of_the_end_of_what_they_never_heard_of() -> None:
    for route in (
        Route(severity=Severity.CRITICAL),
        Route(matchers=(Matcher.parse("outcome=pay"),)),
        Route(matchers=(Matcher.parse("airline!=AC"),)),
    ):
        watch = Watch(Told(), route)
        watch.tick(changed(Change.OPENED))
        watch.tick(changed(Change.RESOLVED, NOON + HALF_HOUR))
        assert watch.notifier.seen == []


def test_only_the_changes_asked_for_are_told() -> None:
    watch = Watch(Told(), Route(changes=frozenset({Change.OPENED, Change.RESOLVED})))
    for i, change in enumerate((Change.OPENED, Change.REFINED, Change.WORSENED, Change.RESOLVED)):
        watch.tick(changed(change, NOON + i * HALF_HOUR))
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED, Change.RESOLVED]


def test_an_incident_that_no_longer_matches_still_ends_where_it_was_told() -> None:
    watch = Watch(Told(), Route(matchers=(Matcher.parse("airline=AC"),)))
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.RESOLVED, NOON + HALF_HOUR, cause=Cause.of(airline="MU")))
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED, Change.RESOLVED]


# Grouping and limits


def test_a_storm_that_hits_forty_destinations_is_one_message() -> None:
    watch = Watch(Person(), Route(group_by="outcome"))
    watch.tick(*storm())
    (bundle,) = watch.notifier.bundles
    assert len(bundle) == 40
    assert together_headline(bundle) == (
        "reserve is failing: 40 causes, destination D00, D01, D02 and 37 more"
    )
    text = together_text(bundle, lambda incident: f"http://console/incidents/{incident.id}")
    assert "http://console/incidents/d00" in text
    assert f"and {40 - MOST_PARTS} more" in text
    watch.tick(*storm(change=Change.RESOLVED, at=NOON + HALF_HOUR))
    assert [len(bundle) for bundle in watch.notifier.bundles] == [40, 40]
    assert watch.fates() == {"sent": 80}


def test_a_storm_in_the_mail_is_one_mail_with_its_parts() -> None:
    with mailbox() as box:
        notifier = by_mail(box)
        watch = Watch(notifier, Route(group_by="outcome"))  # type: ignore[arg-type]
        watch.tick(*storm())
    (mail,) = box.mails
    assert mail["Subject"].startswith("reserve is failing: 40 causes, destination D00")
    html = mail.get_body(("html",)).get_content()
    assert html.count("<li>") == MOST_PARTS
    assert "http://console/incidents/d00" in html
    assert f"and {40 - MOST_PARTS} more" in mail.get_body(("plain",)).get_content()


def test_outcomes_and_ticks_make_messages_of_their_own_unless_the_tick_is_asked_for() -> None:
    news = [*storm(3), changed(Change.OPENED, id="p", outcome="pay")]
    by_outcome, by_tick = (
        Watch(Person(), Route(group_by="outcome")),
        Watch(Person(), Route(group_by="tick")),
    )
    for watch in (by_outcome, by_tick):
        watch.tick(*news)
    assert [len(b) for b in by_outcome.notifier.bundles] == [3, 1]
    assert [len(b) for b in by_tick.notifier.bundles] == [4]
    assert together_headline(by_tick.notifier.bundles[0]) == "2 outcomes are failing: 4 causes"


# One outage, one story

LH, LH_GDS = Cause.of(carrier="LH"), Cause.of(carrier="LH", source="GDS-1A")


def symptoms(change: Change = Change.OPENED, at: datetime = NOON) -> list[Notification]:
    first = changed(change, at, id="a1", outcome="hold", cause=LH)
    second = changed(change, at, id="b2", outcome="server_error", cause=LH_GDS)
    return [first, replace(second, incident=replace(second.incident, part_of="a1"))]


@pytest.mark.parametrize("group_by", ["story", "outcome", "tick"])
def test_an_outage_of_several_outcomes_is_one_message(group_by: Any) -> None:
    watch = Watch(Person(), Route(group_by=group_by))
    watch.tick(*symptoms())
    watch.tick(*symptoms(Change.RESOLVED, NOON + HALF_HOUR))
    assert [together_headline(bundle) for bundle in watch.notifier.bundles] == [
        "hold and server_error are failing: carrier LH",
        "hold and server_error work again: carrier LH",
    ]


def test_what_joins_a_story_is_told_as_a_part_of_it() -> None:
    first, second = symptoms()
    third = changed(Change.OPENED, NOON + HALF_HOUR, id="c3", outcome="pay", cause=LH)
    third = replace(
        third,
        incident=replace(third.incident, part_of="a1"),
        context=(("symptoms", "hold, server_error and pay"),),
    )
    with mailbox() as box:
        watch = Watch(by_mail(box), Route(group_by="outcome"))  # type: ignore[arg-type]
        watch.tick(first, second)
        watch.tick(third)
    told, more = box.mails
    assert told["Subject"] == "hold and server_error are failing: carrier LH"
    assert more["Subject"] == "pay is failing, too: carrier LH"
    assert more["In-Reply-To"] == told["Message-ID"] == "<a1@example.com>"
    assert "symptoms  hold, server_error and pay" in more.get_body(("plain",)).get_content()


def test_programs_know_the_story() -> None:
    first, second = symptoms()
    with receiver() as hook:
        watch = Watch(WebhookNotifier(hook.url), Route(group_by="story"))  # type: ignore[arg-type]
        watch.tick(first, second, changed(Change.OPENED, id="d4"))
    one, other = (json.loads(body) for _, body in hook.requests)
    assert (one["story"], [part["story"] for part in one["parts"]]) == ("a1", ["a1"])
    assert (other["story"], "parts" in other) == ("d4", False)


def test_what_returns_is_told_as_such_to_those_who_want_what_opens() -> None:
    watch = Watch(Told(), Route(changes=frozenset({Change.OPENED})))
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.REGRESSED, NOON + HALF_HOUR))
    assert [headline(n) for n in watch.notifier.seen] == [
        "reserve is failing: airline AC",
        "reserve is failing again: airline AC",
    ]


def test_a_program_gets_every_change_by_itself() -> None:
    watch = Watch(Told(), Route(group_by="outcome"))
    watch.tick(*storm(5))
    assert len(watch.notifier.seen) == 5


def test_a_bundle_that_fails_is_tried_again_whole() -> None:
    watch = Watch(Person(failures=[DeliveryError("away")]), Route(group_by="outcome"))
    watch.tick(*storm(3))
    assert watch.notifier.bundles == []
    watch.clock.now += timedelta(seconds=5)
    assert watch.outbox.deliver() == 3
    assert [len(b) for b in watch.notifier.bundles] == [3]


def test_what_exceeds_the_limit_waits_and_comes_as_one_message() -> None:
    watch = Watch(Person(), Route(group_by="none", most_per_hour=3))
    watch.tick(*storm(10))
    assert [len(b) for b in watch.notifier.bundles] == [1, 1, 8]
    watch.tick(*storm(4, Change.WORSENED, NOON + timedelta(minutes=10)))
    watch.tick(*storm(4, Change.RESOLVED, NOON + timedelta(minutes=20)))
    assert len(watch.notifier.bundles) == 3
    watch.clock.now = NOON + timedelta(minutes=59)
    watch.outbox.deliver()
    assert len(watch.notifier.bundles) == 3
    watch.clock.now = NOON + timedelta(hours=1)
    watch.outbox.deliver()
    assert [len(b) for b in watch.notifier.bundles[3:]] == [1, 1, 2]
    assert {n.change for b in watch.notifier.bundles[3:] for n in b} == {Change.RESOLVED}


def test_the_worst_is_not_hidden_by_the_limit() -> None:
    watch = Watch(Person(), Route(group_by="none", most_per_hour=2))
    watch.tick(*storm(9), changed(Change.OPENED, id="bad", severity=Severity.CRITICAL))
    assert [b[0].incident.id for b in watch.notifier.bundles] == ["bad", "d00"]


def test_the_limit_of_a_notifier_without_bundles_lets_the_rest_wait() -> None:
    watch = Watch(Told(), Route(most_per_hour=2))
    watch.tick(*storm(3))
    assert len(watch.notifier.seen) == 2
    watch.clock.now += timedelta(hours=1)
    watch.outbox.deliver()
    assert len(watch.notifier.seen) == 3


# A receiver that was away


def test_people_hear_how_things_stand_not_what_they_missed() -> None:
    watch = Watch(Person(failures=[DeliveryError("away")]), Route())
    watch.tick(changed(Change.OPENED))
    for i, change in enumerate((Change.REFINED, Change.WORSENED), 1):
        watch.tick(changed(change, NOON + i * timedelta(seconds=1)))
    watch.clock.now += timedelta(hours=1)
    watch.outbox.deliver()
    (only,) = watch.notifier.seen
    assert (only.change, only.at) == (Change.OPENED, NOON + timedelta(seconds=2))
    assert watch.fates() == {"sent": 3}


def test_what_began_and_ended_meanwhile_does_not_ring_where_only_states_count() -> None:
    watch = Watch(Person(failures=[DeliveryError("away")], states_only=True), Route())
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.RESOLVED, NOON + timedelta(seconds=2)))
    watch.clock.now += timedelta(hours=1)
    watch.outbox.deliver()
    assert watch.notifier.seen == []
    assert watch.fates() == {"skipped": 2}


def test_people_are_told_of_what_began_and_ended_meanwhile_once() -> None:
    watch = Watch(Person(failures=[DeliveryError("away")]), Route())
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.RESOLVED, NOON + timedelta(seconds=2)))
    watch.clock.now += timedelta(hours=1)
    watch.outbox.deliver()
    assert [n.change for n in watch.notifier.seen] == [Change.RESOLVED]


# Silences, as the outbox sees them


def test_what_was_over_before_the_log_was_caught_up_with_is_no_news() -> None:
    watch = Watch(Told(), Route())
    watch.clock.now = NOON + 20 * HALF_HOUR
    watch.outbox.pace.falls_behind(watch.clock.now)
    watch.tick(changed(Change.OPENED), changed(Change.OPENED, id="c3d4"))
    watch.tick(changed(Change.WORSENED, NOON + HALF_HOUR, id="c3d4"))
    watch.tick(changed(Change.RESOLVED, NOON + 2 * HALF_HOUR))
    assert watch.notifier.seen == [], "nobody knows yet what of it still holds"
    watch.outbox.pace.catches_up(watch.clock.now)
    watch.outbox.deliver()
    (news,) = watch.notifier.seen
    assert (news.incident.id, news.change) == ("c3d4", Change.OPENED)
    # What happens from now on is told change by change.
    for i, change in enumerate((Change.WORSENED, Change.RESOLVED)):
        watch.tick(changed(change, NOON + (21 + i) * HALF_HOUR, id="c3d4"))
    assert [n.change for n in watch.notifier.seen[1:]] == [Change.WORSENED, Change.RESOLVED]


def test_a_log_that_is_never_caught_up_with_is_told_of_late() -> None:
    watch = Watch(Told(), Route())
    watch.outbox.pace.falls_behind(watch.clock.now)
    watch.tick(changed(Change.OPENED))
    assert watch.notifier.seen == []
    watch.clock.now += timedelta(hours=1)
    watch.outbox.deliver()
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED]


def test_a_silenced_incident_is_told_when_the_silence_ends_and_it_still_burns() -> None:
    until = NOON + timedelta(hours=2)

    def quiet(incident: Incident, now: datetime) -> tuple[str, datetime] | None:
        return ("silence 7 by lead", until) if now < until else None

    watch = Watch(Told(), Route(), quiet)
    watch.tick(OPENED)
    assert watch.notifier.seen == []
    assert [i.error for i in watch.store.due(until)] == ["silenced: silence 7 by lead"]
    assert watch.fates() == {"held": 1}, "no receiver is out of reach"
    while watch.clock.now < until:
        watch.outbox.deliver()
        assert watch.notifier.seen == []
        watch.clock.now += RECHECK
    watch.outbox.deliver()
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED]


def test_what_is_over_before_its_silence_is_never_told() -> None:
    until = NOON + timedelta(hours=2)
    watch = Watch(Told(), Route(), lambda i, now: ("window", until) if now < until else None)
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.RESOLVED, NOON + timedelta(minutes=30)))
    watch.clock.now = until
    watch.outbox.deliver()
    assert watch.notifier.seen == []
    assert watch.fates() == {"skipped": 2}


def test_over_just_before_the_silence_ends_is_not_told_either() -> None:
    until = NOON + timedelta(minutes=1)
    watch = Watch(Told(), Route(), lambda i, now: ("window", until) if now < until else None)
    watch.tick(changed(Change.OPENED))
    watch.store.commit(
        Work(
            incidents=(changed(Change.RESOLVED, until).incident,),
            notifications=(changed(Change.RESOLVED, until),),
            notifiers=("told",),
        )
    )
    watch.clock.now = until
    watch.outbox.deliver()
    assert watch.notifier.seen == []


def test_an_end_gets_through_a_silence_to_whoever_knows_of_the_beginning() -> None:
    silent_from = NOON + timedelta(minutes=10)
    watch = Watch(
        Told(),
        Route(),
        lambda i, now: ("silence", NOON + timedelta(days=1)) if now >= silent_from else None,
    )
    watch.tick(changed(Change.OPENED))
    watch.tick(changed(Change.WORSENED, NOON + HALF_HOUR))
    watch.tick(changed(Change.RESOLVED, NOON + 2 * HALF_HOUR))
    assert [n.change for n in watch.notifier.seen] == [Change.OPENED, Change.RESOLVED]


# Clocks


def test_a_clock_set_back_an_hour_tells_nothing_twice() -> None:
    watch = Watch(Told(), Route(most_per_hour=5))
    watch.tick(changed(Change.OPENED))
    watch.clock.now -= timedelta(hours=1)
    assert watch.outbox.deliver() == 0
    watch.store.commit(Work(notifications=(changed(Change.OPENED),), notifiers=("told",)))
    assert watch.outbox.deliver() == 0, "the tick was computed again"
    assert len(watch.notifier.seen) == 1
