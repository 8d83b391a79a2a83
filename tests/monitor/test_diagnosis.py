"""One tick after the other in a small town, through one door."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from monitor.checkpoint import Snapshot, Stored, restore, snapshot
from monitor.diagnosis import Monitor, Tick
from monitor.domain import Change, Method, Settings, State
from monitor.edge.documents import diagnosis_document, dumps, incident_document
from monitor.slices import Slice, empty
from monitor.vocabulary import Vocabulary
from tests.monitor.towns import (
    HALF_HOUR,
    MIDNIGHT,
    OUTCOMES,
    SETTINGS,
    STEP,
    Outage,
    Promotion,
    Town,
    sliced,
    start_of,
)

DAY = 48


def monitor(town: Town = Town(), settings: Settings = SETTINGS) -> Monitor:  # noqa: B008
    return Monitor(settings, town.vocabulary())


def day(*outages: Outage, promotions: tuple[Promotion, ...] = (), slices: int = 2 * DAY) -> Town:
    return Town(outages, promotions)


def told(ticks: list[Tick]) -> list[str]:
    """What an operator hears: change, outcome, cause."""
    return [
        f"{n.change.value} {n.incident.finding.outcome} ← {n.incident.finding.cause}"
        for tick in ticks
        for n in tick.news
    ]


def check(town: Town, expect: list[str], slices: int = 2 * DAY, quiet_after: int = 0) -> list[Tick]:
    """Tick through the town and compare the first words about each incident."""
    watcher = monitor(town)
    ticks = [watcher.tick(piece) for piece in town.slices(slices)]
    opened = [line.removeprefix("opened ") for line in told(ticks) if line.startswith("opened")]
    assert opened == expect
    return ticks


def words(ticks: list[Tick]) -> list[bytes]:
    """Everything that ticks say, as bytes; only the clock is left out."""
    return [
        dumps(
            {
                "diagnosis": diagnosis_document(replace(tick.diagnosis, seconds={})),
                "incidents": [incident_document(i) for i in tick.incidents],
                "news": [(n.change.value, n.incident.id) for n in tick.news],
            }
        )
        for tick in ticks
    ]


def test_two_quiet_days_are_silent() -> None:
    check(day(), expect=[])


def test_an_outage_at_one_airline_is_traced_to_that_airline() -> None:
    ticks = check(day(Outage(60, 66, cause={"airline": "AC"})), ["pay ← airline=AC"])
    first = next(n for tick in ticks for n in tick.news)
    assert first.at - (MIDNIGHT + 61 * HALF_HOUR) <= HALF_HOUR, "within two ticks"
    assert first.incident.finding.path[0] == "airline=AC"
    assert first.incident.finding.path[-1] == "pay"
    assert first.incident.finding.rate_now > 5 * first.incident.finding.rate_before


def test_an_outage_of_an_airline_at_one_office_names_both() -> None:
    town = day(Outage(60, 66, rate=0.9, cause={"airline": "MU", "office": "BKK"}))
    check(town, ["pay ← airline=MU & office=BKK"])


def test_when_everything_fails_everything_is_the_cause() -> None:
    check(day(Outage(60, 66, rate=0.3)), ["pay ← everything"])


def test_a_promotion_is_no_incident() -> None:
    check(day(promotions=(Promotion(60, 72, {"airline": "MU"}),)), [])


def test_the_other_outcome_stays_silent() -> None:
    town = day(Outage(60, 66, outcome="seat", cause={"fare": "F2"}))
    check(town, ["seat ← fare=F2"])


def test_an_incident_opens_once_and_ends_with_its_outage() -> None:
    ticks = check(day(Outage(60, 66, cause={"airline": "AC"})), ["pay ← airline=AC"])
    changes = [n.change for tick in ticks for n in tick.news]
    assert changes[0] is Change.OPENED
    assert changes[-1] is Change.RESOLVED
    assert changes.count(Change.OPENED) == changes.count(Change.RESOLVED) == 1
    resolved = next(i for i in ticks[-1].incidents if i.finding.outcome == "pay")
    assert resolved.state is State.RESOLVED
    assert resolved.resolved_at is not None
    hours = (resolved.resolved_at - (MIDNIGHT + 67 * HALF_HOUR)) / timedelta(hours=1)
    assert hours <= 6, "an event that is over does not stay open for the whole window"


def test_the_code_of_a_broken_deployment_is_told_with_the_cause() -> None:
    town = day(Outage(60, 64, cause={"fare": "F2"}, code="E-SCHEMA"))
    ticks = check(town, ["pay ← code=E-SCHEMA & fare=F2"])
    found = next(n.incident.finding for tick in ticks for n in tick.news)
    assert found.codes == ("E-SCHEMA",)


def test_while_learning_it_counts_and_stays_silent() -> None:
    town, watcher = day(Outage(4, 8, rate=0.9)), monitor()
    ticks = [watcher.tick(piece) for piece in town.slices(12)]
    assert all(tick.diagnosis.learning for tick in ticks)
    assert told(ticks) == []
    assert ticks[5].diagnosis.rows == town.slice(5).rows
    clean = town.events(5).failed.any(axis=1)
    assert ticks[5].diagnosis.clean_rows == int((~clean).sum())


def test_every_tick_counts_failures_against_the_baseline() -> None:
    town, watcher = day(), monitor()
    ticks = [watcher.tick(piece) for piece in town.slices(DAY)]
    for o, name in enumerate(OUTCOMES):
        seen = sum(int(town.events(n).failed[:, o].sum()) for n in range(26, DAY))
        counted = [tick.diagnosis.outcomes[o] for tick in ticks[26:]]
        assert {c.outcome for c in counted} == {name}
        assert sum(c.observed for c in counted) == seen
        assert sum(c.expected for c in counted) == pytest.approx(seen, rel=0.2)


def test_missing_data_are_a_gap_and_resolve_nothing() -> None:
    town = Town((Outage(100, 200, cause={"airline": "AC"}),), rows=100)
    watcher = monitor(town)
    for number in range(106):
        tick = watcher.tick(town.slice(number))
    assert [i.state for i in tick.incidents] == [State.OPEN]
    # The town has traffic at every hour: this is unknown, not healthy, even after a day and more.
    silence = [watcher.tick(empty(start_of(number), 4, 2)) for number in range(106, 170)]
    assert all(tick.diagnosis.gap for tick in silence)
    assert [i.state for i in silence[-1].incidents] == [State.OPEN]
    assert "resolved pay ← airline=AC" not in told(silence)


def test_an_hour_that_never_has_traffic_is_no_gap() -> None:
    town, watcher = Town(rows=60), monitor()
    shut = range(36, 48)  # every evening
    for number in range(5 * DAY):
        closed = number % DAY in shut
        tick = watcher.tick(empty(start_of(number), 4, 2) if closed else town.slice(number))
        assert not tick.diagnosis.gap


def test_behind_a_long_hole_the_windows_begin_anew() -> None:
    town, watcher = day(), monitor()
    for piece in town.slices(60):
        watcher.tick(piece)
    watcher.tick(town.slice(400))
    assert [c.slice.start for c in watcher.window] == [start_of(400)]
    assert watcher.gram.rows == town.slice(400).rows
    assert watcher.tables.observed[-1, 1, 0] == town.events(400).failed[:, 1].sum()
    assert not watcher.fold(town.slice(59)), "the slice before the hole has left"
    assert not watcher.fold(town.slice(200)), "the slice in the hole never was"


def test_late_rows_leave_no_trace_once_folded() -> None:
    town = Town((Outage(60, 66, cause={"airline": "AC"}),))
    punctual, waiting = monitor(town), monitor(town)
    for number in range(75):
        whole = town.events(number)
        on_time = [punctual.tick(town.slice(number))]
        if number == 61:
            first = np.arange(len(whole)) % 3 != 0
            waiting.tick(sliced(whole.take(first), number))
            assert waiting.fold(sliced(whole.take(~first), number))
            continue
        late = [waiting.tick(town.slice(number))]
        if number > 72:  # an incident was opened a tick later, the findings are the same again
            assert finding_words(on_time) == finding_words(late)
    np.testing.assert_array_equal(punctual.tables.observed, waiting.tables.observed)
    np.testing.assert_array_equal(punctual.gram._sum, waiting.gram._sum)
    for mine, other in zip(punctual.history.taught, waiting.history.taught, strict=True):
        np.testing.assert_array_equal(mine.values, other.values)
        np.testing.assert_array_equal(mine.failures, other.failures)
    for mine_counts, other_counts in zip(punctual.nodes.counts, waiting.nodes.counts, strict=True):
        np.testing.assert_array_equal(mine_counts, other_counts)


def finding_words(ticks: list[Tick]) -> list[tuple[str, str, float, float]]:
    return [
        (f.outcome, str(f.cause), f.observed, f.rows)
        for tick in ticks
        for f in tick.diagnosis.findings
    ]


def test_failures_that_always_come_late_open_their_incident() -> None:
    """Rows that carry the start of a job are written at its end, if it fails: hours later."""
    late = 3
    town, watcher = Town((Outage(60, 75, cause={"airline": "AC"}),)), monitor()
    told = []
    for number in range(78):
        if number >= late:
            before = town.events(number - late)
            failed = before.failed.any(axis=1)
            if failed.any():
                assert watcher.fold(sliced(before.take(failed), number - late))
        now = town.events(number)
        tick = watcher.tick(sliced(now.take(~now.failed.any(axis=1)), number))
        told += [(n.change.value, str(n.incident.finding.cause)) for n in tick.news]
    assert told[0] == ("opened", "airline=AC")
    assert "resolved" not in [change for change, _ in told], "the newest slices are yet to fail"


def test_late_rows_of_quiet_days_change_no_later_tick() -> None:
    town = Town()
    punctual, waiting = monitor(town), monitor(town)
    for number in range(70):
        whole = town.events(number)
        on_time = punctual.tick(town.slice(number))
        if number in (37, 50, 55):
            first = np.arange(len(whole)) % 5 != 0
            waiting.tick(sliced(whole.take(first), number))
            assert waiting.fold(sliced(whole.take(~first), number))
        else:
            late = waiting.tick(town.slice(number))
            assert words([replace_rewritten(on_time)]) == words([replace_rewritten(late)])


def replace_rewritten(tick: Tick) -> Tick:
    return replace(tick, rewritten=())


def test_late_rows_fold_where_the_horizons_are_shorter_than_the_window() -> None:
    detection = replace(SETTINGS.detection, horizons=(1, 2, 4))
    town, watcher = day(), monitor(settings=replace(SETTINGS, detection=detection))
    for piece in town.slices(40):
        watcher.tick(piece)
    before = watcher.tables.observed.copy()
    rows = watcher.gram.rows
    assert watcher.fold(town.slice(10))  # in the window, behind every horizon
    np.testing.assert_array_equal(watcher.tables.observed, before)
    assert watcher.gram.rows == rows + town.slice(10).rows
    assert watcher.fold(town.slice(39))
    assert watcher.tables.observed[0, 1, 0] == 2 * town.events(39).failed[:, 1].sum()


class Kept:
    """A store of slices in memory, as a session would fill it."""

    def __init__(self) -> None:
        self.slices: dict[np.datetime64, Stored] = {}

    def take(self, tick: Tick) -> None:
        for one in tick.rewritten:
            self.slices[one.slice.start] = Stored(one.slice, one.expected)

    def restored(self, town: Town, saved: Snapshot, settings: Settings = SETTINGS) -> Monitor:
        texts = town.vocabulary().to_json()
        fresh = Monitor(settings, Vocabulary.from_json(settings.schema, texts))
        restore(fresh, saved, [self.slices[start] for start in sorted(self.slices)])
        return fresh


@pytest.mark.parametrize("at", [10, 30, 64])
def test_a_restart_in_the_middle_changes_no_byte_of_later_ticks(at: int) -> None:
    town = Town((Outage(60, 66, cause={"airline": "AC"}), Outage(62, 70, outcome="seat", rate=0.3)))
    watcher, kept = monitor(town), Kept()
    for number in range(at):
        whole = town.events(number)
        rows = np.arange(len(whole)) % 4 != 0 if number % 9 == 4 else np.ones(len(whole), bool)
        kept.take(watcher.tick(sliced(whole.take(rows), number)))
        if not rows.all():
            assert watcher.fold(sliced(whole.take(~rows), number))
    kept.take(tick_of(watcher.rewritten))
    watcher.rewritten.clear()
    other = kept.restored(town, snapshot(watcher))
    later = town.slices(at + 20, first=at)
    one, two = [watcher.tick(p) for p in later], [other.tick(p) for p in later]
    assert words(one) == words(two)
    assert dumps_arrays(watcher) == dumps_arrays(other)


def tick_of(rewritten: list) -> Tick:  # type: ignore[type-arg]
    return Tick(None, (), (), tuple(rewritten))  # type: ignore[arg-type]


def dumps_arrays(watcher: Monitor) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in snapshot(watcher).arrays.items()}


def test_other_horizons_after_a_restart_start_with_the_usual_scatter() -> None:
    town, watcher, kept = day(), monitor(), Kept()
    for piece in town.slices(40):
        kept.take(watcher.tick(piece))
    detection = replace(SETTINGS.detection, horizons=(1, 3))
    other = kept.restored(town, snapshot(watcher), replace(SETTINGS, detection=detection))
    tick = other.tick(town.slice(40))
    assert tick.diagnosis.findings == ()
    assert not tick.diagnosis.learning


def test_both_methods_speak_side_by_side() -> None:
    detection = replace(SETTINGS.detection, compare=(Method.PAPER,))
    town = Town((Outage(60, 66, cause={"airline": "AC"}),))
    watcher = monitor(town, replace(SETTINGS, detection=detection))
    ticks = [watcher.tick(piece) for piece in town.slices(64)]
    # Without a learner there is no graph and no path: only `excess` speaks.
    assert {f.method for tick in ticks for f in tick.diagnosis.findings} == {Method.EXCESS}
    assert {tick.diagnosis.fit_status for tick in ticks} == {"skipped"}


def test_a_slice_knows_its_time_of_day_where_the_traffic_lives() -> None:
    window = replace(SETTINGS.window, zone="Asia/Kolkata")  # UTC + 5:30
    watcher = monitor(settings=replace(SETTINGS, window=window))
    nothing = Slice(
        start_of(0), np.empty((0, 4), np.int32), np.empty((0, 2), bool), np.empty(0, np.int64)
    )
    assert watcher.slot(nothing) == 11
    assert watcher.slot(replace(nothing, start=start_of(0) + 37 * STEP)) == 0
