"""The console's forms: acknowledge, judge and silence incidents, without JavaScript.

The token is a field of the form, so no cookie or remembered password speaks for the operator,
and another site cannot make a browser send a change.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from monitor.domain import Incident
from monitor.edge.http.bodies import Fields, new_silence, read_body
from monitor.edge.http.guard import same_token
from monitor.edge.http.problems import Refusal
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
        fields = Fields(await self._fields(request))
        actor, note = fields.actor(), fields.note()
        fields.check(strict=False)
        store = self._state.store

        def change(incident: Incident) -> None:
            store.acknowledge(incident.id, datetime.now(UTC), actor, note)

        return await self._change(request, change)

    async def label(self, request: Request) -> Response:
        """Fields: token, actor, note, verdict."""
        fields = Fields(await self._fields(request))
        actor, note, verdict = fields.actor(), fields.note(), fields.choice("verdict", Verdict)
        fields.check(strict=False)
        store, metrics = self._state.store, self._state.metrics

        def change(incident: Incident) -> None:
            store.label(incident.id, verdict, datetime.now(UTC), actor, note)
            metrics.labelled(verdict.value)

        return await self._change(request, change)

    async def silence(self, request: Request) -> Response:
        """Fields: token, actor, note, match (one a line), length."""
        fields = await self._fields(request)
        match = [line.strip() for line in fields.get("match", "").splitlines() if line.strip()]
        made = new_silence(Fields({**fields, "match": match}), datetime.now(UTC), strict=False)
        await run_in_threadpool(self._state.store.add_silence, made)
        return RedirectResponse("/silences", 303)

    async def expire_silence(self, request: Request) -> Response:
        """Fields: token, actor."""
        fields = await self._fields(request)
        form, now = Fields(fields), datetime.now(UTC)
        actor = form.actor()
        form.check(strict=False)
        wanted = request.path_params["id"]
        await run_in_threadpool(self._state.store.expire_silence, wanted, now, actor)
        return RedirectResponse("/silences", 303)

    async def _fields(self, request: Request) -> dict[str, str]:
        text = await read_body(request, "application/x-www-form-urlencoded")
        try:
            pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
            fields = {name: value.strip() for name, value in pairs}
        except UnicodeDecodeError:
            raise Refusal(400, "the form is not UTF-8") from None
        if self._token is None:
            raise Refusal(403, "no token is set: [http] token_file allows changes", "no-token")
        if not same_token(fields.get("token", ""), self._token):
            raise Refusal(403, "the token is not the right one; go back and try again")
        return fields

    async def _change(self, request: Request, change: Callable[[Incident], None]) -> Response:
        def found() -> Incident:
            incident = self._state.store.incident(request.path_params["id"])
            change(incident)
            return incident

        incident = await run_in_threadpool(found)
        # See Other: reloading the page does not send the form again.
        return RedirectResponse(f"/incidents/{quote(incident.id, safe='')}", 303)
