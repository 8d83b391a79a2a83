"""Signing in: the token once, then a cookie that says who acts, for half a day.

The cookie holds no token: it is a name and an end, sealed with a key that only the daemon and who
knows the token can make. So a restart signs nobody out, and a new token signs everybody out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "least_monitor_session"
THEME_COOKIE = "least_monitor_theme"
LENGTH = timedelta(hours=12)
THEMES = ("auto", "dark", "light")

_LONGEST_COOKIE = 2000


@dataclass(frozen=True, slots=True)
class Signed:
    """Somebody who has signed in."""

    actor: str
    csrf: str
    """What every form of theirs must carry: another site cannot know it."""


class Sessions:
    """Makes and checks the cookie.

    Args:
        token: the secret; None signs nobody in.
        secure: people come by https, also where the last hop to us does not.
    """

    def __init__(self, token: str | None, secure: bool = False) -> None:
        self._key = None if token is None else _digest(token.encode(), b"least-monitor session")
        self._secure = secure

    def start(self, response: Response, request: Request, actor: str, now: datetime) -> None:
        """Sign `actor` in with this response."""
        assert self._key is not None, "without a token nobody signs in"
        until = int((now + LENGTH).timestamp())
        name = base64.urlsafe_b64encode(actor.encode()).decode().rstrip("=")
        text = f"{until}.{secrets.token_hex(8)}.{name}"
        response.set_cookie(
            COOKIE,
            f"{text}.{_digest(self._key, text.encode()).hex()}",
            max_age=int(LENGTH.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=self._secure or request.url.scheme == "https",
        )

    def signed_in(self, cookies: Mapping[str, str], now: datetime | None = None) -> Signed | None:
        """Who sends these cookies; None if nobody, or no longer."""
        value = cookies.get(COOKIE, "")
        assert value.isascii(), "the guard lets no other pass"
        text, _, seal = value.rpartition(".")
        if self._key is None or len(value) > _LONGEST_COOKIE or text.count(".") != 2:
            return None
        if not hmac.compare_digest(_digest(self._key, text.encode()).hex(), seal):
            return None
        until, _, name = text.split(".")
        if int(until) <= (now or datetime.now(UTC)).timestamp():
            return None
        try:
            actor = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):  # pragma: no cover - we sealed it ourselves
            return None
        return Signed(actor, _digest(self._key, b"csrf " + text.encode()).hex()[:32])


def theme(cookies: Mapping[str, str]) -> str:
    """The theme chosen; ``auto`` is the system's."""
    chosen = cookies.get(THEME_COOKIE, "auto")
    return chosen if chosen in THEMES else "auto"


def local_path(text: str, default: str = "/") -> str:
    """`text` if it is a page of ours, so that no link can lead elsewhere after signing in."""
    plain = text.isprintable() and text.isascii() and len(text) <= 2000
    if plain and text.startswith("/") and not text.startswith("//") and "\\" not in text:
        return text
    return default


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()
