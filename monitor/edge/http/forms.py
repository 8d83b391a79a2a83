"""The console's forms: acknowledge, judge and silence incidents, without JavaScript.

A form carries the token as a field, or comes from somebody who has signed in: then with the
session's cookie and a mark that another site cannot know. So no remembered password and no other
site can make a browser send a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from monitor.domain import Incident
from monitor.edge.console import Console, Viewer
from monitor.edge.http.bodies import Fields, new_silence, read_body
from monitor.edge.http.guard import same_token
from monitor.edge.http.problems import Refusal
from monitor.edge.http.signing import COOKIE, THEME_COOKIE, THEMES, Sessions, local_path
from monitor.edge.status import AppState
from monitor.edge.store import Verdict

_YEAR_SECONDS = 365 * 86400
_WRONG_TOKEN_SECONDS = 0.5
"""Guessing is slow, however many guess at once."""


class Forms:
    """Handlers of the forms.

    Args:
        state: where changes go.
        token: what changes ask for; None refuses every change.
        sessions: who has signed in.
        console: draws the page to sign in.
        viewer: who looks at it.
    """

    def __init__(
        self,
        state: AppState,
        token: str | None,
        sessions: Sessions,
        console: Console,
        viewer: Callable[[Request], Viewer],
    ) -> None:
        self._state, self._token, self._sessions = state, token, sessions
        self._console, self._viewer = console, viewer

    def routes(self) -> list[BaseRoute]:
        """Those whose address is not also that of a page."""
        return [
            Route(path, handler, methods=["POST"])
            for path, handler in (
                ("/incidents/{id}/acknowledge", self.acknowledge),
                ("/incidents/{id}/label", self.label),
                ("/silences/{id}/expire", self.expire_silence),
                ("/sign-out", self.sign_out),
                ("/theme", self.theme),
            )
        ]

    async def acknowledge(self, request: Request) -> Response:
        """Fields: who, note."""
        fields = Fields(await self._allowed(request))
        actor, note = fields.actor(), fields.note()
        fields.check(strict=False)
        store = self._state.store

        def change(incident: Incident) -> None:
            store.acknowledge(incident.id, datetime.now(UTC), actor, note)

        return await self._change(request, change)

    async def label(self, request: Request) -> Response:
        """Fields: who, note, verdict."""
        fields = Fields(await self._allowed(request))
        actor, note, verdict = fields.actor(), fields.note(), fields.choice("verdict", Verdict)
        fields.check(strict=False)
        store, metrics = self._state.store, self._state.metrics

        def change(incident: Incident) -> None:
            store.label(incident.id, verdict, datetime.now(UTC), actor, note)
            metrics.labelled(verdict.value)

        return await self._change(request, change)

    async def silence(self, request: Request) -> Response:
        """Fields: who, note, match (one a line), length."""
        fields = await self._allowed(request)
        match = [line.strip() for line in fields.get("match", "").splitlines() if line.strip()]
        made = new_silence(Fields({**fields, "match": match}), datetime.now(UTC), strict=False)
        await run_in_threadpool(self._state.store.add_silence, made)
        return RedirectResponse("/silences", 303)

    async def expire_silence(self, request: Request) -> Response:
        """Fields: who."""
        form, now = Fields(await self._allowed(request)), datetime.now(UTC)
        actor = form.actor()
        form.check(strict=False)
        wanted = request.path_params["id"]
        await run_in_threadpool(self._state.store.expire_silence, wanted, now, actor)
        return RedirectResponse("/silences", 303)

    async def sign_in(self, request: Request) -> Response:
        """Fields: token, actor, next."""
        fields = await self._fields(request)
        following = local_path(fields.get("next", "/"))
        try:
            await self._ask_token(fields)
            form = Fields(fields)
            actor = form.actor()
            form.check(strict=False)
        except Refusal as refused:
            return self._console.sign_in(
                self._viewer(request),
                self._state.status,
                following,
                refused.detail,
                refused.status_code,
            )
        answer = RedirectResponse(following, 303)
        self._sessions.start(answer, request, actor, datetime.now(UTC))
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Fields: csrf."""
        fields = await self._fields(request)
        signed = self._sessions.signed_in(request.cookies)
        if signed is not None and not same_token(fields.get("csrf", ""), signed.csrf):
            raise Refusal(403, "this form is not of your session; reload the page")
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    async def theme(self, request: Request) -> Response:
        """Fields: theme, next. Anybody may: it is their own browser that remembers."""
        fields = await self._fields(request)
        chosen = fields.get("theme", "")
        if chosen not in THEMES:
            raise Refusal(400, f"theme={chosen!r} is none of {', '.join(THEMES)}")
        answer = RedirectResponse(local_path(fields.get("next", "/")), 303)
        if chosen == "auto":
            answer.delete_cookie(THEME_COOKIE)
        else:
            answer.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR_SECONDS, samesite="lax")
        return answer

    async def _fields(self, request: Request) -> dict[str, str]:
        text = await read_body(request, "application/x-www-form-urlencoded")
        try:
            pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
            return {name: value.strip() for name, value in pairs}
        except UnicodeDecodeError:
            raise Refusal(400, "the form is not UTF-8") from None

    async def _allowed(self, request: Request) -> dict[str, str]:
        """The fields of somebody who may change things, with their name as `actor`."""
        fields = await self._fields(request)
        signed = self._sessions.signed_in(request.cookies)
        if signed is not None and "token" not in fields:
            if not same_token(fields.get("csrf", ""), signed.csrf):
                raise Refusal(403, "this form is not of your session; reload the page")
            return fields | {"actor": signed.actor}
        await self._ask_token(fields)
        return fields

    async def _ask_token(self, fields: dict[str, str]) -> None:
        if self._token is None:
            raise Refusal(403, "no token is set: [http] token_file allows changes", "no-token")
        if not same_token(fields.get("token", ""), self._token):
            await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            raise Refusal(403, "the token is not the right one; go back and try again")

    async def _change(self, request: Request, change: Callable[[Incident], None]) -> Response:
        def found() -> Incident:
            incident = self._state.store.incident(request.path_params["id"])
            change(incident)
            return incident

        incident = await run_in_threadpool(found)
        # See Other: reloading the page does not send the form again.
        return RedirectResponse(f"/incidents/{quote(incident.id, safe='')}", 303)
