"""Real servers that take what notifiers send, and a first incident to send."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from monitor.domain import Change, Incident, Notification, State
from monitor.edge.notifiers import DeliveryError
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from tests.samples import NOON, finding

HALF_HOUR = timedelta(minutes=30)

FINDING = finding(
    path=("airline=AC", "fare_source=3", "reserve"), codes=("E17",), began=NOON - HALF_HOUR
)
INCIDENT = Incident(
    id="a1b2",
    state=State.OPEN,
    opened_at=NOON,
    updated_at=NOON,
    last_seen_at=NOON,
    finding=FINDING,
    latest=FINDING,
    causes=(FINDING.cause,),
)
OPENED = Notification(INCIDENT, Change.OPENED, NOON)
ENDED = replace(
    INCIDENT, state=State.RESOLVED, resolved_at=NOON + 5 * HALF_HOUR, updated_at=NOON + HALF_HOUR
)
RESOLVED = Notification(ENDED, Change.RESOLVED, NOON + 5 * HALF_HOUR)


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Receiver:
    """A web server that takes what comes and answers as told."""

    url: str = ""
    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    """One for each request to come; then 204."""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    delay_seconds: float = 0.0


@contextmanager
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(state.delay_seconds)
            state.requests.append((dict(self.headers), body))
            code, headers, text = state.answers.pop(0) if state.answers else (204, {}, "")
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mailbox:
    """A mail server that keeps what it accepts."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refuse: dict[str, str] = field(default_factory=dict)
    """Recipient → answer."""
    answer: str = "250 OK"
    """To the whole mail."""

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
        return self.answer


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        box.port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=box.port)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


@dataclass
class Told:
    """A notifier in memory that fails as told."""

    name: str = "told"
    failures: list[DeliveryError] = field(default_factory=list)
    seen: list[Notification] = field(default_factory=list)
    attempts: int = 0

    def send(self, notification: Notification) -> None:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.seen.append(notification)

    def close(self) -> None:
        pass


def stored(*notifications: Notification, to: tuple[str, ...] = ("told",)) -> MemoryStore:
    store = MemoryStore()
    store.commit(
        Work(
            incidents=tuple({n.incident.id: n.incident for n in notifications}.values()),
            notifications=notifications,
            notifiers=to,
        )
    )
    return store
