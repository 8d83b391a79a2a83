"""A store with four weeks of history is opened under another schema: what is still true stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.domain import Attribute, Change, Incident, Schema, Settings, State, utc
from monitor.edge.blobs import slice_from_bytes
from monitor.edge.silences import Silence
from monitor.edge.store import Saved, Store, StoreError, Verdict, Work, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.session import FINGERPRINT, MEANING, Session
from monitor.slices import Slice, aggregate
from tests.monitor.towns import OUTCOMES, SCHEMA, SETTINGS, VALUES, Outage, Town, start_of

WEEKS = 28 * 48
"""Slices of the history."""
HOUR = 2
EARLIER = Outage(700, 706, cause={"office": "SEL"})
OPEN = Outage(WEEKS - 3, WEEKS + 40, outcome="seat", cause={"fare": "F5"})
KNOWN = Outage(WEEKS + HOUR, WEEKS + HOUR + 6, cause={"airline": "AC"})
TOWN = Town((EARLIER, OPEN, KNOWN), rows=80)
WHENS = {"seat": "seats == 0", "pay": "status >= 500"}
LEARNING = 24
"""Slices that an outcome learns."""
LONG = replace(
    SETTINGS,
    detection=replace(
        SETTINGS.detection, history=timedelta(days=28), learning=timedelta(hours=LEARNING / 2)
    ),
)


class Quiet:
    """A graph is not what this is about."""

    def __new__(cls, *_: object) -> None:  # type: ignore[misc]
        return None


@pytest.fixture(autouse=True)
def no_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.session.LeastLearner", Quiet)


def rows(number: int, session: Session, strange: dict[str, float] | None = None) -> Slice:
    """Slice `number` of the town under the session's schema.

    What the town does not know is made up: a channel for every row, other outcomes at random, the
    `strange` ones so often.
    """
    piece, schema = TOWN.slice(number), session.settings.schema
    rng = np.random.default_rng(number)
    count = piece.rows
    at = np.repeat(np.arange(len(piece.weight)), piece.weight)
    values = np.full((count, len(schema.attributes)), -1, np.int32)
    for a, name in enumerate(schema.names):
        if name in VALUES:
            values[:, a] = piece.values[at, list(VALUES).index(name)]
        else:
            codes = session.vocabulary.encode(a, ["web", "app"])
            values[:, a] = codes[rng.integers(0, 2, count)]
    failed = np.zeros((count, len(schema.outcomes)), bool)
    for o, name in enumerate(schema.outcomes):
        if name in OUTCOMES and name not in (strange or {}):
            failed[:, o] = piece.failed[at, OUTCOMES.index(name)]
        else:
            failed[:, o] = rng.random(count) < (strange or {}).get(name, 0.08)
    return aggregate(piece.start, values, failed, np.ones(count, np.int64))


def begun(store: Store, settings: Settings = LONG, whens: dict[str, str] = WHENS) -> Session:
    session = Session(settings, store, ("1-log",), whens=whens)
    for a, name in enumerate(settings.schema.names):
        if name in VALUES and session.vocabulary.size(a) == 1:
            session.vocabulary.encode(a, VALUES[name])
    return session


@pytest.fixture(scope="module")
def history() -> tuple[Saved, tuple[Incident, ...]]:
    """Four weeks, as they are stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.session.LeastLearner", Quiet)
        store = MemoryStore()
        session = begun(store)
        for number in range(WEEKS):
            session.tick(rows(number, session))
        session.commit({"row": 1}, [rows(WEEKS, session)])
        return store.load(), tuple(store.incidents())


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.service, pytest.mark.slow])]
)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, history: tuple[Saved, tuple[Incident, ...]]
) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").database()
    kept = open_store(url)
    saved, incidents = history
    kept.commit(
        Work(slices=saved.slices, state=saved.state, position=saved.position, incidents=incidents)
    )
    told = next(i for i in incidents if "office=SEL" in str(i.finding.cause))
    kept.label(told.id, Verdict.TRUE, told.opened_at, "ann")
    now = utc(start_of(WEEKS))
    kept.add_silence(Silence.of(["airline=KE"], now + timedelta(days=3), now, "ann"))
    yield kept
    kept.close()


def schema(*attributes: Attribute, outcomes: tuple[str, ...] = OUTCOMES) -> Settings:
    return replace(LONG, schema=Schema(attributes or SCHEMA.attributes, outcomes))


CHANNEL = Attribute("channel", 1)
OFFICE, AIRLINE, FARE, CODE = SCHEMA.attributes
SUPPORT = replace(LONG, window=replace(LONG.window, min_count=40, zone="Asia/Seoul"))
CHANGES: dict[str, tuple[Settings, dict[str, str], str]] = {
    "nothing": (LONG, WHENS, ""),
    "an attribute more": (
        schema(OFFICE, CHANNEL, AIRLINE, FARE, CODE), WHENS, "attribute `channel` is new",
    ),
    "an attribute less": (schema(AIRLINE, FARE, CODE), WHENS, "attribute `office` is gone"),
    "an outcome more": (
        schema(outcomes=("seat", "ticket", "pay")), WHENS | {"ticket": "tickets == 0"},
        "outcome `ticket` is new",
    ),
    "an outcome less": (schema(outcomes=("pay",)), WHENS, "outcome `seat` is gone"),
    "another when": (LONG, WHENS | {"seat": "seats < 2"}, "outcome `seat` means something else"),
    "another judge": (
        replace(LONG, schema=replace(SCHEMA, counted=("seat",))), WHENS,
        "outcome `seat` is judged otherwise",
    ),
    "another order of tiers": (
        schema(FARE, replace(AIRLINE, tier=0), replace(OFFICE, tier=3), replace(CODE, tier=1)),
        WHENS, "attribute `office` has another tier",
    ),
    "support and zone": (SUPPORT, WHENS, "`window.min_count` was 10, is 40"),
    "everything": (
        replace(
            SUPPORT,
            schema=Schema((CHANNEL, FARE, replace(AIRLINE, tier=2)), ("pay", "ticket", "seat")),
        ),
        WHENS | {"seat": "seats < 2", "ticket": "tickets == 0"},
        "outcome `ticket` is new",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_known_incident_an_hour_after_a_change_is_found(store: Store, change: str) -> None:
    settings, whens, said = CHANGES[change]
    before, silences = {i.id: i for i in store.incidents()}, [s.id for s in store.silences()]
    strange = {"seat": 0.2} if whens.get("seat") != WHENS["seat"] else {}
    session = begun(store, settings, whens)
    told = session.evolution.told
    assert any(said in line for line in told) if said else not told
    session.commit()
    filling = session.resumed.filling
    assert [piece.start for piece in filling] == [start_of(WEEKS)]
    session.tick(filling[0])
    for number in range(WEEKS + 1, WEEKS + HOUR + 4):
        if number == WEEKS + HOUR:
            session.commit()
            # killed and started again: the same change is told once
            session = begun(store, settings, whens)
            assert not session.evolution.told
        session.tick(rows(number, session, strange))
    session.commit({"row": 2}, [])

    after = {i.id: i for i in store.incidents()}
    assert before.keys() <= after.keys()
    fresh = [i for name, i in after.items() if name not in before]
    assert [(i.finding.outcome, str(i.finding.cause)) for i in fresh] == [("pay", "airline=AC")]
    assert list(store.labels().values()) == [Verdict.TRUE]
    assert [s.id for s in store.silences()] == silences != []

    ongoing = next(i for i in after.values() if str(i.finding.cause) == "fare=F5")
    goes_on = "seat" in settings.schema.outcomes and not strange
    assert (ongoing.state is State.OPEN) == goes_on
    ended = [i.notification.incident.id for i in store.due(utc(start_of(WEEKS + 99)))
             if i.notification.change is Change.RESOLVED]  # fmt: skip
    assert (ongoing.id in ended) == (not goes_on), "who was told of it hears of its end"


def outage_of_an_outcome(
    session: Session, first: int, last: int, outcome: str, rate: float
) -> Callable[[int], Slice]:
    """The town's slices, in which KE's rows fail more often from `first` to `last`."""
    airline = session.settings.schema.names.index("airline")
    o = session.settings.schema.outcomes.index(outcome)

    def slice_(number: int) -> Slice:
        piece = rows(number, session)
        if not first <= number <= last:
            return piece
        failed = piece.failed.copy()
        hit = piece.values[:, airline] == VALUES["airline"].index("KE") + 1
        failed[hit, o] |= np.random.default_rng(number).random(hit.sum()) < rate
        return aggregate(piece.start, piece.values, failed, piece.weight)

    return slice_


def test_an_outcome_that_is_new_learns_from_its_own_start(store: Store) -> None:
    settings = schema(outcomes=("seat", "ticket", "pay"))
    session = begun(store, settings, WHENS | {"ticket": "tickets == 0"})
    trouble = WEEKS + LEARNING + 20
    slice_ = outage_of_an_outcome(session, trouble, trouble + 4, "ticket", 0.9)
    session.tick(session.resumed.filling[0])
    for number in range(WEEKS + 1, trouble + 5):
        tick = session.tick(slice_(number))
        found = [str(f.cause) for f in tick.diagnosis.findings if f.outcome == "ticket"]
        assert not found or number >= trouble, number
        expected = tick.diagnosis.outcomes[1].expected
        if number >= WEEKS + LEARNING + 2:  # known since the second slice, and judged after it
            assert expected == pytest.approx(0.08 * 80, rel=0.4)
        else:
            assert expected < 0.1, "nothing is expected of what is not known"
        if number == WEEKS + 5:
            session.commit()
            session = begun(store, settings, WHENS | {"ticket": "tickets == 0"})
    assert "airline=KE" in found


def test_an_outcome_redefined_by_mistake_gets_its_history_back(store: Store) -> None:
    mistaken = begun(store, LONG, WHENS | {"pay": "status >= 50"})
    mistaken.tick(mistaken.resumed.filling[0])
    mistaken.tick(rows(WEEKS + 1, mistaken, {"pay": 0.9}))
    mistaken.commit({"row": 2}, [])
    session = begun(store)
    for number in range(WEEKS + 2, WEEKS + 5):
        tick = session.tick(rows(number, session))
    assert "airline=AC" in [str(f.cause) for f in tick.diagnosis.findings if f.outcome == "pay"]
    known = tick.diagnosis.outcomes[1].expected
    assert known == pytest.approx(0.03 * 80, rel=0.4)


def test_an_attribute_that_was_left_out_for_an_hour_comes_back(store: Store) -> None:
    office = list(VALUES).index("office")
    without = begun(store, CHANGES["an attribute less"][0])
    without.tick(without.resumed.filling[0])
    without.commit({"row": 2}, [])
    session = begun(store)
    session.tick(rows(WEEKS + 1, session))
    assert session.vocabulary.to_json()["office"] == VALUES["office"]
    old, gone, new = (session.monitor.window[i].slice.values[:, office] for i in (-3, -2, -1))
    assert (gone == -1).all()
    assert (old >= 1).mean() > 0.9 < (new >= 1).mean()


def test_equal_rows_of_what_is_left_are_one(store: Store) -> None:
    kept = [slice_from_bytes(blob).slice for blob in store.load().slices.values()]
    session = begun(store, schema(AIRLINE))
    window = [coded.slice for coded in session.monitor.window]
    assert sum(p.rows for p in window) == sum(p.rows for p in kept[-48:])
    assert all(len(p.weight) <= 6 * 4 for p in window)
    before = begun(store).monitor.window
    for old, new in zip(before, session.monitor.window, strict=True):
        fair, shared = (c.exposure @ c.expected.astype(float) for c in (old, new))
        assert fair == pytest.approx(shared, abs=1e-4)


def test_a_store_written_before_schemas_were_kept_can_change_after_one_start(
    store: Store, history: tuple[Saved, tuple[Incident, ...]]
) -> None:
    """Its slices have no names for their columns, and nothing says what they were."""
    fingerprint = store.state(FINGERPRINT)
    assert fingerprint is not None
    changed = CHANGES["everything"][0]
    older = MemoryStore()
    nameless = {}
    for start, blob in history[0].slices.items():
        nameless[start] = without_names(blob)
    state = {name: blob for name, blob in history[0].state.items() if name != MEANING}
    older.commit(Work(slices=nameless, state=state, position={"row": 1}, incidents=history[1]))
    with pytest.raises(StoreError, match=r"start once with those of then"):
        begun(older, changed)
    begun(older).commit()
    session = begun(older, changed, CHANGES["everything"][1])
    session.commit()
    again = begun(older, changed, CHANGES["everything"][1])
    ours, theirs = ([c.slice for c in one.monitor.window] for one in (session, again))
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.values, its.values)
        np.testing.assert_array_equal(mine.failed, its.failed)
    assert (ours[0].values[:, 2] >= 1).mean() > 0.9, "airlines, not what stood third"


def without_names(blob: bytes) -> bytes:
    from monitor.edge.blobs import slice_to_bytes
    from monitor.encoding import Coded

    kept = slice_from_bytes(blob)
    return slice_to_bytes(Coded(kept.slice, kept.slice.values, kept.expected))
