"""A monitor and its store: killed at any instant, it goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from monitor.checkpoint import snapshot
from monitor.diagnosis import Tick
from monitor.domain import Method, Rejected, Settings, utc
from monitor.edge.blobs import slice_from_bytes
from monitor.edge.documents import diagnosis_document, dumps, incident_document
from monitor.edge.store import LATEST_DIAGNOSIS, Store, StoreError, Verdict, Work, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.learning import Learned
from monitor.session import Session
from tests.monitor.towns import SCHEMA, SETTINGS, STEP, Outage, Town, sliced, start_of

TOWN = Town((Outage(60, 66, cause={"airline": "AC"}),), rows=150)


class Chain:
    """A learner that costs nothing, and remembers: the graph depends on what it saw before."""

    def __init__(self, *_: object) -> None:
        self._seen = np.zeros(1)

    def learn(self, encoding) -> Learned:
        self._seen += encoding.rows
        weights = np.zeros((len(encoding.number), len(encoding.number)), np.float32)
        weights[-1, 0] = self._seen[0] % 97
        return Learned(weights, "converged", 1, 0.0)

    def recall(self, encoding) -> None:
        return None

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"seen": self._seen.copy()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._seen = arrays["seen"].copy()


@pytest.fixture(autouse=True)
def cheap_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.session.LeastLearner", Chain)


def session(
    store: Store, settings: Settings = SETTINGS, notifiers: tuple[str, ...] = ()
) -> Session:
    begun = Session(settings, store, notifiers)
    for a, attribute in enumerate(SCHEMA.attributes):
        if begun.vocabulary.size(a) == 1:
            begun.vocabulary.encode(a, TOWN.vocabulary().to_json()[attribute.name])
    return begun


def words(tick: Tick) -> bytes:
    return dumps(
        [
            diagnosis_document(replace(tick.diagnosis, seconds={})),
            [incident_document(i) for i in tick.incidents],
        ]
    )


def memory(one: Session) -> tuple[dict[str, bytes], bytes]:
    now = snapshot(one.monitor)
    arrays = {name: array.tobytes() for name, array in now.arrays.items()}
    return arrays, dumps([now.document, [incident_document(i) for i in now.incidents]])


def stored_rows(store: Store) -> int:
    """Rows in all stored slices."""
    return sum(slice_from_bytes(b).slice.rows for b in store.load().slices.values())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("committed", [0, 20, 63])
def test_a_killed_session_goes_on_from_its_last_commit(
    tmp_path: Path, kind: str, committed: int
) -> None:
    def fresh(name: str) -> Store:
        return open_store("memory:") if kind == "memory" else open_store(str(tmp_path / name))

    through_store = fresh("through.db")
    through = session(through_store)
    said = {}
    for number in range(75):
        said[number] = words(through.tick(TOWN.slice(number)))
    through.commit()

    store = fresh("killed.db")
    killed = session(store)
    killed.commit()
    for number in range(committed):
        killed.tick(TOWN.slice(number))
        if number % 7 == 0 or number == committed - 1:
            killed.commit()
    for number in range(committed, committed + 3):
        killed.tick(TOWN.slice(number))  # never committed: as if killed here
    again = session(store)
    assert again.last_slice == (start_of(committed - 1) if committed else None)
    for number in range(committed, 75):
        assert words(again.tick(TOWN.slice(number))) == said[number], number
    again.commit()
    assert memory(again) == memory(through)
    assert store.incidents() == through_store.incidents()
    assert store.load().slices == through_store.load().slices


def test_a_commit_that_fails_loses_nothing() -> None:
    class Full(MemoryStore):
        full = False

        def commit(self, work: Work) -> None:
            if self.full:
                raise StoreError("the disk is full")
            super().commit(work)

    store = Full()
    one, news = session(store, notifiers=("1-log",)), 0
    for number in range(64):
        store.full = 58 <= number < 63
        news += len(one.tick(TOWN.slice(number)).news)
        one.reject([Rejected("bad_time", f"log:{number}", "no time")])
        if store.full:
            with pytest.raises(StoreError):
                one.commit()
        else:
            one.commit()
    assert stored_rows(store) == 64 * 150
    assert store.rejected() == {"bad_time": 64}
    assert [str(i.finding.cause) for i in store.open_incidents()] == ["airline=AC"]
    assert news > 0
    assert [(c.notifier, c.status, c.count) for c in store.outbox()] == [("1-log", "pending", news)]


@pytest.mark.parametrize("ticks", [0, 2])
def test_a_store_of_other_slices_is_refused(ticks: int) -> None:
    """Another schema is not: see tests/contracts/test_changed_schema.py."""
    other = replace(SETTINGS, window=replace(SETTINGS.window, slice_length=timedelta(hours=1)))
    store = MemoryStore()
    one = session(store)
    for number in range(ticks):
        one.tick(TOWN.slice(number))
    one.commit({"row": 1})
    with pytest.raises(StoreError, match=r"slices are 0:30:00 long.*`window.slice_length`.*store"):
        Session(other, store)


def test_other_thresholds_go_on_with_the_same_store() -> None:
    store = MemoryStore()
    one = session(store)
    for number in range(30):
        one.tick(TOWN.slice(number))
    one.commit()
    stricter = replace(SETTINGS.detection, false_alarms_per_week=0.1, horizons=(1, 4))
    again = session(store, replace(SETTINGS, detection=stricter))
    assert not again.tick(TOWN.slice(30)).diagnosis.learning


def test_rows_that_came_before_the_first_tick_survive_a_kill() -> None:
    store = MemoryStore()
    one = session(store)
    filling = [TOWN.slice(0), TOWN.slice(1)]
    one.commit({"row": 300}, filling)
    again = session(store)
    assert again.resumed.position == {"row": 300}
    assert again.resumed.last_slice is None
    assert [p.start for p in again.resumed.filling] == [p.start for p in filling]
    for mine, its in zip(again.resumed.filling, filling, strict=True):
        np.testing.assert_array_equal(mine.values, its.values)
        np.testing.assert_array_equal(mine.failed, its.failed)
        np.testing.assert_array_equal(mine.weight, its.weight)


def test_slices_that_are_no_longer_filling_are_not_taken_in_again() -> None:
    store = MemoryStore()
    one = session(store)
    one.commit({"row": 300}, [TOWN.slice(0)])
    one.tick(TOWN.slice(0))
    one.commit({"row": 300}, [])
    assert session(store).resumed.filling == ()


def test_late_rows_are_stored_without_waiting_for_a_tick() -> None:
    store = MemoryStore()
    one = session(store)
    for number in range(30):
        one.tick(TOWN.slice(number))
    one.commit({"row": 1})
    whole = TOWN.events(29)
    assert one.fold(sliced(whole.take(np.arange(40)), 29))
    one.commit({"row": 2})
    again = session(store)
    assert stored_rows(store) == 30 * 150 + 40
    assert memory(again) == memory(one)
    assert words(again.tick(TOWN.slice(30))) == words(one.tick(TOWN.slice(30)))


def test_rows_too_late_for_every_window_are_refused() -> None:
    one = session(MemoryStore())
    for number in range(60):
        one.tick(TOWN.slice(number))
    assert not one.fold(TOWN.slice(3))
    assert one.fold(TOWN.slice(20))


def test_slices_older_than_the_history_and_both_windows_are_dropped() -> None:
    detection = replace(
        SETTINGS.detection, history=timedelta(hours=24), learning=timedelta(hours=6)
    )
    settings = replace(
        SETTINGS, window=replace(SETTINGS.window, length=timedelta(hours=8)),
        detection=replace(detection, horizons=(1, 16)),
    )  # fmt: skip
    store = MemoryStore()
    one = session(store, settings)
    for number in range(60):
        one.tick(TOWN.slice(number))
        one.commit()
    starts = [np.datetime64(s.replace(tzinfo=None), "us") for s in store.load().slices]
    assert starts == [start_of(number) for number in range(12, 60)]
    short = replace(settings, window=SETTINGS.window)  # two windows of a day outlast the history
    store = MemoryStore()
    one = session(store, short)
    for number in range(110):
        one.tick(TOWN.slice(number))
    one.commit()
    again = session(store, short)
    assert len(store.load().slices) == 96
    assert len(again.monitor.failures) == len(one.monitor.failures) == 96
    assert memory(again) == memory(one)


def test_what_was_told_is_kept_for_a_week_of_event_time() -> None:
    asked = []

    class Noting(MemoryStore):
        def commit(self, work: Work) -> None:
            asked.append(work.drop_sent_before)
            super().commit(work)

    one = session(Noting())
    one.commit()
    one.tick(TOWN.slice(0))
    one.commit()
    assert asked == [None, utc(start_of(0)) - timedelta(days=7)]


def test_only_the_reporting_method_sends_notifications() -> None:
    store = MemoryStore()
    settings = replace(
        SETTINGS,
        detection=replace(SETTINGS.detection, report=Method.PAPER, compare=(Method.EXCESS,)),
    )
    one = session(store, settings, ("1-log",))
    for number in range(64):
        one.tick(TOWN.slice(number))
    one.commit()
    assert [i.finding.method for i in store.incidents()] == [Method.EXCESS]
    assert store.outbox() == []


def test_the_newest_diagnosis_is_there_to_be_shown() -> None:
    store = MemoryStore()
    one = session(store)
    tick = one.tick(TOWN.slice(0))
    one.commit()
    shown = store.state(LATEST_DIAGNOSIS)
    assert shown == dumps(diagnosis_document(tick.diagnosis))
    one.commit({"row": 2})  # nothing new: nothing is rewritten
    assert store.state(LATEST_DIAGNOSIS) == shown


def test_the_vocabulary_outlives_the_process() -> None:
    store = MemoryStore()
    one = session(store)
    one.commit()
    one.vocabulary.encode(0, ["NEW"])
    one.commit()
    assert session(store).vocabulary.code(0, "NEW") == one.vocabulary.code(0, "NEW")


@pytest.mark.parametrize(
    "damage",
    [
        b"rubbish",
        b"more rubbish than eight bytes",
        (4).to_bytes(8, "little") + bytes(pa.compress(b"zip?", "zstd", asbytes=True)),
    ],
    ids=["short", "long", "no archive"],
)
def test_a_damaged_store_says_so(damage: bytes) -> None:
    store = MemoryStore()
    one = session(store)
    one.tick(TOWN.slice(0))
    one.commit()
    store.commit(Work(state={"memory": damage}))
    with pytest.raises(StoreError, match="cannot be read"):
        Session(SETTINGS, store)


def position_of(store: Store) -> Mapping[str, object] | None:
    return store.load().position


def test_a_commit_without_a_position_leaves_the_source_where_it_was() -> None:
    store = MemoryStore()
    one = session(store)
    one.commit({"row": 5}, [TOWN.slice(0)])
    one.tick(TOWN.slice(1))
    one.commit()
    assert position_of(store) == {"row": 5}
    assert [p.start for p in session(store).resumed.filling] == [start_of(0)]
    assert session(store).last_slice == start_of(0) + STEP


def test_a_tick_handed_on_keeps_no_rows() -> None:
    """Who reads a backlog of weeks in one pass keeps all of its ticks."""
    one = session(MemoryStore())
    pieces = [TOWN.slice(number) for number in range(3)]
    ticks = [one.tick(piece) for piece in pieces]
    assert [tick.rewritten for tick in ticks] == [()] * 3
    one.commit({})
    assert stored_rows(one.store) == sum(piece.rows for piece in pieces), "and yet none is lost"


def test_what_an_operator_judged_false_raises_the_bar() -> None:
    """At the next tick, and again after a restart, if that tick was not committed."""
    store = MemoryStore()
    began = session(store)
    for n in range(72):
        began.tick(TOWN.slice(n))
    began.commit({})
    (incident,) = (i for i in began.monitor.incidents if i.finding.method is Method.EXCESS)
    outcome = SCHEMA.outcomes.index(incident.finding.outcome)
    looks = np.zeros(len(SCHEMA.outcomes))

    def asked(one: Session) -> np.ndarray:
        one.tick(TOWN.slice(72))
        return one.monitor.bar.of(0.5, looks)[outcome]

    quiet = asked(session(store))
    store.label(incident.id, Verdict.FALSE, utc(start_of(72)), "ann")
    for heard in (asked(began), asked(session(store))):
        assert (heard[:2] > quiet[:2]).all()
