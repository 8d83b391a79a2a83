"""Connections that say nothing end, and never take the descriptors that files need."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from monitor.edge.http import connections, serve
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store.memory import MemoryStore


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 2.0)
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 3.0)
    handle = serve(LiveState(MemoryStore(), Metrics(), Status(stage="")))
    yield handle.url
    handle.stop()


def connect(url: str, says: bytes) -> socket.socket:
    parts = urlsplit(url)
    opened = socket.create_connection((parts.hostname, parts.port), timeout=5)
    opened.sendall(says)
    return opened


def ended(opened: socket.socket, seconds: float) -> bool:
    """Whether the other side ends it in time, whatever it says before."""
    opened.settimeout(seconds)
    try:
        while opened.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize("says", [b"", b"GET", REQUEST, REQUEST + b"\r\n" + REQUEST])
def test_a_connection_that_sends_no_whole_request_is_ended(url: str, says: bytes) -> None:
    with connect(url, says) as opened:
        assert ended(opened, 10)


def test_one_that_goes_on_letter_by_letter_is_ended_too(url: str) -> None:
    with connect(url, REQUEST) as opened:
        began = time.monotonic()
        try:
            while time.monotonic() - began < 15:
                opened.sendall(b"x")
                time.sleep(0.1)
        except OSError:
            pass
        assert time.monotonic() - began < 10


def test_a_body_that_does_not_come_is_not_waited_for(url: str) -> None:
    head = (
        b"POST /api/v1/silences HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
        b"Content-Type: application/json\r\n\r\n{"
    )
    with connect(url, head) as opened:
        assert ended(opened, 10)


def test_hundreds_of_connections_take_few_descriptors_and_leave_the_door_open(url: str) -> None:
    before = descriptors()
    idle = [connect(url, REQUEST) for _ in range(300)]
    try:
        most = connections.MOST_CONNECTIONS + 2
        deadline = time.monotonic() + 1.9  # sooner than they would be ended anyway
        while (ours := descriptors() - before - len(idle)) > most:  # both ends are ours
            assert time.monotonic() < deadline, ours
            time.sleep(0.02)
        assert httpx2.get(f"{url}/healthz", timeout=5).text == "ok"
    finally:
        for one in idle:
            one.close()


def test_a_client_that_keeps_its_connection_is_served_again_and_again(url: str) -> None:
    with httpx2.Client() as client:
        for _ in range(5):
            assert client.get(f"{url}/healthz").text == "ok"
            time.sleep(0.3)
