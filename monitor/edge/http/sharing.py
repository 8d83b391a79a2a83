"""One drawing for all who ask for the same page at the same moment.

During an outage many people and dashboards look at the same few pages, just when the tick needs
the processor most. A page is drawn once, and kept until the daemon has something new to show or
anything is changed over HTTP, for a second at most; who comes in the two seconds after that gets it
still, while the next is drawn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.edge.http.guard import SAFE
from monitor.edge.status import AppState, Status

FRESH_SECONDS = 1.0
STALE_SECONDS = 3.0
"""What another process writes to the store is seen so much later, at most."""

_DEPENDS_ON = ("host", "cookie", "authorization", "accept", "accept-encoding", "if-none-match")
_NEVER = ("/healthz", "/readyz", "/metrics")
"""Cheap, and asked by machines that want to know of this very moment."""
_MOST_BYTES = 256 * 1024
"""Of an answer that is kept; a larger one is still shared while it is drawn."""

_Key = tuple[str, ...]


@dataclass(slots=True)
class _Drawing:
    """An answer, or one that is being made."""

    status: Status
    began: float
    redrawn: bool = False
    kept: bool = False
    answer: asyncio.Future[list[Message]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Sharing:
    """ASGI middleware; all of it runs in the server's event loop.

    Args:
        app: what is behind.
        state: a new status, after each poll and tick, ends what is kept.
        fresh: seconds for which an answer is simply kept.
        stale: seconds after which it is no longer given while the next is drawn.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        state: AppState,
        fresh: float = FRESH_SECONDS,
        stale: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._state, self._clock = app, state, clock
        self._fresh, self._stale = fresh, stale
        self._drawings: dict[_Key, _Drawing] = {}
        self._redrawing: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["path"] in _NEVER:
            await self._app(scope, receive, send)
        elif scope["method"] in SAFE:
            for message in await self._answer(scope):
                await send(_copy(message))  # those in front of us add their headers
        else:
            try:
                await self._app(scope, receive, send)
            finally:
                self._drawings.clear()

    async def _answer(self, scope: Scope) -> list[Message]:
        headers = Headers(scope=scope)
        key = (
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            *(headers.get(name, "") for name in _DEPENDS_ON),
        )
        found = self._drawings.get(key)
        if found is None or not self._holds(found):
            self._drawings = {k: d for k, d in self._drawings.items() if self._holds(d)}
            found = self._drawings[key] = _Drawing(self._state.status, self._clock())
            await self._draw(key, found, scope)
        elif not found.redrawn and self._clock() - found.began >= self._fresh:
            found.redrawn = True
            task = asyncio.create_task(self._redraw(key, found, scope))
            self._redrawing.add(task)
            task.add_done_callback(self._redrawing.discard)
        return await asyncio.shield(found.answer)

    async def _redraw(self, key: _Key, before: _Drawing, scope: Scope) -> None:
        drawing = _Drawing(self._state.status, self._clock())
        await self._draw(key, drawing, scope)
        if self._drawings.get(key) is before and drawing.kept:
            self._drawings[key] = drawing

    async def _draw(self, key: _Key, drawing: _Drawing, scope: Scope) -> None:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(_copy(message))

        try:
            await self._app(dict(scope), _nothing, keep)
        except Exception as error:
            drawing.answer.set_exception(error)
            drawing.answer.exception()  # nobody else may have asked
            self._forget(key, drawing)
            return
        except BaseException:  # the server stops: nobody may wait for it any more
            drawing.answer.cancel()
            raise
        drawing.answer.set_result(messages)
        size = sum(len(message.get("body", b"")) for message in messages)
        drawing.kept = messages[0]["status"] < 400 and size <= _MOST_BYTES
        if not drawing.kept:
            self._forget(key, drawing)

    def _holds(self, drawing: _Drawing) -> bool:
        young = self._clock() - drawing.began < self._stale
        return young and drawing.status is self._state.status

    def _forget(self, key: _Key, drawing: _Drawing) -> None:
        if self._drawings.get(key) is drawing:
            del self._drawings[key]


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _copy(message: Message) -> Message:
    copy = dict(message)
    if "headers" in copy:
        copy["headers"] = list(copy["headers"])
    return copy
