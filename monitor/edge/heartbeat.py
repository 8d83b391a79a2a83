"""A dead man's switch in Healthchecks' manner: silence, not a message, raises the alarm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from monitor.config import HeartbeatSettings
from monitor.edge.posting import Poster, UnansweredError

AGAIN = timedelta(minutes=5)
"""A failure that lasts is told again this often."""

_LONGEST = 10_000

_log = structlog.get_logger("heartbeat")


class Heartbeat:
    """Pings in a thread of its own, so that no tick waits for it.

    Only the newest of each kind waits to be sent: while a backlog is diagnosed there are more
    ticks than anyone wants to hear of. A ping that does not arrive is not sent again, the next
    tick brings the next one.

    Args:
        settings: where to.
        now: the clock.
    """

    def __init__(
        self,
        settings: HeartbeatSettings,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings, self._now = settings, now
        self._waiting: dict[str, str] = {}
        """``/start``, ```` or ``/fail`` → body, in order."""
        self._failed_at: datetime | None = None
        self._woken = threading.Condition()
        self._stopping = False
        self._poster = Poster(settings.timeout)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def begins(self) -> None:
        """A tick begins."""
        if self._settings.start:
            self._ping("/start", "")

    def done(self, text: str = "") -> None:
        """A tick is committed."""
        self._failed_at = None
        self._ping("", text)

    def fails(self, reason: str) -> None:
        """No tick can be made."""
        now = self._now()
        if self._failed_at is None or not timedelta(0) <= now - self._failed_at < AGAIN:
            self._failed_at = now
            self._ping("/fail", reason)

    def stop(self) -> None:
        """Send what waits, once, and end."""
        with self._woken:
            self._stopping = True
            self._woken.notify()
        self._thread.join(2 * self._settings.timeout.total_seconds())

    def _ping(self, what: str, body: str) -> None:
        with self._woken:
            if what == "/start":
                self._waiting.clear()  # what was before it is over
            self._waiting.pop(what, None)
            self._waiting[what] = body
            self._woken.notify()

    def _run(self) -> None:
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                what = next(iter(self._waiting))
                body = self._waiting.pop(what)
            self._send(what, body)

    def _send(self, what: str, body: str) -> None:
        url, question, query = self._settings.url.partition("?")
        try:
            answer = self._poster.post(
                url.rstrip("/") + what + question + query, body.encode()[:_LONGEST]
            )
        except UnansweredError as error:
            _log.warning("ping failed", ping=what or "done", error=str(error))
            return
        if not 200 <= answer.code < 300:
            _log.warning("ping failed", ping=what or "done", error=f"answered {answer.code}")
