"""What a leader's heartbeat meets in the store, and what the pages say of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from monitor.edge.leadership import Leadership
from monitor.edge.metrics import Metrics
from monitor.edge.standby import Standby, tell_store_failure, tell_store_works
from monitor.edge.status import LiveState, Status
from monitor.edge.store import StoreFailedError, Trouble
from monitor.edge.store.lease import LENGTH
from monitor.edge.store.memory import MemoryStore

BRIEF = timedelta(seconds=0.03)


class Away(MemoryStore):
    """A store whose lease cannot be renewed while `away`."""

    away = False
    asked = 0

    def renew_lease(self, length: timedelta = LENGTH) -> None:
        self.asked += 1
        if self.away:
            raise StoreFailedError("connection refused", Trouble.AWAY)


@pytest.fixture
def state() -> LiveState:
    return LiveState(Away(), Metrics(), Status(stage=""))


@pytest.fixture
def leadership(state: LiveState) -> Iterator[Leadership]:
    leadership = Leadership(state.store, BRIEF, Standby(state).heard)
    yield leadership
    leadership.release()


def until(happens: Callable[[], bool], what: str) -> None:
    for _ in range(500):
        if happens():
            return
        time.sleep(0.01)
    pytest.fail(f"not within five seconds: {what}")


def until_told(state: LiveState, reason: str) -> None:
    until(lambda: state.status.reason == reason, reason)


def works(state: LiveState) -> float | None:
    return state.metrics.registry.get_sample_value("least_monitor_store_up")


def test_the_heartbeat_alone_tells_that_the_store_is_away(
    state: LiveState, leadership: Leadership
) -> None:
    """A daemon that can read nothing writes nothing: no other step would meet the store."""
    store = state.store
    assert isinstance(store, Away)
    state.change(source_trouble="source: no broker")
    assert leadership.acquire(threading.Event())
    store.away = True
    until_told(state, "store: connection refused")
    assert works(state) == 0
    assert not state.status.ready
    store.away = False
    until_told(state, "source: no broker")
    assert works(state) == 1


def test_one_trouble_in_other_words_is_told_once(state: LiveState) -> None:
    with capture_logs() as told:
        for words in ("connection closed", "connection refused"):
            tell_store_failure(state, StoreFailedError(words, Trouble.AWAY))
        tell_store_failure(state, StoreFailedError("disk full", Trouble.DISK_FULL))
    assert [entry["trouble"] for entry in told] == ["away", "disk_full"]
    assert "disk full" in state.status.reason


class Slow(LiveState):
    """Another thread may come in before every change."""

    def change(self, **changes: object) -> None:
        time.sleep(0.001)
        super().change(**changes)


def test_two_threads_that_meet_one_trouble_tell_it_once() -> None:
    """Every round, both meet the trouble at once, then both see that it is over."""
    rounds, meeting = 30, threading.Barrier(2)
    state = Slow(Away(), Metrics())

    def meet() -> None:
        for _ in range(rounds):
            meeting.wait()
            tell_store_failure(state, StoreFailedError("connection closed", Trouble.AWAY))
            meeting.wait()
            tell_store_works(state)

    with capture_logs() as told:
        threads = [threading.Thread(target=meet) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert [entry["log_level"] for entry in told] == ["error", "info"] * rounds
    assert works(state) == 1


def test_a_heartbeat_that_goes_well_hides_no_trouble_of_others(
    state: LiveState, leadership: Leadership
) -> None:
    """A full disk may take a lease of a few bytes, and no slice."""
    store = state.store
    assert isinstance(store, Away)
    state.change(store_trouble="disk full")
    assert leadership.acquire(threading.Event())
    before = store.asked
    until(lambda: store.asked > before + 2, "three more heartbeats")
    assert state.status.reason == "store: disk full"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status(), "starting"),
        (Status(stage="catching up"), "catching up"),
        (Status(stage="catching up", source_trouble="source: gone"), "source: gone"),
        (Status(stage="", source_trouble="source: gone", store_trouble="full"), "store: full"),
        (Status(stage=""), ""),
    ],
)
def test_the_deepest_trouble_is_the_reason(status: Status, reason: str) -> None:
    assert status.reason == reason
    assert status.ready is (not reason)
