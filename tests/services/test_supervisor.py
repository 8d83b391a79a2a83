"""systemd's side of the daemon: a real datagram socket hears what systemd would hear."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.edge.supervisor import Supervisor
from tests.services.brokers import free_port
from tests.services.daemons import Logs, Running, launching

pytestmark = pytest.mark.service


class Ear:
    """A socket as systemd has one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.heard: list[str] = []

    def until(self, line: str, seconds: float = 60) -> str:
        """The first line that begins so, among all that have not been asked for before."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                lines = self.socket.recv(4096).decode().split("\n")
            except TimeoutError:
                break
            self.heard += lines
            if found := [one for one in lines if one.startswith(line)]:
                return found[0]
        raise AssertionError(f"no {line} in {self.heard}")


@pytest.fixture(params=["a path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ear]:
    address = str(tmp_path / "notify") if request.param == "a path" else f"@{tmp_path}/notify"
    ear = Ear(address)
    yield ear
    ear.socket.close()


def test_systemd_hears_of_start_life_and_end(tmp_path: Path) -> None:
    logs, ear = Logs(tmp_path, slices=2), Ear(str(tmp_path / "notify"))
    logs.appear(2)
    port = free_port()
    with (
        ear.socket,
        launching(
            lambda: Running(
                logs.configuration("one", port),
                tmp_path / "one.log",
                port,
                logs.at,
                [sys.executable, "-m", "tests.services.light"],
                environment={"NOTIFY_SOCKET": ear.address, "WATCHDOG_USEC": "900000"},
            )
        ) as launch,
    ):
        daemon = launch()
        assert ear.until("READY=1") == "READY=1"
        assert daemon.get("/healthz") is not None, "started means that pages answer"
        assert "; data up to 2026" in ear.until("STATUS=watching")
        ear.until("WATCHDOG=1", seconds=5)
        daemon.stop()
        ear.until("STOPPING=1", seconds=5)


def test_a_step_that_hangs_is_not_called_alive(ear: Ear) -> None:
    stop, hangs = threading.Event(), threading.Event()
    supervisor = Supervisor({"NOTIFY_SOCKET": ear.address, "WATCHDOG_USEC": "150000"})
    supervisor.watch(stop, lambda: "two\nlines", lambda _: not hangs.is_set())
    ear.until("STATUS=two lines", 5)
    ear.until("WATCHDOG=1", 5)
    hangs.set()
    time.sleep(0.1)
    ear.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while ear.socket.recv(4096):
            pass
    time.sleep(0.3)
    with pytest.raises(BlockingIOError):
        ear.socket.recv(4096)
    stop.set()
    supervisor.ended()
    ear.until("STOPPING=1", 5)


def test_without_a_supervisor_nothing_is_sent() -> None:
    supervisor = Supervisor({"WATCHDOG_USEC": "1000000"})
    assert supervisor.watchdog_seconds is None
    supervisor.watch(threading.Event(), lambda: "", lambda _: True)
    supervisor.ended()


def test_the_watchdog_of_another_process_is_not_ours(ear: Ear) -> None:
    other = {"NOTIFY_SOCKET": ear.address, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    assert Supervisor(other).watchdog_seconds is None


def test_a_supervisor_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")
