"""Metrics, health, the interface for programs and the console, over HTTP.

On loopback reading is free and only changes ask for the token; bound to any other address
everything but the health checks asks for it, and so does everything that comes through a proxy
under the name of ``public_url``. Programs send ``Authorization: Bearer TOKEN``; people sign in
with the token, or read with it as the password of HTTP Basic.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from monitor.edge.console import Console
from monitor.edge.http.api import Api
from monitor.edge.http.connections import PatientProtocol
from monitor.edge.http.forms import Forms
from monitor.edge.http.guard import Guard, ReadOnlyStandby, is_loopback
from monitor.edge.http.pages import Pages
from monitor.edge.http.problems import problem, refusal
from monitor.edge.http.sharing import Sharing
from monitor.edge.http.signing import Sessions
from monitor.edge.status import AppState
from monitor.edge.store import StoreError

_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_THREADS = 2
"""That ask the store and draw. More would only wait for Python's lock, in the tick's way."""


class ServeError(Exception):
    """The server cannot start; the message says what to do about it."""


def make_app(
    state: AppState,
    host: str = "127.0.0.1",
    token: str | None = None,
    public_url: str | None = None,
) -> Starlette:
    """The ASGI application.

    Args:
        state: what to show.
        host: the address it will be bound to; decides who may read.
        token: secret for changes, and for reading from elsewhere.
        public_url: where people reach it through a proxy.
    """
    public = urlsplit(public_url or "")
    api, console = Api(state), Console()
    sessions = Sessions(token, secure=public.scheme == "https")
    pages = Pages(state, api, console, sessions, can_change=token is not None)
    forms = Forms(state, token, sessions, console, pages.viewer)

    def failure(request: Request, error: Exception) -> Response:
        refused = refusal(error)
        if request.url.path.startswith(("/api/", "/-/")):
            return problem(refused)
        page = console.error(
            pages.viewer(request), state.status, refused.status_code, refused.detail
        )
        page.headers.update(refused.headers or {})
        return page

    return Starlette(
        routes=[
            *pages.routes(),
            *forms.routes(),
            _read_or_add("/silences", pages.silences, forms.silence),
            _read_or_add("/sign-in", pages.sign_in, forms.sign_in),
            Route("/metrics", api.metrics),
            Route("/healthz", api.healthz),
            Route("/readyz", api.readyz),
            Route("/-/reload", api.reload, methods=["POST"]),
            Route("/api/v1/status", api.status),
            Route("/api/v1/incidents", api.incidents),
            Route("/api/v1/incidents/{id}", api.incident),
            Route("/api/v1/incidents/{id}/acknowledge", api.acknowledge, methods=["POST"]),
            Route("/api/v1/incidents/{id}/label", api.label, methods=["POST"]),
            _read_or_add("/api/v1/silences", api.silences, api.add_silence),
            Route("/api/v1/silences/{id}", api.silence),
            Route("/api/v1/silences/{id}/expire", api.expire_silence, methods=["POST"]),
            Route("/api/v1/graph", api.graph),
            Route("/api/v1/rejected", api.rejected),
            Route("/api/v1/explore", api.explore),
            Route("/api/v1/openapi.json", api.openapi),
        ],
        exception_handlers={HTTPException: failure, StoreError: failure},
        middleware=[
            Middleware(
                Guard,
                host=host,
                token=token,
                sessions=sessions,
                failure=failure,
                public_host=public.hostname,
            ),
            Middleware(ReadOnlyStandby, state=state, failure=failure),
            Middleware(Sharing, state=state),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=4),
        ],
    )


def _read_or_add(
    path: str,
    read: Callable[[Request], Response],
    add: Callable[[Request], Awaitable[Response]],
) -> Route:
    """One route for both: of two, the first alone would say which methods there are."""

    async def either(request: Request) -> Response:
        if request.method == "POST":
            return await add(request)
        return cast(Response, await run_in_threadpool(read, request))

    return Route(path, either, methods=["GET", "POST"])


@dataclass(frozen=True, slots=True)
class Handle:
    """A running server."""

    url: str
    """Where it answers, without a slash at the end."""
    _server: uvicorn.Server
    _thread: threading.Thread

    def stop(self) -> None:
        """End it; requests under way get a moment to finish."""
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)


def serve(
    state: AppState,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    public_url: str | None = None,
) -> Handle:
    """Serve in a thread of its own, and return once it answers.

    Args:
        state: what to show.
        host: address to bind to.
        port: 0 takes a free one.
        token: secret for changes; without it nothing can be changed over HTTP.
        public_url: where people reach it through a proxy.

    Raises:
        ServeError: the address is taken or not ours, or it is open to others without a token.
    """
    if not is_loopback(host) and not token:
        raise ServeError(
            f"[http] host {host!r} can be reached by others: set [http] token_file, "
            'or host = "127.0.0.1"'
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another "
            "[http] port (0 takes any free one)"
        ) from error
    # Connections inherit it. asyncio sets it for sockets that say TCP by number, and these do not:
    # every answer of two packets would wait for the reader's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        make_app(state, host, token, public_url),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        loop="asyncio",
        http=PatientProtocol,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)

    async def answer() -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        await server.serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(answer()), name="http", daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ServeError(f"the HTTP server on {host} port {port} did not come up")
        time.sleep(0.005)
    shown = f"[{host}]" if ":" in host else host
    return Handle(f"http://{shown}:{listener.getsockname()[1]}", server, thread)
