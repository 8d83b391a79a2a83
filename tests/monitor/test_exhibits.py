"""What the pages of an incident show is gathered while it happens, and stays within bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.domain import Cause, Edge, Incident, State, utc
from monitor.edge.exhibit_documents import exhibit_document, exhibit_from
from monitor.edge.store import Store, StoreError, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.exhibits import MOST_EXAMPLES, MOST_NODES, Exhibition, Link, neighbourhood, point
from monitor.naming import Naming
from monitor.session import Session
from tests.monitor.towns import (
    HALF_HOUR,
    MIDNIGHT,
    SCHEMA,
    SETTINGS,
    Outage,
    Town,
    coded,
    start_of,
)
from tests.samples import finding

pytestmark = pytest.mark.usefixtures("no_learner")

TOWN = Town((Outage(60, 66, cause={"airline": "AC"}),), rows=150)


def session(store: Store, columns: tuple[str, ...] = ()) -> Session:
    begun = Session(SETTINGS, store, example_columns=columns)
    for a, attribute in enumerate(SCHEMA.attributes):
        if begun.vocabulary.size(a) == 1:
            begun.vocabulary.encode(a, TOWN.vocabulary().to_json()[attribute.name])
    return begun


def run(one: Session, first: int, last: int, every: int = 1) -> None:
    for number in range(first, last):
        one.tick(TOWN.slice(number))
        if number % every == 0:
            one.commit()
    one.commit()


def the_outage(store: Store) -> Incident:
    (only,) = [i for i in store.incidents() if i.finding.cause == Cause.of(airline="AC")]
    return only


def counted(number: int) -> tuple[int, int]:
    """Rows of AC in a slice, and how many of them could not pay."""
    piece = TOWN.slice(number)
    hit = piece.values[:, list(SCHEMA.names).index("airline")] == 1
    failed = hit & piece.failed[:, 1]
    return int(piece.weight[hit].sum()), int(piece.weight[failed].sum())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_course_runs_from_the_day_before_until_it_is_over(tmp_path: Path, kind: str) -> None:
    store = open_store("memory:" if kind == "memory" else str(tmp_path / "monitor.db"))
    # Slices of T′ come out of the store, and out of what is not yet written.
    run(session(store), 0, 110, every=7)
    found = the_outage(store)
    assert found.state is State.RESOLVED
    course = store.course(found.id)
    opened = round((found.opened_at - MIDNIGHT) / HALF_HOUR)
    closed = round((found.resolved_at - MIDNIGHT) / HALF_HOUR)
    first = max(0, opened - 96)
    assert [p.start for p in course] == [utc(start_of(n)) for n in range(first, closed)]
    assert [(p.rows, p.observed) for p in course] == [counted(n) for n in range(first, closed)]
    # Rows are judged as they were on arrival: half of a hundredth is expected, half fail.
    worst = [p for p in course if 60 <= round((p.start - MIDNIGHT) / HALF_HOUR) <= 66]
    assert all(p.observed > 4 * p.expected > 0 for p in worst)
    store.close()


def test_every_outcome_has_its_course_too() -> None:
    store = MemoryStore()
    run(session(store), 0, 60)
    totals = store.totals(MIDNIGHT + 50 * HALF_HOUR)
    assert set(totals) == {"seat", "pay"}
    piece = TOWN.slice(55)
    (then,) = [p for p in totals["pay"] if p.start == utc(start_of(55))]
    assert (then.rows, then.observed) == (150, int(piece.weight[piece.failed[:, 1]].sum()))
    assert len(totals["pay"]) == 10


def test_a_restart_in_the_middle_leaves_no_trace(tmp_path: Path) -> None:
    whole, broken = open_store("memory:"), open_store(str(tmp_path / "monitor.db"))
    run(session(whole, ("office",)), 0, 90)
    run(session(broken, ("office",)), 0, 64)
    run(session(broken, ("office",)), 64, 90)
    mine, theirs = the_outage(whole), the_outage(broken)
    assert whole.course(mine.id) == broken.course(theirs.id)
    assert whole.exhibit(mine.id) == broken.exhibit(theirs.id)
    assert whole.totals(MIDNIGHT) == broken.totals(MIDNIGHT)
    broken.close()


def test_late_rows_change_the_course() -> None:
    store = MemoryStore()
    one = session(store)
    run(one, 0, 63)
    found = the_outage(store)
    before = {p.start: p for p in store.course(found.id)}
    at = utc(start_of(61))
    assert one.fold(TOWN.slice(61))  # the same rows once more
    one.tick(TOWN.slice(63))
    one.commit()
    after = {p.start: p for p in store.course(found.id)}
    assert after[at].rows == 2 * before[at].rows
    assert after[at].observed == 2 * before[at].observed


def test_a_store_that_fails_costs_the_picture_not_the_tick() -> None:
    class Away(MemoryStore):
        def slices(self, *_: object) -> dict:
            raise StoreError("away")

    store = Away()
    run(session(store), 0, 70)
    found = the_outage(store)
    assert store.course(found.id)[0].start >= found.opened_at - timedelta(hours=24)


def test_examples_show_the_configured_columns_and_no_other() -> None:
    silent, open_ = MemoryStore(), MemoryStore()
    run(session(silent), 0, 66)
    exhibit = silent.exhibit(the_outage(silent).id)
    assert exhibit is not None
    assert (exhibit.columns, exhibit.examples) == ((), ())
    run(session(open_, ("fare", "office", "nonsense")), 0, 66)
    exhibit = open_.exhibit(the_outage(open_).id)
    assert exhibit is not None
    assert exhibit.columns == ("fare", "office")
    assert 1 < len(exhibit.examples) <= MOST_EXAMPLES
    assert {len(e.values) for e in exhibit.examples} == {2}
    assert exhibit.examples[0].values[0] == "F3"  # through which AC sells most
    counts = [e.rows for e in exhibit.examples]
    assert counts == sorted(counts, reverse=True)
    assert exhibit_from(exhibit_document(exhibit)) == exhibit


# The graph


def gathered(graphs: list[list[Edge]], columns: tuple[str, ...] = ()) -> list:
    """What a train of graphs leaves of one incident, tick by tick."""
    from monitor.encoding import Nodes

    nodes = Nodes(len(SCHEMA.attributes), SETTINGS.window)
    naming = Naming(SCHEMA, TOWN.vocabulary(), nodes)
    window = coded(TOWN.slices(62), nodes)
    exhibition = Exhibition(SETTINGS, columns)
    out = []
    for number, edges in enumerate(graphs):
        until = 60 + number
        at = MIDNIGHT + until * HALF_HOUR
        found = finding(outcome="pay", path=("airline=AC", "fare=F3", "pay"))
        one = Incident("a1", State.OPEN, at, at, at, found, found, causes=(found.cause,))
        material = exhibition.gather(
            naming, window[:until][-48:], window[until - 1 : until], [one], edges, lambda *_: []
        )
        out.append(material.exhibits["a1"])
    return out


AC_F3, F3_PAY = Edge("airline=AC", "fare=F3", 0.6), Edge("fare=F3", "pay", 0.3)
FAR = Edge("office=GIG", "airline=LH", 0.9)


def test_an_edge_that_appeared_is_told_with_its_hour_and_a_lost_one_too() -> None:
    first, second, third = gathered([[AC_F3, FAR], [AC_F3, F3_PAY, FAR], [F3_PAY]])
    assert first.links == (Link("airline=AC", "fare=F3", 0.6, None),)  # who knows since when
    assert (first.came, first.went) == ((), ())
    assert second.came == (Link("fare=F3", "pay", 0.3, MIDNIGHT + 61 * HALF_HOUR),)
    (gone,) = third.went  # the far one is nobody's business here
    assert (gone.source, gone.target, gone.weight) == ("airline=AC", "fare=F3", 0.6)
    assert gone.at == MIDNIGHT + 62 * HALF_HOUR


def test_an_edge_that_comes_back_is_not_lost() -> None:
    *_, last = gathered([[AC_F3], [], [AC_F3]])
    assert last.went == ()
    assert last.came[0].since == MIDNIGHT + 62 * HALF_HOUR


def test_the_picture_holds_what_lies_between_and_is_bounded() -> None:
    aside = [Edge("airline=AC", "fare=F9", 0.5), Edge("seat", "office=GIG", 0.5)]
    edges = [AC_F3, F3_PAY, *aside]
    assert neighbourhood({"airline=AC"}, ("airline=AC", "pay"), edges) == {
        "airline=AC",
        "fare=F3",
        "pay",
    }
    crowd = [
        e for n in range(99) for e in (Edge("a=1", f"b={n}", 1), Edge(f"b={n}", "pay", n / 99))
    ]
    nodes = neighbourhood({"a=1"}, ("a=1", "pay"), crowd)
    assert len(nodes) == MOST_NODES
    assert "b=98" in nodes  # the strongest stay
    many = {f"c={n}" for n in range(99)}
    assert len(neighbourhood(many, ("c=1", "pay"), crowd)) == MOST_NODES
    assert neighbourhood(set(), (), crowd) == set()


def test_rare_values_are_rows_of_other() -> None:
    from monitor.encoding import Nodes
    from monitor.exhibits import _asked

    nodes = Nodes(len(SCHEMA.attributes), replace(SETTINGS.window, min_count=10_000))
    (piece,) = coded(TOWN.slices(1), nodes)
    naming = Naming(SCHEMA, TOWN.vocabulary(), nodes)
    assert point(piece, _asked(Cause.of(airline="(other)"), naming), 1).rows == 150
    assert point(piece, _asked(Cause.of(airline=["AC", "MU"]), naming), 1).rows < 150
