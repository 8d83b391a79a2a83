"""A wrong clock or a wrong configuration loses no row of a file: what it rejects waits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from monitor.config import Config, load
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.source import Flow
from monitor.edge.status import LiveState
from monitor.jobs import Worker, reschedule, schedule
from tests.monitor.test_pipeline import HALF_HOUR, MIDNIGHT, ROWS, Desk

HOUR = timedelta(hours=1)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def readiness(desk: Desk) -> tuple[bool, str]:
    """After a poll, as `/readyz` has it."""
    state = LiveState(desk.store, desk.metrics)
    Worker(desk.pipeline, state, Outbox(desk.store, []), lambda: desk.now).poll()
    return state.status.ready, state.status.reason


def reconfigured(desk: Desk, change: Callable[[str], str]) -> None:
    """The daemon is started again with another configuration."""
    path = desk.folder / "monitor.toml"
    path.write_text(change(path.read_text()))
    desk.config = load(path, {})
    desk.start()


def garbage(desk: Desk, rows: int, name: str = "log-a.jsonl") -> None:
    with (desk.folder / name).open("a") as log:
        log.writelines(f"broken {n}\n" for n in range(rows))


# The clock


@pytest.mark.parametrize("rows", [1, ROWS, 500])
@pytest.mark.parametrize("behind", [timedelta(hours=5), timedelta(days=300), timedelta(days=9000)])
def test_a_clock_that_is_behind_loses_nothing(desk: Desk, behind: timedelta, rows: int) -> None:
    right = desk.now = MIDNIGHT + 10 * HALF_HOUR
    desk.now -= behind
    for half in range(10):
        desk.write(half, rows=rows)
        ready, why = readiness(desk)
    assert not ready
    assert "clock" in why
    assert desk.pipeline.source.status().flow is Flow.PAUSED
    assert desk.store.rejected() == {}
    desk.now = right
    assert readiness(desk) == (True, "")
    assert desk.rows() == desk.written
    assert desk.store.rejected() == {}


def test_a_clock_that_falls_behind_while_rows_come_loses_nothing(desk: Desk) -> None:
    for half in range(20):
        desk.now = MIDNIGHT + half * HALF_HOUR + HALF_HOUR
        desk.write(half)
        assert readiness(desk) == (True, "")
    for half in range(20, 30):
        desk.now = MIDNIGHT + half * HALF_HOUR - 6 * HOUR
        desk.write(half)
        assert not readiness(desk)[0]
    desk.now = MIDNIGHT + 31 * HALF_HOUR
    assert readiness(desk) == (True, "")
    assert (desk.rows(), desk.store.rejected()) == (desk.written, {})


def test_a_backlog_that_reaches_into_the_future_is_not_read_to_its_end(desk: Desk) -> None:
    desk.write(*range(30))
    desk.now = MIDNIGHT + 20 * HALF_HOUR
    assert not readiness(desk)[0]
    desk.now = MIDNIGHT + 30 * HALF_HOUR
    assert readiness(desk) == (True, "")
    assert (desk.rows(), desk.store.rejected()) == (desk.written, {})


def test_one_writer_whose_clock_is_ahead_does_not_hold_up_the_others(desk: Desk) -> None:
    desk.write(0, name="log-b.jsonl")
    desk.now = MIDNIGHT + HALF_HOUR
    assert readiness(desk) == (True, "")
    for half in range(1, 12):
        desk.now = MIDNIGHT + (half + 1) * HALF_HOUR
        desk.write(half + 20, rows=2, name="log-a.jsonl")
        readiness(desk)
        desk.write(half, name="log-b.jsonl")
        readiness(desk)
    saved = desk.store.load()
    assert len(saved.slices) >= 9, "the others are diagnosed"
    assert set(desk.store.rejected()) == {"future"}


# The configuration


@pytest.mark.parametrize("rows", [3, 99, 40_000])
def test_a_configuration_that_understands_no_row_loses_none(desk: Desk, rows: int) -> None:
    desk.write(*range(3), rows=rows // 3)
    reconfigured(desk, lambda text: text.replace('time = "at"', 'time = "airline"'))
    for _ in range(3):
        ready, why = readiness(desk)
        assert not ready
        assert "cannot be understood" in why
    assert desk.store.load().position is None
    assert desk.store.rejected() == {}
    reconfigured(desk, lambda text: text.replace('time = "airline"', 'time = "at"'))
    assert readiness(desk) == (True, "")
    assert desk.rows() == desk.written


def test_a_log_that_changes_its_form_is_held_where_it_changed(desk: Desk) -> None:
    desk.write(*range(10), rows=60)
    assert readiness(desk) == (True, "")
    before = desk.store.load().position
    with (desk.folder / "log-a.jsonl").open("a") as log:
        for n in range(1_000):
            at = MIDNIGHT + 10 * HALF_HOUR + timedelta(seconds=n)
            log.write(json.dumps({"time": at.isoformat(), "airline": "A1", "failed": 0}) + "\n")
    assert not readiness(desk)[0]
    assert desk.store.load().position == before
    reconfigured(desk, lambda text: text.replace('time = "at"', 'time = "time"'))
    assert readiness(desk) == (True, "")
    assert (desk.rows(), desk.store.rejected()) == (600 + 1_000, {})


def test_a_condition_that_leaves_out_every_row_is_told(desk: Desk) -> None:
    desk.write(*range(12))
    paths = 'paths = ["log-*.jsonl"]'
    reconfigured(desk, lambda text: text.replace(paths, paths + "\nwhere = \"airline == 'a1'\""))
    for _ in range(2):
        ready, why = readiness(desk)
        assert not ready
        assert "`source.where` leaves out every row so far; for example" in why
    reconfigured(desk, lambda text: text.replace("'a1'", "'A1'"))
    assert readiness(desk) == (True, "")
    assert desk.rows() == desk.written // 3 + desk.store.rejected()["excluded"]
    desk.start()
    desk.folder.joinpath("log-b.jsonl").write_text(
        "".join(
            json.dumps(
                {"at": (MIDNIGHT + 13 * HALF_HOUR).isoformat(), "airline": "A2", "failed": 0}
            )
            + "\n"
            for _ in range(200)
        )
    )
    assert readiness(desk) == (True, ""), "a quiet hour of a condition that has been true"


# What is no more than bad data


def test_a_stretch_of_bad_rows_is_read_through_when_what_follows_is_sound(desk: Desk) -> None:
    garbage(desk, 300)
    desk.write(*range(10), rows=60, name="log-b.jsonl")
    assert readiness(desk) == (True, "")
    assert desk.store.rejected() == {"not_json": 300}
    assert desk.rows() == desk.written + 300


def test_it_goes_on_by_itself_when_sound_rows_come(desk: Desk) -> None:
    garbage(desk, 300, "log-a.jsonl")
    assert not readiness(desk)[0]
    garbage(desk, 10, "log-b.jsonl")
    assert not readiness(desk)[0]
    desk.write(*range(40), rows=60, name="log-b.jsonl")
    assert readiness(desk) == (True, "")
    assert desk.store.rejected() == {"not_json": 310}
    assert desk.rows() == desk.written + 310


def test_a_few_bad_lines_among_good_ones_hold_nothing(desk: Desk) -> None:
    for half in range(6):
        desk.write(half)
        readiness(desk)
        garbage(desk, 1)
        assert readiness(desk) == (True, "")
    assert desk.store.rejected() == {"not_json": 6}


def test_a_limit_of_one_holds_nothing(desk: Desk) -> None:
    line = 'paths = ["log-*.jsonl"]'
    reconfigured(desk, lambda text: text.replace(line, line + "\nmax_rejected_ratio = 1"))
    desk.now = MIDNIGHT
    garbage(desk, 200)
    desk.write(40)
    assert readiness(desk) == (True, "")
    assert desk.store.rejected() == {"not_json": 200, "future": ROWS}


def test_nothing_is_lost_when_the_store_fails_while_it_goes_on(desk: Desk) -> None:
    garbage(desk, 300)
    assert not readiness(desk)[0]
    desk.write(*range(40), rows=60)
    desk.start()  # killed and started again in the middle
    assert readiness(desk) == (True, "")
    assert desk.rows() == desk.written + 300
    assert replace(desk.pipeline.source.status(), detail="").flow is Flow.READING


# A clock that was ahead


def test_a_clock_that_was_ahead_and_is_put_right_is_told_until_its_time_has_passed(
    desk: Desk,
) -> None:
    for half in range(10):
        desk.now = MIDNIGHT + half * HALF_HOUR + HALF_HOUR
        desk.write(half)
        assert readiness(desk) == (True, "")
    desk.now += 2 * HALF_HOUR
    assert [tick.diagnosis.rows for tick in desk.pipeline.silence()] == [ROWS, 0]
    desk.now -= 2 * HALF_HOUR
    desk.write(9.9)
    ready, why = readiness(desk)
    assert not ready
    assert "the clock was set back" in why
    for half in range(10, 14):
        desk.now = MIDNIGHT + half * HALF_HOUR + HALF_HOUR
        desk.write(half)
        ready, _ = readiness(desk)
    assert ready
    assert (desk.rows(), desk.store.rejected()) == (desk.written, {})


def test_jobs_that_wait_for_a_time_of_the_wrong_clock_are_planned_anew(desk: Desk) -> None:
    state = LiveState(desk.store, Metrics())
    worker = Worker(desk.pipeline, state, Outbox(desk.store, []), lambda: desk.now)
    scheduler = schedule(worker, replace_poll(desk), state.metrics)
    scheduler.start()
    try:
        for job in scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC) + HOUR)
        desk.write(0)
        reschedule(scheduler, replace_poll(desk))
        deadline = time.monotonic() + 5
        while desk.store.load().position is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert desk.store.load().position is not None
    finally:
        scheduler.shutdown(wait=True)


def replace_poll(desk: Desk) -> Config:
    return replace(desk.config, source=replace(desk.config.source, poll=timedelta(seconds=0.1)))


# Paths that match nothing


def test_a_daemon_without_a_file_is_not_ready_until_there_is_one(desk: Desk) -> None:
    for _ in range(2):
        ready, why = readiness(desk)
        assert not ready
        assert why == f"source: {desk.folder}/log-*.jsonl matches no file; it is tried again"
    assert desk.pipeline.source.status().flow is Flow.AWAY
    assert state_of(desk, "away") == 1
    desk.write(*range(3))
    assert readiness(desk) == (True, "")
    assert state_of(desk, "away") == 0
    assert desk.rows() == desk.written


def test_a_log_that_is_gone_is_missed_after_a_while(desk: Desk) -> None:
    desk.write(*range(4))
    desk.now = MIDNIGHT + 4 * HALF_HOUR
    assert readiness(desk) == (True, "")
    log = desk.folder / "log-a.jsonl"
    log.rename(desk.folder / "elsewhere")
    assert readiness(desk) == (True, ""), "a rotation leaves a gap, too"
    desk.now += HOUR + HALF_HOUR
    ready, why = readiness(desk)
    assert not ready
    assert "matches no file" in why
    desk.now += HALF_HOUR
    assert desk.pipeline.silence() == [], "no file is no silence"
    (desk.folder / "elsewhere").rename(log)
    assert readiness(desk) == (True, "")
    assert (desk.rows(), desk.store.rejected()) == (desk.written, {})


def test_one_of_several_paths_that_matches_nothing_is_told_once(desk: Desk) -> None:
    more = 'paths = ["log-*.jsonl", "there/is/no/such-*.jsonl"]'
    desk.write(0)
    with capture_logs() as told:
        reconfigured(desk, lambda text: text.replace('paths = ["log-*.jsonl"]', more))
        for _ in range(3):
            assert readiness(desk) == (True, "")
    paths = [entry["path"] for entry in told if "path" in entry]
    missing = desk.folder / "there"
    assert paths == [f"{missing}/is/no/such-*.jsonl matches no file: there is no folder {missing}"]


def test_a_folder_that_may_not_be_looked_into_is_told_to_be(desk: Desk) -> None:
    desk.write(0)
    desk.folder.chmod(0o700 if os.geteuid() == 0 else 0)
    nobody = 65534 if os.geteuid() == 0 else os.geteuid()
    before = os.geteuid()
    os.seteuid(nobody)
    try:
        _, why = readiness(desk)
    finally:
        os.seteuid(before)
        desk.folder.chmod(0o700)
    assert "matches no file: this user may not look into /" in why


def state_of(desk: Desk, flow: str) -> float | None:
    name = "least_monitor_source_state"
    return desk.metrics.registry.get_sample_value(name, {"state": flow})
