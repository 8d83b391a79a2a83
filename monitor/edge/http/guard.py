"""Who may ask, and the headers that every answer carries."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.edge.http.answers import zipped
from monitor.edge.http.problems import Refusal, occurrence, problem, refusal
from monitor.edge.status import AppState

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = structlog.get_logger("http")

_OPEN_TO_ALL = ("/healthz", "/readyz")
_SAFE = ("GET", "HEAD")

FORMS = ("/incidents/", "/silences")
"""Where the console's forms are sent."""


def is_loopback(host: str) -> bool:
    """True when only this machine can reach the address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware: access first, headers last; what breaks behind it is an answer too."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app = app
        self._local = is_loopback(host)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on and add the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.add_vary_header("Authorization")
                if "etag" in headers and headers.get("content-encoding") == "gzip":
                    headers["etag"] = zipped(headers["etag"])
            elif scope["method"] == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await problem(refused)(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            name = occurrence()
            _log.exception("a request met a bug", path=scope["path"], instance=name)
            if begun:
                raise
            await problem(refusal(error), name)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if self._local and not is_loopback(_hostname(headers.get("host", ""))):
            # Another site's name that resolves to 127.0.0.1 would let that site read us.
            return Refusal(421, "ask for localhost or 127.0.0.1")
        change = scope["method"] not in _SAFE
        if change and scope["path"].startswith(FORMS):
            # The form itself carries the token, and its handler asks for it; what reading
            # needs is still needed here.
            change = False
        if not change and (self._local or scope["path"] in _OPEN_TO_ALL):
            return None
        if self._token is None:
            reason = "no token is set: [http] token_file in the configuration allows this"
            return Refusal(403, reason, "no-token")
        if _matches(headers, self._token, passwords=not change):
            return None
        bearer = 'Bearer realm="least-monitor"'
        if "authorization" in headers:
            bearer += ', error="invalid_token"'
        basic = 'Basic realm="least-monitor", charset="UTF-8"'
        challenge = bearer if change else f"{basic}, {bearer}"
        return Refusal(
            401,
            "send Authorization: Bearer TOKEN, with the token of [http] token_file",
            "unauthorized",
            headers={"WWW-Authenticate": challenge},
        )


def same_token(given: str, token: str) -> bool:
    """Compared in a time that tells nothing about where they differ."""
    return hmac.compare_digest(given.encode(), token.encode())


def _hostname(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit():
        name = host
    return name.removeprefix("[").removesuffix("]")


def _matches(headers: Mapping[str, str], token: str, passwords: bool) -> bool:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    given = value.strip()
    if scheme.lower() == "basic" and passwords:
        # Browsers send a password with every request to us, also with those that another
        # site provokes: good enough for reading, not for changes.
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return same_token(given, token)


class ReadOnlyStandby:
    """Refuses changes while another process leads: its people would see them only later.

    Args:
        app: what is behind.
        state: says who leads.
    """

    def __init__(self, app: ASGIApp, state: AppState) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        leader = self._state.status.standby
        if scope["type"] == "http" and scope["method"] not in _SAFE and leader:
            reason = f"this process stands by and shows only; {leader} leads: change it there"
            await problem(Refusal(409, reason, "standby"))(scope, receive, send)
            return
        await self._app(scope, receive, send)
