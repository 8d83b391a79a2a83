"""Metrics, health, the interface for programs and the console, over HTTP.

On loopback reading is free and only changes ask for the token; bound to any other address
everything but the health checks asks for it. Programs send ``Authorization: Bearer TOKEN``;
browsers may read with the token as the password of HTTP Basic.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from monitor.edge.console import NEWEST, Console
from monitor.edge.http.api import Api, json
from monitor.edge.http.forms import Forms
from monitor.edge.http.guard import Guard, ReadOnlyStandby, is_loopback
from monitor.edge.status import AppState
from monitor.edge.store import (
    ConflictError,
    IncidentNotFoundError,
    SilenceNotFoundError,
    StoreError,
)

_START_SECONDS = 10.0
_STOP_SECONDS = 5.0


class ServeError(Exception):
    """The server cannot start; the message says what to do about it."""


def make_app(state: AppState, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The ASGI application.

    Args:
        state: what to show.
        host: the address it will be bound to; decides who may read.
        token: secret for changes, and for reading from elsewhere.
    """
    api, console, forms = Api(state), Console(), Forms(state, token)

    def overview(request: Request) -> Response:
        method = state.status.method
        newest = state.store.incidents(unresolved=True, method=method, limit=NEWEST)
        return console.overview(
            state.status,
            newest,
            state.store.open_counts(method),
            state.store.outbox(),
            state.store.parked(5),
        )

    def incidents(request: Request) -> Response:
        found, following = api.find(request, state.status.method)
        return console.incidents(state.status, found, following, dict(request.query_params))

    def incident(request: Request) -> Response:
        found = state.store.incident(request.path_params["id"])
        label = state.store.labels().get(found.id)
        history = state.store.audit(found.id)
        return console.incident(
            state.status, found, history, label, token is not None, api.hush(found)
        )

    def silences(request: Request) -> Response:
        match = request.query_params.get("match", "")
        return console.silences(state.status, state.store.silences(), match, token is not None)

    def graph(request: Request) -> Response:
        return console.graph(state.status, request.query_params.get("node") or None)

    def failure(request: Request, error: Exception) -> Response:
        status, reason = _explain(error)
        if request.url.path.startswith("/api/") or status == 401:
            return json({"error": reason}, status)
        return console.error(state.status, status, reason)

    return Starlette(
        routes=[
            Route("/", overview),
            Route("/incidents", incidents),
            Route("/incidents/{id}", incident),
            Route("/incidents/{id}/acknowledge", forms.acknowledge, methods=["POST"]),
            Route("/incidents/{id}/label", forms.label, methods=["POST"]),
            Route("/silences", silences),
            Route("/silences", forms.silence, methods=["POST"]),
            Route("/silences/{id}/expire", forms.expire_silence, methods=["POST"]),
            Route("/graph", graph),
            Route("/console.css", console.css),
            Route("/metrics", api.metrics),
            Route("/healthz", api.healthz),
            Route("/readyz", api.readyz),
            Route("/api/v1/status", api.status),
            Route("/api/v1/incidents", api.incidents),
            Route("/api/v1/incidents/{id}", api.incident),
            Route("/api/v1/incidents/{id}/acknowledge", api.acknowledge, methods=["POST"]),
            Route("/api/v1/incidents/{id}/label", api.label, methods=["POST"]),
            Route("/api/v1/silences", api.silences),
            Route("/api/v1/silences", api.silence, methods=["POST"]),
            Route("/api/v1/silences/{id}/expire", api.expire_silence, methods=["POST"]),
            Route("/api/v1/graph", api.graph),
            Route("/api/v1/rejected", api.rejected),
            Route("/api/v1/openapi.json", api.openapi),
        ],
        exception_handlers={HTTPException: failure, StoreError: failure},
        middleware=[
            Middleware(Guard, host=host, token=token),
            Middleware(ReadOnlyStandby, state=state),
            Middleware(GZipMiddleware, minimum_size=1000),
        ],
    )


def _explain(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    if isinstance(error, IncidentNotFoundError | SilenceNotFoundError):
        return 404, str(error)
    if isinstance(error, ConflictError):
        return 409, str(error)
    return 503, str(error)


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
    state: AppState, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> Handle:
    """Serve in a thread of its own, and return once it answers.

    Args:
        state: what to show.
        host: address to bind to.
        port: 0 takes a free one.
        token: secret for changes; without it nothing can be changed over HTTP.

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
    config = uvicorn.Config(
        make_app(state, host, token),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True
    )
    thread.start()
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ServeError(f"the HTTP server on {host} port {port} did not come up")
        time.sleep(0.005)
    shown = f"[{host}]" if ":" in host else host
    return Handle(f"http://{shown}:{listener.getsockname()[1]}", server, thread)
