"""Who may ask, and the headers that every answer carries."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import urlencode

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.edge.http.answers import zipped
from monitor.edge.http.problems import Refusal, occurrence, problem, refusal
from monitor.edge.http.signing import COOKIE, THEME_COOKIE, Sessions
from monitor.edge.status import AppState

Failure = Callable[[Request, Exception], Response]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = structlog.get_logger("http")

_OWN_FORMS = ("/sign-in", "/sign-out", "/theme")
"""They change nothing but the browser's own cookies."""

_OPEN_TO_ALL = ("/healthz", "/readyz", "/console.css", "/console.js", *_OWN_FORMS)
SAFE = ("GET", "HEAD")
"""They change nothing."""

FORMS = ("/incidents/", "/silences", *_OWN_FORMS)
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
    """ASGI middleware: access first, headers last; what breaks behind it is an answer too.

    Args:
        app: what is behind.
        host: the address listened on; on loopback reading is free.
        token: for changes, and for reading from elsewhere.
        sessions: who has signed in reads, too.
        failure: answers people with a page, programs with a problem.
        public_host: by this name people come through a proxy; they come from elsewhere.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        token: str | None,
        sessions: Sessions,
        failure: Failure,
        public_host: str | None = None,
    ) -> None:
        self._app = app
        self._local = is_loopback(host)
        self._token, self._sessions = token, sessions
        self._failure, self._public_host = failure, public_host

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
            answer = problem(refused)
            if refused.status_code == 401 and _is_browser(scope):
                query = scope["query_string"].decode("latin-1")
                wanted = scope["path"] + (f"?{query}" if query else "")
                answer = RedirectResponse(f"/sign-in?{urlencode({'next': wanted})}", 303)
            await answer(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            name = occurrence()
            _log.exception("a request met a bug", path=scope["path"], instance=name)
            if begun:
                raise
            answer = problem(refusal(error), name)
            if _is_browser(scope):
                reason = f"A fault of the monitor's; its log has it under {name}."
                with suppress(Exception):  # the page may be what is broken
                    answer = self._failure(Request(scope), Refusal(500, reason, "bug"))
            await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        name = _hostname(headers.get("host", ""))
        local = self._local and is_loopback(name)
        if self._local and not local and name != self._public_host:
            # Another site's name that resolves to 127.0.0.1 would let that site read us.
            reason = "ask for localhost or 127.0.0.1, or set [http] public_url to this address"
            return Refusal(421, reason)
        if any(not _cookie(scope, name).isascii() for name in (COOKIE, THEME_COOKIE)):
            reason = "a cookie of ours is not ASCII: delete the cookies of this site"
            return Refusal(400, reason)
        change = scope["method"] not in SAFE
        if change and scope["path"].startswith(FORMS):
            # The form itself carries the token, and its handler asks for it; what reading
            # needs is still needed here.
            change = False
        if not change and (local or scope["path"] in _OPEN_TO_ALL):
            return None
        if self._token is None:
            reason = "no token is set: [http] token_file in the configuration allows this"
            return Refusal(403, reason, "no-token")
        if _matches(headers, self._token, passwords=not change):
            return None
        if not change and self._sessions.signed_in(HTTPConnection(scope).cookies):
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


def _cookie(scope: Scope, name: str) -> str:
    return HTTPConnection(scope).cookies.get(name, "")


def _is_browser(scope: Scope) -> bool:
    """A person who can be asked to sign in, and did not try in another way."""
    headers = Headers(scope=scope)
    asks = scope["method"] in SAFE and "text/html" in headers.get("accept", "")
    return asks and "authorization" not in headers and not scope["path"].startswith("/api/")


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
        failure: answers people with a page, programs with a problem.
    """

    def __init__(self, app: ASGIApp, state: AppState, failure: Failure) -> None:
        self._app, self._state, self._failure = app, state, failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        leader = self._state.status.standby
        changes = scope["type"] == "http" and scope["method"] not in SAFE
        if changes and leader and scope["path"] not in (*_OWN_FORMS, "/-/reload"):
            reason = f"this process stands by and shows only; {leader} leads: change it there"
            refused = self._failure(Request(scope), Refusal(409, reason, "standby"))
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)
