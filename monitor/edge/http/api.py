"""The interface for programs: ``/api/v1``, ``/metrics``, ``/healthz``, ``/readyz``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from monitor import __version__
from monitor.domain import Incident, State
from monitor.edge import documents
from monitor.edge.http import openapi
from monitor.edge.silences import Hush, Silence, described, hushed, length_of_time, until
from monitor.edge.status import AppState
from monitor.edge.store import Verdict

PAGE = 50
"""Incidents on a page unless asked otherwise."""

_MOST = 500
_LARGEST_BODY = 64 * 1024
_PARKED_SHOWN = 20
_MOST_MATCHERS = 20

_Choice = TypeVar("_Choice", bound=Enum)


class Api:
    """The interface for programs. Handlers are plain functions: they run in worker threads."""

    def __init__(self, state: AppState) -> None:
        self._state = state

    def metrics(self, request: Request) -> Response:
        """Prometheus' text or OpenMetrics, as the scraper asks."""
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._state.metrics.registry), headers={"Content-Type": kind})

    def healthz(self, request: Request) -> Response:
        """200 unless the process should be restarted."""
        problem = self._state.status.problem
        return PlainTextResponse(problem or "ok", 503 if problem else 200)

    def readyz(self, request: Request) -> Response:
        """503 until the window is rebuilt."""
        status = self._state.status
        return PlainTextResponse(
            "ready" if status.ready else status.reason, 200 if status.ready else 503
        )

    def status(self, request: Request) -> Response:
        """How the daemon is, with the newest tick in numbers."""
        status = self._state.status
        diagnosis = status.diagnosis
        body: dict[str, Any] = {
            "version": __version__,
            "ready": status.ready,
            "reason": "" if status.ready else status.reason,
            "role": "standby" if status.standby else "leader",
            "problem": status.problem,
            "source": status.source,
            "started_at": _time(status.started_at),
            "watermark": _time(status.watermark),
            "tick": None,
            "rejected": self._state.store.rejected(),
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
        return json(body)

    def openapi(self, request: Request) -> Response:
        """This interface, described."""
        return json(openapi.document())

    def rejected(self, request: Request) -> Response:
        """Records that could not be understood: all counted, the first of each kind shown."""
        store = self._state.store
        return json(
            {
                "counts": store.rejected(),
                "records": [
                    {
                        "reason": r.reason,
                        "where": r.where,
                        "detail": r.detail,
                        "count": r.count,
                        "raw": r.raw.decode(errors="replace"),
                    }
                    for r in store.rejected_records()
                ],
            }
        )

    def find(
        self, request: Request, method: str | None = None
    ) -> tuple[list[Incident], str | None]:
        """The incidents asked for, and where the next page starts.

        Args:
            request: its query says which.
            method: only of this one unless the query names another, or with an empty
                ``method=`` all.
        """
        asked = request.query_params
        limit = _limit(asked.get("limit"))
        found = self._state.store.incidents(
            state=choice(State, asked["state"], "state") if asked.get("state") else None,
            since=_asked_time(asked.get("since")),
            outcome=asked.get("outcome") or None,
            method=asked.get("method", method) or None,
            limit=limit + 1,
            after=asked.get("after") or None,
        )
        following = found[limit - 1].id if len(found) > limit else None
        return found[:limit], following

    def incidents(self, request: Request) -> Response:
        """Newest first, in pages: ``next`` goes into ``after``."""
        found, following = self.find(request)
        return json(
            {"incidents": [documents.incident_document(i) for i in found], "next": following}
        )

    def incident(self, request: Request) -> Response:
        """One incident, by id or a prefix of it, with its history."""
        store = self._state.store
        incident = store.incident(request.path_params["id"])
        label = store.labels().get(incident.id)
        history = documents.incident_history(incident, store.audit(incident.id), label)
        hush = self.hush(incident)
        return json(
            history
            | {
                "silenced": hush
                and {"reason": hush.reason, "until": documents.time_text(hush.until)}
            }
        )

    def hush(self, incident: Incident) -> Hush | None:
        """Why nobody hears of it now."""
        if incident.state is State.RESOLVED:
            return None
        now = datetime.now(UTC)
        active = self._state.store.silences(active_at=now)
        return hushed(incident, active, self._state.status.maintenance, now)

    def silences(self, request: Request) -> Response:
        """Silences, newest first, and the windows of the configuration."""
        now = datetime.now(UTC)
        return json(
            {
                "silences": [
                    documents.silence_document(s, now) for s in self._state.store.silences()
                ],
                "maintenance": [
                    {
                        "match": [str(matcher) for matcher in window.matchers],
                        "when": described(window),
                        "note": window.note,
                        "open_until": _time(until(window, now)),
                    }
                    for window in self._state.status.maintenance
                ],
            }
        )

    async def silence(self, request: Request) -> Response:
        """POST ``{"match": […], "ends_at": … or "length": "2h", "actor": …, "note": …}``."""
        body = await _body(request)
        made = new_silence(body, body.get("match"), datetime.now(UTC))
        await run_in_threadpool(self._state.store.add_silence, made)
        return json(documents.silence_document(made, made.created_at), 201)

    async def expire_silence(self, request: Request) -> Response:
        """POST ``{"actor": …}``."""
        body = await _body(request)
        actor, now = checked_text(body, "actor", 200), datetime.now(UTC)
        store, wanted = self._state.store, request.path_params["id"]
        ended = await run_in_threadpool(store.expire_silence, wanted, now, actor)
        return json(documents.silence_document(ended, now))

    def graph(self, request: Request) -> Response:
        """The learned graph of the newest tick."""
        diagnosis = self._state.status.diagnosis
        if diagnosis is None:
            raise HTTPException(503, "no tick yet")
        document = documents.diagnosis_document(diagnosis)
        wanted = ("at", "nodes", "delta", "fit_status", "edges")
        return json({name: document[name] for name in wanted})

    async def acknowledge(self, request: Request) -> Response:
        """POST ``{"actor": …, "note": …}``."""
        body = await _body(request)
        actor, note = checked_text(body, "actor", 200), checked_text(body, "note", 2000, "")
        store, wanted = self._state.store, request.path_params["id"]

        def change() -> Incident:
            return store.acknowledge(store.incident(wanted).id, datetime.now(UTC), actor, note)

        return json(documents.incident_document(await run_in_threadpool(change)))

    async def label(self, request: Request) -> Response:
        """POST ``{"verdict": "true" | "false" | "expected", "actor": …, "note": …}``."""
        body = await _body(request)
        actor, note = checked_text(body, "actor", 200), checked_text(body, "note", 2000, "")
        verdict = choice(Verdict, checked_text(body, "verdict", 20), "verdict")
        store, wanted = self._state.store, request.path_params["id"]

        def change() -> str:
            incident = store.incident(wanted)
            store.label(incident.id, verdict, datetime.now(UTC), actor, note)
            return incident.id

        changed = await run_in_threadpool(change)
        self._state.metrics.labelled(verdict.value)
        return json({"id": changed, "label": verdict.value})


def new_silence(fields: Mapping[str, Any], match: object, now: datetime) -> Silence:
    """From what an operator sent."""
    actor, note = checked_text(fields, "actor", 200), checked_text(fields, "note", 2000, "")
    if not isinstance(match, list) or not all(isinstance(text, str) for text in match):
        raise HTTPException(400, "'match' must be a list of matchers, as airline=AC")
    if len(match) > _MOST_MATCHERS:
        raise HTTPException(400, f"'match' has more than {_MOST_MATCHERS} matchers")
    ends, length = checked_text(fields, "ends_at", 40, ""), checked_text(fields, "length", 20, "")
    if bool(ends) == bool(length):
        raise HTTPException(400, "give 'ends_at' or 'length', one of them")
    starts = _asked_time(checked_text(fields, "starts_at", 40, ""), "starts_at")
    try:
        end = _asked_time(ends, "ends_at") or (starts or now) + length_of_time(length)
        return Silence.of(match, end, now, actor, note, starts)
    except (ValueError, OverflowError) as error:
        raise HTTPException(400, str(error)) from None


def json(body: object, status: int = 200) -> Response:
    """A JSON response with stable key order."""
    return Response(documents.dumps(body), status, media_type="application/json")


def _time(at: datetime | None) -> str | None:
    return None if at is None else documents.time_text(at)


def _asked_time(text: str | None, name: str = "since") -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise HTTPException(400, f"{name}={text!r} is no ISO-8601 time") from None
    if at.tzinfo is None:
        raise HTTPException(400, f"{name}={text!r} has no time zone; append Z for UTC")
    return at


def choice(kind: type[_Choice], text: str, name: str) -> _Choice:
    """One of the known words."""
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise HTTPException(400, f"{name}={text!r} is none of {known}") from None


def _limit(text: str | None) -> int:
    if not text:
        return PAGE
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise HTTPException(400, f"limit={text!r} is not a number from 1 to {_MOST}")
    return int(text)


async def read_body(request: Request, kind: str) -> bytes:
    """The body, if it is of this type and not too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != kind:
        raise HTTPException(415, f"send Content-Type: {kind}")
    text = b""
    async for chunk in request.stream():
        text += chunk
        if len(text) > _LARGEST_BODY:
            raise HTTPException(413, f"more than {_LARGEST_BODY} bytes")
    return text


async def _body(request: Request) -> dict[str, Any]:
    # A form that another site makes the browser send cannot have this type.
    text = await read_body(request, "application/json")
    try:
        body = documents.loads(text)
    except ValueError as error:
        raise HTTPException(400, f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "send a JSON object")
    return body


def checked_text(
    body: Mapping[str, Any], name: str, longest: int, default: str | None = None
) -> str:
    """A field of the body; without a default it must not be empty."""
    value = body.get(name, default)
    if not isinstance(value, str) or len(value) > longest or (default is None and not value):
        raise HTTPException(400, f"{name!r} must be a text of at most {longest} characters")
    return value
