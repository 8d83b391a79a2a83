"""Connections that say nothing are closed, and there are never many: each costs a descriptor.

Nobody has to sign in to connect. Descriptors that idle connections hold are missing where files
are opened and the store is written.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 64
"""Open at once; for one more, the one that has waited longest for its request makes room."""

REQUEST_SECONDS = 15.0
"""For the head of a request to come in, from the connection or the answer before on."""

ANSWER_SECONDS = 120.0
"""For a request to be answered, and the answer to be read."""


class PatientProtocol(H11Protocol):
    """One connection, with an end to every wait."""

    _ends: asyncio.TimerHandle | None = None
    _serving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self._await(REQUEST_SECONDS)
        known = [cast(PatientProtocol, one) for one in self.connections]
        alive = [one for one in known if not one.transport.is_closing()]
        if len(alive) > MOST_CONNECTIONS:
            waiting = [one for one in alive if not one._serving and one is not self]
            # The newest is refused only when all the others are being served.
            min(waiting, key=PatientProtocol._deadline, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None

    def handle_events(self) -> None:
        """See uvicorn: called when something came in."""
        super().handle_events()
        serves = self.cycle is not None and not self.cycle.response_complete
        if serves and not self._serving:
            self._serving = True
            self._await(ANSWER_SECONDS)

    def on_response_complete(self) -> None:
        """See uvicorn."""
        self._serving = False
        self._await(REQUEST_SECONDS)
        super().on_response_complete()

    def _await(self, seconds: float) -> None:
        if self._ends is not None:
            self._ends.cancel()
        self._ends = self.loop.call_later(seconds, self.transport.abort)

    def _deadline(self) -> float:
        return float("inf") if self._ends is None else self._ends.when()
