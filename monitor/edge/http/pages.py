"""The console's addresses: what each page needs from the store, and who looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from monitor.domain import Incident, with_result
from monitor.edge.console import SHOWN, Console, Overview, Story, Viewer, reports
from monitor.edge.context import seen_before
from monitor.edge.http.api import Api
from monitor.edge.http.problems import Refusal
from monitor.edge.http.signing import Sessions, local_path, theme
from monitor.edge.silences import listed
from monitor.edge.status import AppState
from monitor.edge.store import IncidentQuery, worst_first
from monitor.edge.store.lease import Lease

_PARKED_SHOWN = 5
_MOST_HOPS = 3
_MOST_RECENT = 50
_OPEN = 1000
"""Open incidents among which the worst are looked for."""


class Pages:
    """Handlers of the pages. They are plain functions: they run in worker threads.

    Args:
        state: what to show.
        api: reads questions the same way for programs.
        console: draws.
        sessions: who has signed in.
        can_change: the daemon has a token.
    """

    def __init__(
        self, state: AppState, api: Api, console: Console, sessions: Sessions, can_change: bool
    ) -> None:
        self._state, self._api, self._console = state, api, console
        self._sessions, self._can_change = sessions, can_change

    def routes(self) -> list[BaseRoute]:
        """Those whose address is not also that of a form."""
        return [
            Route("/", self.overview),
            Route("/incidents", self.incidents),
            Route("/incidents/{id}", self.incident),
            Route("/explore", self.explore),
            Route("/graph", self.graph),
            Route("/reports", self.reports),
            Route("/reports/{name}", self.report),
            Route("/settings", self.settings),
            Route("/console.css", self._console.file),
            Route("/console.js", self._console.file),
        ]

    def viewer(self, request: Request) -> Viewer:
        """Who looks, and how."""
        signed = self._sessions.signed_in(request.cookies)
        query = request.url.query
        return Viewer(
            path=local_path(request.url.path + (f"?{query}" if query else "")),
            theme=theme(request.cookies),
            can_change=self._can_change,
            actor=signed.actor if signed else "",
            csrf=signed.csrf if signed else "",
        )

    def overview(self, request: Request) -> Response:
        """The first page."""
        status, store = self._state.status, self._state.store
        tick = status.diagnosis
        length = status.window.length
        shown = Overview(
            incidents=worst_first(
                store.incidents(IncidentQuery(unresolved=True, method=status.method, limit=_OPEN))
            )[:SHOWN],
            open_counts=store.open_counts(status.method),
            recent=store.incidents(
                IncidentQuery(since=tick.at - length, method=status.method, limit=_MOST_RECENT)
            )
            if tick
            else (),
            totals=store.totals(tick.at - length) if tick else {},
            outbox=store.outbox(),
            parked=store.parked(_PARKED_SHOWN),
            rejected=with_result(store.rejected(), "rejected"),
            lease=self._lease(),
        )
        return self._console.overview(self.viewer(request), status, shown)

    def _lease(self) -> Lease | None:
        return self._state.store.lease()

    def incidents(self, request: Request) -> Response:
        """The list."""
        status = self._state.status
        found, following = self._api.find(request, status.method, forms=True)
        asked: Mapping[str, str] = dict(request.query_params)
        labels = self._state.store.labels()
        return self._console.incidents(
            self.viewer(request), status, found, following, asked, labels
        )

    def incident(self, request: Request) -> Response:
        """One incident."""
        store = self._state.store
        found: Incident = store.incident(request.path_params["id"])
        story = Story(
            found,
            audit=store.audit(found.id),
            label=store.labels().get(found.id),
            hush=self._api.hush(found),
            course=store.course(found.id),
            exhibit=store.exhibit(found.id),
            symptoms=worst_first(
                i for i in store.incidents(IncidentQuery(story=found.story)) if i.id != found.id
            ),
            before=seen_before(store, found),
        )
        near = request.query_params.get("zoom") == "incident"
        return self._console.incident(self.viewer(request), self._state.status, story, near)

    def silences(self, request: Request) -> Response:
        """Silences and maintenance."""
        match = request.query_params.get("match", "")
        found = listed(self._state.store, datetime.now(UTC))
        return self._console.silences(self.viewer(request), self._state.status, found, match)

    def graph(self, request: Request) -> Response:
        """The learned graph."""
        asked = request.query_params
        hops = asked.get("hops") or "1"
        if hops not in map(str, range(1, _MOST_HOPS + 1)):
            raise Refusal(400, f"hops={hops!r} is not a number from 1 to {_MOST_HOPS}")
        return self._console.graph(
            self.viewer(request),
            self._state.status,
            asked.get("node") or None,
            int(hops),
            asked.get("q", "").strip(),
        )

    def explore(self, request: Request) -> Response:
        """Any outcome, filter and time."""
        status, store = self._state.status, self._state.store
        question, answer = self._api.explored(request, forms=True)
        assert status.config is not None, "else nothing is explored"
        newest = status.diagnosis.at if status.diagnosis else datetime.now(UTC)
        kept = newest - status.config.settings.detection.history
        incidents = store.incidents(
            IncidentQuery(
                since=question.first,
                until=question.end,
                outcome=question.outcome,
                method=status.method,
                limit=_MOST_RECENT,
            )
        )
        return self._console.explore(
            self.viewer(request), status, question, answer, kept, incidents
        )

    def reports(self, request: Request) -> Response:
        """The folder of backtest reports."""
        config = self._state.status.config
        folder = config.console.reports if config else None
        try:
            found = None if folder is None else reports.listed(folder)
        except OSError as error:
            raise Refusal(503, f"{folder} cannot be read: {error.strerror}") from None
        return self._console.reports(self.viewer(request), self._state.status, found)

    def report(self, request: Request) -> Response:
        """One report as it is, in a sandbox."""
        config, name = self._state.status.config, request.path_params["name"]
        folder = config.console.reports if config else None
        try:
            text = None if folder is None else reports.read(folder, name)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Refusal(503, f"{name} cannot be shown: {reason}") from None
        if text is None:
            raise Refusal(404, f"there is no report {name!r}; /reports lists them")
        return Response(
            text, media_type="text/html", headers={"Content-Security-Policy": reports.POLICY}
        )

    def settings(self, request: Request) -> Response:
        """The configuration."""
        return self._console.settings(self.viewer(request), self._state.status)

    def sign_in(self, request: Request) -> Response:
        """Where the token is given."""
        following = local_path(request.query_params.get("next", "/"))
        viewer = self.viewer(request)
        if viewer.actor:
            return RedirectResponse(following, 303)
        return self._console.sign_in(viewer, self._state.status, following)
