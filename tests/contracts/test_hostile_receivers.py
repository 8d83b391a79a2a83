"""A receiver that answers slowly, without end or with a bomb costs its own deliveries only."""

from __future__ import annotations

import resource
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.config import HeartbeatSettings
from monitor.domain import Notification
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.notifiers import DeliveryError, Notifier
from monitor.edge.notifiers.alertmanager import AlertmanagerNotifier
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.notifiers.webhook import WebhookNotifier
from monitor.edge.posting import Poster, UnansweredError, shown
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from tests.contracts.receivers import INCIDENT, NOON, OPENED, Clock, Told, receiver

Answer = Callable[[socket.socket], None]
LIMIT = timedelta(seconds=1)
LARGE = 300 << 20
"""Bytes that no exchange may take into memory."""


def never(connection: socket.socket) -> None:
    time.sleep(5)


def drips_its_head(connection: socket.socket) -> None:
    for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000:
        connection.sendall(bytes([letter]))
        time.sleep(0.2)


def drips_its_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.2)


def floods(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b"x" * (1 << 20))


def floods_its_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"x" * 10_000 + b"\r\n")


def bombs(connection: socket.socket) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(400)) + packer.flush()
    head = f"HTTP/1.1 500 Oh\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    connection.sendall(head.encode() + packed)


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """The address of a server that answers every request so."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                self.request.recv(1 << 16)
                answer(self.request)
            except OSError:
                pass  # the client has gone, as it should

    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


HOSTILE = [never, drips_its_head, drips_its_body, floods, floods_its_head, bombs]


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
@pytest.mark.parametrize("answer", HOSTILE)
def test_an_exchange_ends_in_time_and_takes_little_memory(answer: Answer, kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with answering(answer) as url:
        notifier: Notifier = (
            WebhookNotifier(url, timeout=LIMIT)
            if kind == "webhook"
            else AlertmanagerNotifier([url], timeout=LIMIT)
        )
        began = time.monotonic()
        with pytest.raises(DeliveryError) as caught:
            notifier.send(OPENED)
        assert time.monotonic() - began < 3
        assert not caught.value.permanent
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < LARGE


@pytest.mark.parametrize("answer", [drips_its_body, floods])
def test_the_others_are_told_at_once(answer: Answer) -> None:
    store, good = MemoryStore(), Told()
    with answering(answer) as url:
        bad = WebhookNotifier(url, timeout=timedelta(seconds=30), name="bad")
        outbox = Outbox(store, [bad, good], interval=timedelta(seconds=0.05))
        outbox.start()
        names = ("bad", "told")
        store.commit(Work(incidents=(INCIDENT,), notifications=(OPENED,), notifiers=names))
        outbox.wake()
        deadline = time.monotonic() + 5
        while not good.seen and time.monotonic() < deadline:
            time.sleep(0.02)
        assert good.seen == [OPENED]
        assert outbox.alive
        outbox.stop(timedelta(seconds=0.1))


def test_a_backlog_of_one_receiver_does_not_hide_the_messages_of_another() -> None:
    store, good, clock = MemoryStore(), Told(), Clock()
    many = tuple(_later(n) for n in range(1_200))
    with receiver() as hook:
        hook.answers += [(503, {}, "")] * 3
        outbox = Outbox(store, [WebhookNotifier(hook.url, name="bad"), good], now=clock)
        work = Work(incidents=(INCIDENT,), notifications=many, notifiers=("bad",))
        store.commit(work)
        store.commit(Work(notifications=(OPENED,), notifiers=("told",)))
        assert outbox.deliver() == 1
        assert good.seen == [OPENED]


def test_retry_after_rests_the_notifier_not_one_message() -> None:
    store, clock = MemoryStore(), Clock()
    with receiver() as hook:
        hook.answers.append((429, {"Retry-After": "600"}, ""))
        outbox = Outbox(store, [WebhookNotifier(hook.url, now=clock)], now=clock)
        store.commit(_work("a1b2", "c3d4"))
        assert outbox.deliver() == 0
        store.commit(_work("e5f6"))
        for _ in range(5):
            clock.now += timedelta(seconds=60)
            assert outbox.deliver() == 0
        assert len(hook.requests) == 1, "nothing else was tried meanwhile"
        clock.now += timedelta(seconds=301)
        assert outbox.deliver() == 3


def test_a_clock_set_back_does_not_prolong_the_rest() -> None:
    store, clock = MemoryStore(), Clock()
    with receiver() as hook:
        hook.answers.append((503, {"Retry-After": "600"}, ""))
        outbox = Outbox(store, [WebhookNotifier(hook.url, now=clock)], now=clock)
        store.commit(_work("a1b2"))
        assert outbox.deliver() == 0
        clock.now -= timedelta(hours=5)
        store.commit(_work("c3d4"))
        assert outbox.deliver() == 1


def test_a_heartbeat_goes_on_after_a_receiver_without_end() -> None:
    with answering(floods) as url:
        heartbeat = Heartbeat(HeartbeatSettings(url + "/ping", timeout=LIMIT))
        began = time.monotonic()
        heartbeat.done()
        heartbeat.stop()
        assert time.monotonic() - began < 3


def test_no_part_of_an_address_that_may_be_a_secret_is_in_an_error() -> None:
    url = "http://user:hookpass@127.0.0.1:1/services/SECRETPATH?key=SECRETQ"
    with pytest.raises(DeliveryError) as caught:
        WebhookNotifier(url, timeout=LIMIT).send(OPENED)
    assert "127.0.0.1:1" in str(caught.value)
    for secret in ("user", "hookpass", "SECRETPATH", "SECRETQ"):
        assert secret not in str(caught.value)
    assert shown("https://hooks.example.com") == "https://hooks.example.com"
    with pytest.raises(UnansweredError):
        Poster(LIMIT).post("ftp://nowhere/", b"")


def _later(n: int) -> Notification:
    return replace(OPENED, at=NOON + timedelta(seconds=n + 1))


def _work(*names: str) -> Work:
    incidents = tuple(replace(INCIDENT, id=name) for name in names)
    news = tuple(replace(OPENED, incident=incident) for incident in incidents)
    return Work(incidents=incidents, notifications=news, notifiers=("webhook",))
