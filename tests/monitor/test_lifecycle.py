"""One incident from its beginning to its end, as people hear of it, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.domain import Change, IncidentSettings, Settings, WindowSettings, utc
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.store import open_store
from monitor.session import Session
from monitor.slices import Slice, empty
from tests.contracts.receivers import Told
from tests.monitor.test_session import Chain, session
from tests.monitor.towns import SCHEMA, SETTINGS, Outage, Town

FIRST, LAST, END = 60, 70, 82
TOWN = Town((Outage(FIRST, LAST, cause={"airline": "AC"}),), rows=150)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def cheap_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.session.LeastLearner", Chain)


def heard(
    folder: Path,
    slices: Iterable[Slice],
    *,
    settings: Settings = SETTINGS,
    restarts: Callable[[int], bool] = lambda number: False,
    clock: Callable[[int, datetime], datetime] = lambda number, at: at,
) -> list[tuple[Change, str, datetime]]:
    """What people are told of a town whose daemon lives through all this.

    Args:
        slices: in order.
        settings: of the tick.
        restarts: the daemon is killed and started again before the slice of this number.
        clock: the wall clock at a tick.
    """
    told = Told()
    store = open_store(str(folder / "life.db"))
    one: Session = session(store, settings, ("told",))
    for number, piece in enumerate(slices):
        if restarts(number):
            store.close()
            store = open_store(str(folder / "life.db"))
            one = session(store, settings, ("told",))
        tick = one.tick(piece)
        one.commit()
        now = clock(number, tick.diagnosis.at)
        Outbox(store, [told], now=lambda now=now: now).deliver()  # type: ignore[misc]
    store.close()
    return [(n.change, n.incident.id, n.at) for n in told.seen]


def hole(number: int) -> Slice:
    return empty(TOWN.slice(number).start, len(SCHEMA.attributes), len(SCHEMA.outcomes))


def lives(told: list[tuple[Change, str, datetime]]) -> dict[str, list[Change]]:
    """Incident → what was said of it, in order."""
    said: dict[str, list[Change]] = {}
    for change, incident, _ in told:
        said.setdefault(incident, []).append(change)
    return said


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Change, str, datetime]]:
    patch = pytest.MonkeyPatch()
    patch.setattr("monitor.session.LeastLearner", Chain)
    told = heard(tmp_path_factory.mktemp("undisturbed"), TOWN.slices(END))
    patch.undo()
    (said,) = lives(told).values()
    assert (said[0], said[-1]) == (Change.OPENED, Change.RESOLVED)
    assert {Change.OPENED, Change.RESOLVED} & set(said[1:-1]) == set()
    return told


def test_a_restart_at_every_tick_changes_nothing_that_people_hear(
    tmp_path: Path, undisturbed: list[tuple[Change, str, datetime]]
) -> None:
    often = heard(tmp_path, TOWN.slices(END), restarts=lambda number: number >= FIRST - 2)
    assert often == undisturbed


def test_a_clock_set_back_an_hour_doubles_nothing(
    tmp_path: Path, undisturbed: list[tuple[Change, str, datetime]]
) -> None:
    told = heard(
        tmp_path,
        TOWN.slices(END),
        clock=lambda number, at: at - HOUR * (number >= FIRST + 3),
        restarts=lambda number: number == FIRST + 4,
    )
    assert told == undisturbed


def test_six_hours_without_data_in_an_incident_are_no_end_of_it(tmp_path: Path) -> None:
    town = Town((Outage(FIRST, FIRST + 24, cause={"airline": "AC"}),), rows=150)
    silent = range(FIRST + 4, FIRST + 16)
    slices = [hole(n) if n in silent else town.slice(n) for n in range(FIRST + 36)]
    told = heard(tmp_path, slices)
    (said,) = lives(told).values()
    assert (said.count(Change.OPENED), said.count(Change.RESOLVED)) == (1, 1)
    (ended,) = (at for change, _, at in told if change is Change.RESOLVED)
    assert ended > utc(town.slice(FIRST + 24).start)


@pytest.mark.parametrize(
    "change",
    [
        datetime(2026, 3, 29, 1, tzinfo=UTC),  # an hour is missing
        datetime(2026, 10, 25, 1, tzinfo=UTC),  # an hour comes twice
    ],
    ids=["spring", "autumn"],
)
def test_a_change_of_the_clocks_doubles_nothing(tmp_path: Path, change: datetime) -> None:
    """The clocks of Berlin change in the middle of the incident."""
    shift = np.datetime64(change.replace(tzinfo=None), "us") - TOWN.slice(FIRST + 3).start
    moved = [replace(piece, start=piece.start + shift) for piece in TOWN.slices(END)]
    settings = replace(SETTINGS, window=WindowSettings(zone="Europe/Berlin"))
    (said,) = lives(heard(tmp_path, moved, settings=settings)).values()
    assert (said[0], said[-1]) == (Change.OPENED, Change.RESOLVED)
    assert (said.count(Change.OPENED), said.count(Change.RESOLVED)) == (1, 1)


@pytest.mark.parametrize("grows", [False, True], ids=["steady", "becomes critical"])
def test_a_cause_that_comes_and_goes_every_tick_for_a_day_is_two_messages(
    tmp_path: Path, grows: bool
) -> None:
    flaps = tuple(Outage(n, n + 1, cause={"airline": "AC"}) for n in range(FIRST, FIRST + 48, 2))
    incidents = IncidentSettings() if grows else IncidentSettings(critical_failures=10_000)
    settings = replace(SETTINGS, incidents=incidents)
    told = heard(tmp_path, Town(flaps, rows=120).slices(FIRST + 60), settings=settings)
    # By the end of the day 48 ticks have been judged; chance may find another cause in them.
    said = lives(told)[told[0][1]]
    # One more only when its failures add up to something critical: a pager may wait for that.
    assert said == [Change.OPENED, *[Change.WORSENED] * grows, Change.RESOLVED]
