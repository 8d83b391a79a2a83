"""Incident changes as signed JSON over HTTP.

The body is `documents.notification_document`. With a secret, the header
``X-Least-Monitor-Signature: t=UNIX,v1=HEX`` carries the HMAC-SHA256 of ``UNIX.BODY``; check it
with the raw body, and refuse a time that is minutes away: it may be a replay. The header
``Idempotency-Key`` is the same at every attempt for one notification.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from monitor.domain import Notification
from monitor.edge import documents
from monitor.edge.notifiers import DeliveryError, link_to
from monitor.edge.posting import Poster, UnansweredError, shown

SIGNATURE = "X-Least-Monitor-Signature"

_TEMPORARY = (408, 425, 429)
_LONGEST_PAUSE = timedelta(hours=1)


def sign(secret: str, at: datetime, body: bytes) -> str:
    """The signature header.

    >>> sign("s", datetime(2026, 3, 1, tzinfo=UTC), b"{}")[:16]
    't=1772323200,v1='
    """
    seconds = int(at.timestamp())
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={digest.hexdigest()}"


def check_signature(
    secret: str,
    header: str,
    body: bytes,
    now: datetime,
    tolerance: timedelta = timedelta(minutes=5),
) -> bool:
    """What a receiver does; here for receivers in Python and for the tests."""
    try:
        fields = dict(part.split("=", 1) for part in header.split(","))
        at = datetime.fromtimestamp(int(fields["t"]), UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        return False
    genuine = hmac.compare_digest(sign(secret, at, body).encode(), header.encode())
    return genuine and abs(now - at) <= tolerance


class WebhookNotifier:
    """Posts to one address.

    Args:
        url: http or https.
        secret: shared with the receiver; None leaves the signature out.
        timeout: of one attempt, from its beginning to its end.
        console_url: where people reach the console; for the link.
        name: for the outbox.
        now: the clock, for the signature.
    """

    def __init__(
        self,
        url: str,
        secret: str | None = None,
        timeout: timedelta = timedelta(seconds=10),
        console_url: str | None = None,
        name: str = "webhook",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self._url = url
        self._secret = secret
        self._console_url = console_url
        self._now = now
        self._poster = Poster(timeout, {"Content-Type": "application/json"})

    def send(self, notification: Notification) -> None:
        """See `Notifier`. A 4xx other than 408, 425 and 429 is permanent, and so is a redirect."""
        self._post((notification,))

    def send_together(self, notifications: Sequence[Notification]) -> None:
        """See `Bundling`: the first as ever, the others in ``parts``."""
        self._post(notifications)

    def _post(self, notifications: Sequence[Notification]) -> None:
        first, *others = (
            documents.notification_document(n, link_to(n.incident, self._console_url))
            for n in notifications
        )
        body = documents.dumps(first | ({"parts": others} if others else {}))
        headers = {"Idempotency-Key": delivery_id(*notifications)}
        if self._secret is not None:
            headers[SIGNATURE] = sign(self._secret, self._now(), body)
        post(self._poster, self._url, body, headers, self._now)

    def close(self) -> None:
        """See `Notifier`: nothing stays open between messages."""


def delivery_id(*notifications: Notification) -> str:
    """The same for every attempt at one message.

    It lets a receiver drop what it has already seen.
    """
    parts = [
        text
        for n in notifications
        for text in (n.incident.id, n.change.value, documents.time_text(n.at))
    ]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def post(
    poster: Poster,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    now: Callable[[], datetime],
) -> None:
    """POST, with every way of failing sorted into temporary and permanent.

    Raises:
        DeliveryError: no 2xx. It does not hold what is secret of the address.
    """
    try:
        answer = poster.post(url, body, headers)
    except UnansweredError as error:
        raise DeliveryError(f"{shown(url)}: {error}", permanent=error.permanent) from error
    if 200 <= answer.code < 300:
        return
    permanent = answer.code < 500 and answer.code not in _TEMPORARY
    text = answer.text[:200]
    raise DeliveryError(
        f"{shown(url)} answered {answer.code} {answer.phrase}" + (f": {text}" if text else ""),
        permanent=permanent,
        retry_after=None if permanent else _pause(answer.retry_after, now()),
    )


def _pause(header: str | None, now: datetime) -> timedelta | None:
    """``Retry-After`` in seconds or as a date; nonsense is ignored, eternity is cut."""
    if header is None:
        return None
    try:
        pause = (
            timedelta(seconds=min(int(header), 10**6))
            if header.isascii() and header.isdigit()
            else parsedate_to_datetime(header) - now
        )
    except (ValueError, TypeError):
        return None
    return min(max(pause, timedelta(0)), _LONGEST_PAUSE)
