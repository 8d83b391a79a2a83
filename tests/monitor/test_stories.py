"""One outage, one story: what is told beside its cause, and what its page shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from monitor.domain import Cause, Change, Incident, Notification, State, utc
from monitor.edge.context import seen_before
from monitor.edge.exhibit_documents import exhibit_document, exhibit_from
from monitor.edge.http import make_app
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.message import plain_text
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Verdict, Work
from monitor.edge.store.memory import MemoryStore
from monitor.session import Session
from monitor.slices import Slice
from tests.monitor.towns import SCHEMA, SETTINGS, Outage, Town, start_of
from tests.samples import finding
from tests.services.light import without_least

AC = {"airline": "AC"}
TOWN = Town((Outage(60, 66, cause=AC), Outage(60, 66, cause=AC, outcome="seat")), rows=150)
OFFICE, NEW = list(SCHEMA.names).index("office"), 7
BEGAN = utc(start_of(60))


def past(name: str, days: int) -> Incident:
    """Of the same cause, over long ago."""
    at = BEGAN - timedelta(days=days)
    found = replace(finding(outcome="pay"), cause=Cause.of(**AC))
    return Incident(
        name, State.RESOLVED, at, at, at, found, found, resolved_at=at, causes=(found.cause,)
    )


def slice_with_a_new_office(number: int) -> Slice:
    """It opens an hour before the outage."""
    piece = TOWN.slice(number)
    if number < 58:
        return piece
    values = piece.values.copy()
    values[::3, OFFICE] = NEW
    return replace(piece, values=values)


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[MemoryStore, list[Notification]]]:
    """The outage through a session that knows the past, and what was told; one run for all."""
    with without_least():
        store = MemoryStore()
        store.commit(Work(incidents=(past("b1", 14), past("b2", 1))))
        store.label("b1", Verdict.TRUE, BEGAN, "ann", "the card terminal of AC")
        one = Session(SETTINGS, store, ("log",))
        for a, attribute in enumerate(SCHEMA.attributes):
            one.vocabulary.encode(a, TOWN.vocabulary().to_json()[attribute.name])
        one.vocabulary.encode(OFFICE, ["NEW"])
        for number in range(75):
            one.tick(slice_with_a_new_office(number))
            one.commit({})
        yield store, [item.notification for item in store.due(BEGAN)]


def test_both_symptoms_are_told_once_with_what_is_known(
    told: tuple[MemoryStore, list[Notification]],
) -> None:
    _, news = told
    opened = {n.incident.finding.outcome: n for n in news if n.change is Change.OPENED}
    assert set(opened) == {"seat", "pay"}
    assert len({n.incident.story for n in opened.values()}) == 1
    context = dict(opened["pay"].context)
    assert context["seen before"].startswith("third time in 14 days, last 24 h ago")
    assert context["seen before"].endswith("judged a true incident, note: the card terminal of AC")
    assert context["just before"] == "new values: office=NEW"
    assert "seen before" not in dict(opened["seat"].context)
    assert "just before" in plain_text(opened["pay"])
    ends = [n for n in news if n.change is Change.RESOLVED]
    assert len(ends) == 2
    assert len({n.at for n in ends}) == 1, "one message"


def test_its_page_shows_the_other_symptoms_the_past_and_what_was_new(
    told: tuple[MemoryStore, list[Notification]],
) -> None:
    store, news = told
    opened = {n.incident.finding.outcome: n.incident for n in news if n.change is Change.OPENED}
    app = make_app(LiveState(store, Metrics(), Status(stage="")))
    client = TestClient(app, base_url="http://localhost")
    page = client.get(f"/incidents/{opened['pay'].id}").text
    assert f'href="/incidents/{opened["seat"].id}"' in page
    assert "third time in 14 days" in page
    assert 'href="/incidents/b1"' in page
    assert "What was new just before" in page
    assert "NEW" in page
    story = opened["pay"].story
    found = client.get(f"/api/v1/incidents?story={story}").json()["incidents"]
    assert {i["id"] for i in found} == {i.id for i in opened.values()}
    assert {i["story"] for i in found} == {story}
    shown = client.get(f"/incidents?story={story}").text
    assert f"same outage as {story}" in shown
    assert "b1" not in shown


def test_an_exhibit_keeps_what_was_new(told: tuple[MemoryStore, list[Notification]]) -> None:
    store, news = told
    exhibit = store.exhibit(news[0].incident.id)
    assert exhibit is not None
    assert [value.node for value in exhibit.new_values] == ["office=NEW"]
    assert exhibit_from(exhibit_document(exhibit)) == exhibit
    old = exhibit_document(exhibit)
    del old["new_values"], old["new_links"]  # as an older release wrote it
    assert exhibit_from(old).new_values == ()


def test_what_an_outcome_did_of_another_cause_is_not_the_same() -> None:
    store, now = MemoryStore(), replace(past("c1", 0), opened_at=BEGAN)
    mu = replace(past("b1", 3), finding=replace(finding(), cause=Cause.of(airline="MU")))
    store.commit(Work(incidents=(mu,)))
    assert seen_before(store, now) is None
