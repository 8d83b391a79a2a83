"""From files to committed ticks: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.config import Config, HeartbeatSettings, load
from monitor.edge.blobs import slice_from_bytes
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import Refreshing
from monitor.edge.notifiers.making import make_notifiers
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.status import LiveState
from monitor.edge.store import Store, StoreError, Work
from monitor.edge.store.memory import MemoryStore
from monitor.jobs import Worker, every
from monitor.pipeline import Pipeline
from tests.contracts.receivers import Receiver, receiver

pytestmark = pytest.mark.usefixtures("no_learner")

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
ROWS = 12
"""Rows of every half hour."""


class Desk:
    """A folder of logs, the clock, and a pipeline that may be killed and started again."""

    def __init__(self, folder: Path, store: Store | None = None) -> None:
        self.folder, self.store = folder, store or MemoryStore()
        (folder / "monitor.toml").write_text(
            """
            [source]
            paths = ["log-*.jsonl"]
            [schema]
            time = "at"
            attributes = ["airline"]
            outcomes = [{ name = "pay", when = "failed == 1" }]
            [window]
            length = "4h"
            [detection]
            history = "1d"
            learning = "4h"
            """
        )
        self.config: Config = load(folder / "monitor.toml", {})
        self.now = MIDNIGHT + timedelta(days=10)
        self.written = 0
        self.start()

    def start(self) -> None:
        """As after kill -9: only the store and the files are left."""
        self.metrics = Metrics()
        self.pipeline = Pipeline(self.config, self.store, self.metrics, (), lambda: self.now)

    def write(self, *moments: float, rows: int = ROWS, name: str = "log-a.jsonl") -> None:
        """Append rows at these half hours since midnight.

        A whole number means six minutes into it, so that it closes the half hour before.
        """
        with (self.folder / name).open("a") as log:
            for moment in moments:
                exact = moment + 0.2 if isinstance(moment, int) else moment
                at = MIDNIGHT + exact * HALF_HOUR
                for i in range(rows):
                    row = {"at": at.isoformat(), "airline": f"A{i % 3}", "failed": int(i == 0)}
                    log.write(json.dumps(row) + "\n")
        self.written += len(moments) * rows

    def poll(self) -> list[int]:
        """Rows of every slice diagnosed."""
        return [tick.diagnosis.rows for tick in self.pipeline.poll()]

    def rows(self) -> int:
        """Rows in the store: in slices, filling or set aside."""
        saved = self.store.load()
        in_slices = sum(slice_from_bytes(b).slice.rows for b in saved.slices.values())
        filling = sum(piece.rows for piece in self.pipeline.filling.values())
        return in_slices + filling + sum(self.store.rejected().values())

    def counted(self, result: str) -> float:
        name = "least_monitor_events_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0.0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_slice_closes_when_later_rows_pass_its_end_by_the_lateness(desk: Desk) -> None:
    desk.write(0, 0.5)
    assert desk.poll() == []
    desk.write(1.1)  # 00:33, not yet 00:35
    assert desk.poll() == []
    desk.write(1.2)
    assert desk.poll() == [2 * ROWS]
    assert desk.poll() == []
    assert desk.rows() == desk.written


def test_half_hours_without_rows_are_ticked_too(desk: Desk) -> None:
    desk.write(0, 4, 5)
    assert desk.poll() == [ROWS, 0, 0, 0, ROWS]


def test_a_hole_longer_than_two_windows_is_jumped_over(desk: Desk) -> None:
    desk.write(0, 1, 2)
    desk.write(200, 201, 202)
    assert desk.poll() == [ROWS] * 5
    assert len(desk.pipeline.session.monitor.window) == 2


def test_late_rows_are_folded_and_the_forgotten_are_counted(desk: Desk) -> None:
    desk.write(*range(12))
    desk.poll()
    desk.write(9, 3, rows=5)  # the window is four hours: 3 … 10 are kept
    desk.write(1, rows=4)
    desk.poll()
    assert desk.rows() == desk.written
    assert desk.store.rejected() == {"too_late": 4}
    assert desk.pipeline.session.monitor.gram.rows == 8 * ROWS + 10
    assert desk.counted("late") == 10


def test_a_late_row_of_a_time_that_was_jumped_over_is_too_late_and_ends_nothing(desk: Desk) -> None:
    desk.write(0, 1, 2)
    desk.write(200, 201)
    desk.poll()
    desk.write(100, 1, rows=3)
    assert desk.poll() == []
    assert desk.store.rejected() == {"too_late": 6}
    desk.write(202)
    assert desk.poll() == [ROWS], "and life goes on"


def test_a_row_from_2099_closes_nothing(desk: Desk) -> None:
    desk.write(0.0)
    with (desk.folder / "log-b.jsonl").open("w") as log:
        log.write(json.dumps({"at": "2099-01-01T00:00:00Z", "airline": "A0", "failed": 0}) + "\n")
    assert desk.poll() == []
    assert desk.store.rejected() == {"future": 1}
    assert desk.pipeline.watermark == np.datetime64("2026-02-28T23:55")


@pytest.mark.parametrize("polls", [0, 1, 3, 7])
def test_a_kill_at_any_time_loses_and_doubles_nothing(desk: Desk, polls: int) -> None:
    (desk.folder / "log-a.jsonl").touch()
    for moment in range(polls):
        desk.write(moment, moment + 0.5)
        desk.poll()
    desk.start()
    assert desk.poll() == []
    assert desk.rows() == desk.written
    later = []
    for moment in range(polls, 12):
        desk.write(moment, moment + 0.5)
        later += desk.poll()
    assert set(later) == {2 * ROWS}
    assert desk.rows() == desk.written


def test_late_rows_survive_a_kill_before_the_next_tick(desk: Desk) -> None:
    desk.write(*range(6))
    desk.poll()
    desk.write(2, rows=7)
    assert desk.poll() == []
    desk.start()
    assert desk.rows() == desk.written
    assert desk.pipeline.session.monitor.gram.rows == 5 * ROWS + 7


class Stubborn(MemoryStore):
    """A store whose disk is full for a while."""

    full = False

    def commit(self, work: Work) -> None:
        if self.full:
            raise StoreError("the disk is full")
        super().commit(work)


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_that_fails_for_a_while_makes_nobody_count_twice(
    tmp_path: Path, killed: bool
) -> None:
    store = Stubborn()
    desk = Desk(tmp_path, store)
    desk.write(*range(4))
    desk.poll()
    desk.write(1, rows=6)  # late
    desk.write(4, 5)
    store.full = True
    for _ in range(3):
        with pytest.raises(StoreError):
            desk.poll()
    store.full = False
    if killed:
        desk.start()
    desk.poll()  # nothing new in the files, and yet there is something to write
    assert desk.rows() == desk.written
    saved = store.load()
    assert len(saved.slices) == 5
    desk.start()
    assert desk.rows() == desk.written


def test_silence_closes_slices_while_the_data_are_live(desk: Desk) -> None:
    desk.write(*range(20))
    desk.now = MIDNIGHT + 19.9 * HALF_HOUR
    desk.poll()
    assert desk.pipeline.silence() == []
    desk.now += timedelta(minutes=9)
    assert [t.diagnosis.rows for t in desk.pipeline.silence()] == [ROWS]
    for _ in range(3):
        desk.now += HALF_HOUR
        assert [t.diagnosis.rows for t in desk.pipeline.silence()] == [0]
    assert desk.rows() == desk.written


def test_silence_closes_nothing_while_an_old_log_is_read(desk: Desk) -> None:
    desk.write(*range(3))
    desk.poll()
    assert desk.pipeline.silence() == []
    desk.start()
    assert desk.pipeline.silence() == []


def test_after_a_restart_silence_is_noticed_too(desk: Desk) -> None:
    desk.write(*range(20))
    desk.now = MIDNIGHT + 20 * HALF_HOUR + timedelta(minutes=6)
    desk.poll()
    desk.start()
    desk.poll()
    assert [t.diagnosis.rows for t in desk.pipeline.silence()] == [ROWS]
    assert desk.rows() == desk.written


def test_before_the_first_row_silence_means_nothing(desk: Desk) -> None:
    assert desk.pipeline.silence() == []


def test_every_configured_notifier_is_made_and_has_a_name_of_its_own(desk: Desk) -> None:
    text = (desk.folder / "monitor.toml").read_text()
    (desk.folder / "monitor.toml").write_text(
        text
        + """
        [[notifiers]]
        kind = "log"
        [[notifiers]]
        kind = "webhook"
        url = "http://127.0.0.1:9/hook"
        [[notifiers]]
        kind = "webhook"
        url = "http://127.0.0.1:9/other"
        [[notifiers]]
        kind = "alertmanager"
        urls = "http://127.0.0.1:9"
        [[notifiers]]
        kind = "email"
        host = "127.0.0.1"
        sender = "monitor@example.org"
        recipients = "ops@example.org"
        """
    )
    made = make_notifiers(load(desk.folder / "monitor.toml", {}), None)
    names = ["1-log", "2-webhook", "3-webhook", "4-alertmanager", "5-email"]
    assert [one.name for one in made] == names
    assert [one.name for one in made if isinstance(one, Refreshing)] == ["4-alertmanager"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_outbox_that_died_of_a_bug_is_a_problem_for_the_supervisor(desk: Desk) -> None:
    def broken_clock() -> datetime:
        raise ZeroDivisionError("a bug")

    outbox = Outbox(desk.store, [], now=broken_clock)
    state = LiveState(desk.store, desk.metrics)
    worker = Worker(desk.pipeline, state, outbox, lambda: desk.now)
    desk.write(0)
    worker.poll()
    assert (state.status.ready, state.status.problem) == (True, "")
    outbox.start()
    deadline = time.monotonic() + 5
    while outbox.alive and time.monotonic() < deadline:
        time.sleep(0.005)
    worker.poll()
    assert state.status.problem == "notifications are no longer delivered"
    assert state.status.ready, "incidents are still found"


def test_every_tick_pings_the_heartbeat_and_a_store_that_fails_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as hook:
        heart = Heartbeat(HeartbeatSettings(hook.url), lambda: desk.now)
        state = LiveState(desk.store, desk.metrics)
        outbox = Outbox(desk.store, [], now=lambda: desk.now)
        worker = Worker(desk.pipeline, state, outbox, lambda: desk.now, heart)
        for number in range(3):
            desk.write(number)
        worker.poll()
        ticks = heard(hook, "tick of 20")
        monkeypatch.setattr(
            desk.pipeline, "poll", lambda: (_ for _ in ()).throw(StoreError("the disk is full"))
        )
        worker.poll()
        worker.poll()
        heart.stop()
        bodies = [body.decode() for _, body in hook.requests]
    assert ticks[0] == ""
    assert any(body.startswith("tick of 20") for body in ticks)
    assert bodies[-1] == "store: the disk is full"
    assert bodies.count("store: the disk is full") == 1, "not at every poll"


def heard(hook: Receiver, start: str) -> list[str]:
    """What was heard until a body that starts so; two ticks may begin before one is told."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        bodies = [body.decode() for _, body in hook.requests]
        if any(body.startswith(start) for body in bodies):
            break
        time.sleep(0.005)
    return bodies


@pytest.mark.parametrize(
    ("length", "after", "minutes"),
    [
        (30, 5, "5,35"),
        (15, 0, "0,15,30,45"),
        (60, 10, "10"),
        (5, 2, "2,7,12,17,22,27,32,37,42,47,52,57"),
        (5, 5, "0,5,10,15,20,25,30,35,40,45,50,55"),
        (30, 45, "15,45"),
    ],
)
def test_ticks_come_when_the_slice_no_longer_waits(length: int, after: int, minutes: str) -> None:
    trigger = every(timedelta(minutes=length), timedelta(minutes=after))
    assert isinstance(trigger, CronTrigger)
    fields = {field.name: str(field) for field in trigger.fields}
    assert fields["minute"] == minutes


@pytest.mark.parametrize(("length", "after"), [(7, 1), (30, 1.5), (0.5, 0)])
def test_slices_that_fit_no_hour_tick_by_the_interval(length: float, after: float) -> None:
    trigger = every(timedelta(minutes=length), timedelta(minutes=after))
    assert isinstance(trigger, IntervalTrigger)
    assert trigger.interval == timedelta(minutes=length)
