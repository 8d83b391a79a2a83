"""The interface for programs: ``/api/v1``, ``/metrics``, ``/healthz``, ``/readyz``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from monitor import __version__
from monitor.domain import Incident, Method, Severity, State, with_result
from monitor.edge import documents
from monitor.edge.exploring import Answer, Explorer, Question
from monitor.edge.http import exploring, openapi, questions
from monitor.edge.http.answers import conditional, require_match, tag
from monitor.edge.http.bodies import json_body, new_silence
from monitor.edge.http.problems import Refusal
from monitor.edge.http.questions import MOST, PAGE, cursor
from monitor.edge.reloading import RefusedError
from monitor.edge.remote import store_identity
from monitor.edge.silences import Hush, Silence, described, hushed, listed
from monitor.edge.silences import until as open_until
from monitor.edge.status import AppState
from monitor.edge.store import IncidentQuery, Seen, Verdict
from monitor.evolution import Meaning

_PARKED_SHOWN = 20
_RELOAD_SECONDS = 60.0
_LONGEST_ID = 200
_FILTERS = (
    "state", "since", "until", "outcome", "method", "severity", "story", "text", "limit", "after",
)  # fmt: skip


class Api:
    """The interface for programs.

    Handlers that ask the store are plain functions, for worker threads; the others answer from the
    event loop, however many pages are being drawn.
    """

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._explorer = Explorer(state.store)
        self._description = documents.dumps(openapi.document())

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text or OpenMetrics, as the scraper asks."""
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._state.metrics.registry), headers={"Content-Type": kind})

    async def healthz(self, request: Request) -> Response:
        """200 unless the process should be restarted."""
        problem = self._state.status.problem
        return PlainTextResponse(problem or "ok", 503 if problem else 200)

    async def readyz(self, request: Request) -> Response:
        """503 until the window is rebuilt; of a standby, too, unless asked `?standby=ready`.

        Kubernetes counts a pod that is not ready as down: nodes could not be drained.
        """
        status = self._state.status
        if status.standby and request.query_params.get("standby") == "ready":
            return PlainTextResponse(status.reason)
        return PlainTextResponse(
            "ready" if status.ready else status.reason, 200 if status.ready else 503
        )

    async def reload(self, request: Request) -> Response:
        """POST: read the configuration anew; answers when it runs, or says why it does not."""
        reloads = self._state.reloads
        if reloads is None:
            raise Refusal(503, "this process runs without a configuration to be read anew")
        try:
            async with asyncio.timeout(_RELOAD_SECONDS):
                await asyncio.wrap_future(reloads.ask())
        except RefusedError as error:
            raise Refusal(422, str(error), "configuration") from None
        except TimeoutError:
            raise Refusal(
                503,
                f"not done within {_RELOAD_SECONDS:g} s: the tick at hand is finished first; "
                "least_monitor_config_last_reload_successful and the log say how it ends",
                headers={"Retry-After": "60"},
            ) from None
        return Response(documents.dumps({"reloaded": True}), media_type="application/json")

    def status(self, request: Request) -> Response:
        """How the daemon is, with the newest tick in numbers."""
        _nothing_asked(request)
        status = self._state.status
        diagnosis = status.diagnosis
        body: dict[str, Any] = {
            "version": __version__,
            "ready": status.ready,
            "reason": "" if status.ready else status.reason,
            "role": "standby" if status.standby else "leader",
            "problem": status.problem,
            "source": status.source,
            "store": status.config and store_identity(status.config.store.url),
            "started_at": _time(status.started_at),
            "watermark": _time(status.watermark),
            "tick": None,
            "rejected": with_result(self._state.store.rejected(), "rejected"),
            "outbox": [
                {"notifier": o.notifier, "status": o.status, "count": o.count}
                for o in self._state.store.outbox()
            ],
            "parked": [
                {
                    "notifier": item.notifier,
                    "incident": item.notification.incident.id,
                    "change": item.notification.change.value,
                    "at": _time(item.notification.at),
                    "attempts": item.attempts,
                    "error": item.error,
                }
                for item in self._state.store.parked(_PARKED_SHOWN)
            ],
        }
        if diagnosis is not None:
            tick = documents.diagnosis_document(diagnosis)
            body["tick"] = {k: v for k, v in tick.items() if k not in ("edges", "findings")}
        return conditional(request, documents.dumps(body))

    def openapi(self, request: Request) -> Response:
        """This interface, described."""
        _nothing_asked(request)
        return conditional(request, self._description)

    def rejected(self, request: Request) -> Response:
        """Records that could not be understood, or not wholly: counted, the first shown."""
        _nothing_asked(request)
        store = self._state.store
        counts = store.rejected()
        body = {
            "counts": with_result(counts, "rejected"),
            "kept": with_result(counts, "kept"),
            "records": [
                {
                    "reason": r.reason,
                    "result": r.result,
                    "where": r.where,
                    "detail": r.detail,
                    "count": r.count,
                    "raw": r.raw.decode(errors="replace"),
                }
                for r in store.rejected_records()
            ],
        }
        return conditional(request, documents.dumps(body))

    def find(
        self, request: Request, method: str | None = None, forms: bool = False
    ) -> tuple[list[Incident], str | None]:
        """The incidents asked for, and where the next page starts.

        Args:
            request: its query says which.
            method: only of this one unless the query names another, or with an empty
                ``method=`` all.
            forms: empty parameters count as left out.
        """
        asked = questions.Question(request.query_params, _FILTERS, forms)
        limit, after = asked.number("limit", PAGE, MOST), asked.place("after")
        state, chosen = asked.choice("state", State), asked.choice("method", Method)
        since, until = asked.time("since"), asked.time("until")
        outcome, text = asked.text("outcome"), asked.text("text")
        story = asked.text("story")
        severity = asked.choice("severity", Severity)
        asked.check()
        if "method" not in request.query_params:
            named = method
        else:
            named = None if chosen is None else chosen.value
        found = self._state.store.incidents(
            IncidentQuery(
                state=state,
                since=since,
                until=until,
                outcome=outcome,
                method=named,
                severity=severity,
                story=story,
                text=text,
                limit=limit + 1,
                after=after,
            )
        )
        following = None
        if len(found) > limit:
            following = cursor((found[limit - 1].opened_at, found[limit - 1].id))
        return found[:limit], following

    def incidents(self, request: Request) -> Response:
        """Newest first, in pages: ``next`` goes into ``after``."""
        found, following = self.find(request)
        body = {"incidents": [documents.incident_document(i) for i in found], "next": following}
        headers = {}
        if following is not None:
            query = urlencode({**request.query_params, "after": following})
            headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
        return conditional(request, documents.dumps(body), headers)

    def incident(self, request: Request) -> Response:
        """One incident, by id or a prefix of it, with its history."""
        _nothing_asked(request)
        return conditional(request, self._history(_id(request))[0])

    def _history(self, wanted: str) -> tuple[bytes, Seen]:
        store = self._state.store
        incident = store.incident(wanted)
        audit = store.audit(incident.id)
        hush = self.hush(incident)
        silenced = hush and {"reason": hush.reason, "until": documents.time_text(hush.until)}
        history = documents.incident_history(incident, audit, store.labels().get(incident.id))
        return documents.dumps(history | {"silenced": silenced}), Seen(incident, len(audit))

    def hush(self, incident: Incident) -> Hush | None:
        """Why nobody hears of it now."""
        if incident.state is State.RESOLVED:
            return None
        now = datetime.now(UTC)
        active = self._state.store.silences(active_at=now)
        return hushed(incident, active, self._state.status.maintenance, now)

    def silences(self, request: Request) -> Response:
        """Silences, newest first, and the windows of the configuration."""
        _nothing_asked(request)
        now = datetime.now(UTC)
        body = {
            "silences": [
                documents.silence_document(s, now) for s in listed(self._state.store, now)
            ],
            "maintenance": [
                {
                    "match": [str(matcher) for matcher in window.matchers],
                    "when": described(window),
                    "note": window.note,
                    "open_until": _time(open_until(window, now)),
                }
                for window in self._state.status.maintenance
            ],
        }
        return conditional(request, documents.dumps(body))

    def silence(self, request: Request) -> Response:
        """One silence, by id or a prefix of it."""
        _nothing_asked(request)
        found = self._state.store.silence(_id(request))
        return conditional(request, _silence(found, datetime.now(UTC)))

    async def add_silence(self, request: Request) -> Response:
        """POST ``{"match": […], "ends_at": … or "length": "2h", "actor": …, "note": …}``."""
        made = new_silence(await json_body(request), datetime.now(UTC))
        await run_in_threadpool(self._state.store.add_silence, made)
        content = _silence(made, made.created_at)
        headers = {"Location": f"/api/v1/silences/{made.id}", "ETag": tag(content)}
        return Response(content, 201, headers, "application/json")

    async def expire_silence(self, request: Request) -> Response:
        """POST ``{"actor": …}``."""
        body, now = await json_body(request), datetime.now(UTC)
        actor = body.actor()
        body.check()
        store, wanted = self._state.store, _id(request)

        def change() -> bytes:
            silence = store.silence(wanted)
            require_match(request, _silence(silence, now))
            return _silence(store.expire_silence(silence.id, now, actor), now)

        return _changed(await run_in_threadpool(change))

    def graph(self, request: Request) -> Response:
        """The learned graph of the newest tick; with ``node`` only the edges at it."""
        asked = questions.Question(request.query_params, ("node",))
        node = asked.text("node")
        asked.check()
        diagnosis = self._state.status.diagnosis
        if diagnosis is None:
            raise Refusal(503, "no tick yet", "no-tick", headers={"Retry-After": "60"})
        document = documents.diagnosis_document(diagnosis)
        body = {name: document[name] for name in ("at", "nodes", "delta", "fit_status", "edges")}
        if node is not None:
            body["edges"] = [e for e in body["edges"] if node in (e["source"], e["target"])]
        return conditional(request, documents.dumps(body))

    def explore(self, request: Request) -> Response:
        """Any outcome, filter and time: rate and count, attribute by attribute."""
        question, answer = self.explored(request)
        return conditional(request, documents.dumps(exploring.document(question, answer)))

    def explored(self, request: Request, forms: bool = False) -> tuple[Question, Answer]:
        """What was asked of the store's rows, and the answer.

        Args:
            request: its query says what.
            forms: of a page.
        """
        status = self._state.status
        if status.config is None:
            raise Refusal(404, "this process only shows a store; the daemon's console explores")
        settings = status.config.settings
        tick = status.diagnosis
        newest = tick.at if tick else datetime.now(UTC)
        question = exploring.asked(request.query_params, settings, newest, forms)
        meaning = Meaning.of(settings, status.config.whens)
        return question, self._explorer.ask(meaning, question, tick and tick.at)

    async def acknowledge(self, request: Request) -> Response:
        """POST ``{"actor": …, "note": …}``."""
        body = await json_body(request)
        actor, note = body.actor(), body.note()
        body.check()
        store, wanted = self._state.store, _id(request)

        def change() -> bytes:
            name, seen = self._asked_for(request, wanted)
            store.acknowledge(name, datetime.now(UTC), actor, note, seen)
            return self._history(name)[0]

        return _changed(await run_in_threadpool(change))

    async def label(self, request: Request) -> Response:
        """POST ``{"verdict": "true" | "false" | "expected", "actor": …, "note": …}``."""
        body = await json_body(request)
        actor, note, verdict = body.actor(), body.note(), body.choice("verdict", Verdict)
        body.check()
        store, wanted = self._state.store, _id(request)

        def change() -> bytes:
            name, seen = self._asked_for(request, wanted)
            store.label(name, verdict, datetime.now(UTC), actor, note, seen)
            return self._history(name)[0]

        changed = await run_in_threadpool(change)
        self._state.metrics.labelled(verdict.value)
        return _changed(changed)

    def _asked_for(self, request: Request, wanted: str) -> tuple[str, Seen | None]:
        """The incident to change; with ``If-Match`` also what it has to be like.

        The store looks again inside its transaction: nobody comes in between.
        """
        content, seen = self._history(wanted)
        return seen.incident.id, seen if require_match(request, content) else None


def _changed(content: bytes) -> Response:
    return Response(content, 200, {"ETag": tag(content)}, "application/json")


def _silence(silence: Silence, now: datetime) -> bytes:
    return documents.dumps(documents.silence_document(silence, now))


def _time(at: datetime | None) -> str | None:
    return None if at is None else documents.time_text(at)


def _id(request: Request) -> str:
    wanted: str = request.path_params["id"]
    if len(wanted) > _LONGEST_ID or "\0" in wanted:
        raise Refusal(404, f"no id is longer than {_LONGEST_ID} characters", "not-found")
    return wanted


def _nothing_asked(request: Request) -> None:
    questions.Question(request.query_params, ()).check()
