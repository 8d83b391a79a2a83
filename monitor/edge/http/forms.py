"""The console's forms: acknowledge, judge and silence incidents, without JavaScript.

The token is a field of the form, so no cookie or remembered password speaks for the operator,
and another site cannot make a browser send a change.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from monitor.domain import Incident
from monitor.edge.http.api import checked_text, choice, new_silence, read_body
from monitor.edge.http.guard import same_token
from monitor.edge.status import AppState
from monitor.edge.store import Verdict


class Forms:
    """Handlers of the forms.

    Args:
        state: where changes go.
        token: what the form must carry; None refuses every change.
    """

    def __init__(self, state: AppState, token: str | None) -> None:
        self._state = state
        self._token = token

    async def acknowledge(self, request: Request) -> Response:
        """Fields: token, actor, note."""
        fields = await self._fields(request)
        actor, note = checked_text(fields, "actor", 200), checked_text(fields, "note", 2000, "")
        store = self._state.store

        def change(incident: Incident) -> None:
            store.acknowledge(incident.id, datetime.now(UTC), actor, note)

        return await self._change(request, change)

    async def label(self, request: Request) -> Response:
        """Fields: token, actor, note, verdict."""
        fields = await self._fields(request)
        actor, note = checked_text(fields, "actor", 200), checked_text(fields, "note", 2000, "")
        verdict = choice(Verdict, checked_text(fields, "verdict", 20), "verdict")
        store, metrics = self._state.store, self._state.metrics

        def change(incident: Incident) -> None:
            store.label(incident.id, verdict, datetime.now(UTC), actor, note)
            metrics.labelled(verdict.value)

        return await self._change(request, change)

    async def silence(self, request: Request) -> Response:
        """Fields: token, actor, note, match (one a line), length."""
        fields = await self._fields(request)
        match = [line.strip() for line in fields.get("match", "").splitlines() if line.strip()]
        made = new_silence(fields, match, datetime.now(UTC))
        await run_in_threadpool(self._state.store.add_silence, made)
        return RedirectResponse("/silences", 303)

    async def expire_silence(self, request: Request) -> Response:
        """Fields: token, actor."""
        fields = await self._fields(request)
        actor, now = checked_text(fields, "actor", 200), datetime.now(UTC)
        wanted = request.path_params["id"]
        await run_in_threadpool(self._state.store.expire_silence, wanted, now, actor)
        return RedirectResponse("/silences", 303)

    async def _fields(self, request: Request) -> dict[str, str]:
        text = await read_body(request, "application/x-www-form-urlencoded")
        try:
            pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
            fields = {name: value.strip() for name, value in pairs}
        except UnicodeDecodeError:
            raise HTTPException(400, "the form is not UTF-8") from None
        if self._token is None:
            raise HTTPException(403, "no token is set: [http] token_file allows changes")
        if not same_token(fields.get("token", ""), self._token):
            raise HTTPException(403, "the token is not the right one; go back and try again")
        return fields

    async def _change(self, request: Request, change: Callable[[Incident], None]) -> Response:
        def found() -> Incident:
            incident = self._state.store.incident(request.path_params["id"])
            change(incident)
            return incident

        incident = await run_in_threadpool(found)
        # See Other: reloading the page does not send the form again.
        return RedirectResponse(f"/incidents/{quote(incident.id, safe='')}", 303)
