"""The interface for programs, and the webhook's body, described in OpenAPI 3.1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from monitor import __version__
from monitor.domain import Method, Severity, State
from monitor.edge.exploring import MOST_CONDITIONS
from monitor.edge.http.bodies import (
    LONGEST_ACTOR,
    LONGEST_MATCHER,
    LONGEST_NOTE,
    MOST_MATCHERS,
)
from monitor.edge.http.questions import LONGEST, MOST, PAGE
from monitor.edge.http.schemas import SCHEMAS, TEXT, TIME, Schema, listed, ref, words
from monitor.edge.store import Verdict

_ABOUT = """\
Anomalies in a stream of logs, and their root causes.

Reading is free on the machine itself; changes need `Authorization: Bearer TOKEN` with the token of
`[http] token_file`, and so does reading if the monitor listens on other addresses. Every document
has an `ETag`. Every error is `application/problem+json`. Times are in UTC."""

_ERRORS = {
    400: "The question makes no sense, or the body is not JSON.",
    401: "The token is missing or wrong.",
    403: "No token is set, so nothing can be changed.",
    404: "Nothing has this id, or several begin with it.",
    408: "The body did not come in time.",
    409: "The state does not allow it, or another process leads.",
    412: "It is no longer as `If-Match` says.",
    413: "The body is too large.",
    415: "The body is not announced as JSON.",
    421: "The `Host` is not this machine.",
    422: "A field of the body makes no sense.",
    500: "A fault of the monitor's.",
    503: "There is no tick yet, or the store fails.",
}
_ALWAYS = (401, 421, 500, 503)
_OF_CHANGES = (400, 403, 408, 409, 413, 415, 422)

_HEADERS: dict[str, Schema] = {
    "ETag": {
        "description": "Changes when the document does; goes into If-None-Match and If-Match.",
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{24}(-gzip)?"$'},
    },
    "Link": {
        "description": '`<…>; rel="next"` while there is another page.',
        "schema": TEXT,
    },
    "Location": {"description": "Where it is from now on.", "schema": TEXT},
    "WWW-Authenticate": {"description": "How to ask.", "schema": TEXT},
    "Retry-After": {"description": "Seconds.", "schema": TEXT},
}


def _headers(*names: str) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _answers(
    schema: str, *errors: int, done: int = 200, headers: tuple[str, ...] = ()
) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(done): {
            "description": "Done." if done == 201 else "As asked.",
            "headers": _headers("ETag", *headers),
            "content": {"application/json": {"schema": ref(schema)}},
        }
    }
    for code in sorted({*errors, *_ALWAYS}):
        found[str(code)] = {"$ref": f"#/components/responses/{code}"}
    return found


def _problem(code: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": _ERRORS[code],
        "content": {"application/problem+json": {"schema": ref("Problem")}},
    }
    if code in (401, 503):
        answer["headers"] = _headers("WWW-Authenticate" if code == 401 else "Retry-After")
    return answer


def _asked(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _id(what: str) -> Schema:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        "description": f"Of the {what}, or a start of it that no other has.",
    }


_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "schema": TEXT,
    "description": "Entity tags; 304 if it is still one of them.",
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "schema": TEXT,
    "description": "Entity tags; nothing is changed unless it still is one of them.",
}


def _read(
    name: str,
    summary: str,
    schema: str,
    *errors: int,
    parameters: tuple[Schema, ...] = (),
    headers: tuple[str, ...] = (),
) -> dict[str, Any]:
    answers = _answers(schema, 400, *errors, headers=headers)
    answers["304"] = {"description": "You have it already.", "headers": _headers("ETag")}
    return {
        "operationId": name,
        "tags": [name.split("_")[-1].removesuffix("s")],
        "summary": summary,
        "parameters": [*parameters, _IF_NONE_MATCH],
        "responses": dict(sorted(answers.items())),
    }


def _change(
    name: str,
    summary: str,
    answer: str,
    fields: Mapping[str, Schema],
    optional: Mapping[str, Schema],
    of: str | None = None,
) -> dict[str, Any]:
    """A POST; `of` says whose id stands in the path."""
    body: Schema = {
        "type": "object",
        "properties": {**fields, **optional},
        "required": list(fields),
        "additionalProperties": False,
    }
    errors = (*_OF_CHANGES, *((404, 412) if of else ()))
    done, headers = (200, ()) if of else (201, ("Location",))
    return {
        "operationId": name,
        "tags": [name.split("_")[-1]],
        "summary": summary,
        "security": [{"token": []}],
        "parameters": [_id(of), _IF_MATCH] if of else [],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _answers(answer, *errors, done=done, headers=headers),
    }


_NO_NUL = r"^[^\u0000]*$"
_ACTOR: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_ACTOR,
    "pattern": r"^[^\u0000]*[^\u0000\s][^\u0000]*$",
    "description": "Who does it.",
}
_NOTE: Schema = {"type": "string", "maxLength": LONGEST_NOTE, "pattern": _NO_NUL}
_FILTER: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": _NO_NUL}
_MATCHER: Schema = {
    "type": "string",
    "maxLength": LONGEST_MATCHER,
    "pattern": r"^[A-Za-z_][A-Za-z0-9_.-]*(=~|!~|!=|=)[^\u0000]*$",
}
_MATCHERS = listed(_MATCHER) | {
    "minItems": 1,
    "maxItems": MOST_MATCHERS,
    "description": '`name=value`, `name!=value`, `name=~"regular expression"`, `name!~"…"`.',
}
_CONDITION: Schema = {"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_.-]*=[^\u0000]*$"}
_CONDITIONS = listed(_CONDITION) | {"maxItems": MOST_CONDITIONS}
_LENGTH: Schema = {
    "type": "string",
    "maxLength": 20,
    "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$",
    "description": "`2h`, `1h30m`; at most 366 days.",
}
_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": LONGEST}
_PAGES: Schema = {"type": "integer", "minimum": 1, "maximum": MOST, "default": PAGE}


def _paths() -> dict[str, Any]:
    return {
        "/api/v1/status": {
            "get": _read("status", "How the daemon is, with the newest tick in numbers.", "Status")
        },
        "/api/v1/incidents": {
            "get": _read(
                "incidents",
                "Incidents, newest first.",
                "Incidents",
                parameters=(
                    _asked("state", words(State), "Only these."),
                    _asked("since", TIME, "Opened, or still unresolved, since then."),
                    _asked("until", TIME, "Opened before then."),
                    _asked("outcome", _FILTER, "Only of this outcome."),
                    _asked("method", words(Method), "Only judged by this method."),
                    _asked("severity", words(Severity), "Only these, at their worst."),
                    _asked("story", _FILTER, "Only of the story with this id."),
                    _asked("text", _FILTER, "Words of its id, outcome, cause, path or codes."),
                    _asked("limit", _PAGES, "At most so many."),
                    _asked("after", _CURSOR, "Continue there: `next` of the page before."),
                ),
                headers=("Link",),
            )
        },
        "/api/v1/incidents/{id}": {
            "get": _read(
                "incident",
                "One incident with its history.",
                "IncidentHistory",
                404,
                parameters=(_id("incident"),),
            )
        },
        "/api/v1/incidents/{id}/acknowledge": {
            "post": _change(
                "acknowledge_incident",
                "An operator takes it on.",
                "IncidentHistory",
                {"actor": _ACTOR},
                {"note": _NOTE},
                "incident",
            )
        },
        "/api/v1/incidents/{id}/label": {
            "post": _change(
                "label_incident",
                "An operator judges it.",
                "IncidentHistory",
                {"actor": _ACTOR, "verdict": words(Verdict)},
                {"note": _NOTE},
                "incident",
            )
        },
        "/api/v1/silences": {
            "get": _read(
                "silences", "Silences, newest first, and maintenance windows.", "Silences"
            ),
            "post": _change(
                "add_silence",
                "Nobody is told of matching incidents for a while: give `ends_at` or `length`.",
                "Silence",
                {"actor": _ACTOR, "match": _MATCHERS},
                {
                    "starts_at": TIME,
                    "ends_at": TIME,
                    "length": _LENGTH,
                    "note": _NOTE,
                },
            ),
        },
        "/api/v1/silences/{id}": {
            "get": _read("silence", "One silence.", "Silence", 404, parameters=(_id("silence"),))
        },
        "/api/v1/silences/{id}/expire": {
            "post": _change(
                "expire_silence",
                "End a silence before its time.",
                "Silence",
                {"actor": _ACTOR},
                {},
                "silence",
            )
        },
        "/api/v1/graph": {
            "get": _read(
                "graph",
                "The learned graph of the newest tick.",
                "Graph",
                parameters=(_asked("node", _FILTER, "Only the edges at this node."),),
            )
        },
        "/api/v1/rejected": {
            "get": _read("rejected", "Records that could not be understood.", "Rejected")
        },
        "/api/v1/explore": {
            "get": _read(
                "explore",
                "What failed, attribute by attribute, within any filter and time.",
                "Explored",
                404,
                parameters=(
                    _asked("outcome", _FILTER, "The first of the configuration unless asked."),
                    _asked("where", _CONDITIONS, "Conditions; all must hold."),
                    _asked("from", TIME, "A day before `to` unless asked."),
                    _asked("to", TIME, "The newest tick unless asked."),
                ),
            )
        },
        "/api/v1/openapi.json": {"get": _read("openapi", "This interface, described.", "OpenApi")},
    }


_LINKS = {
    ("/api/v1/silences", "post", "201"): {"silence": "/id", "expire_silence": "/id"},
    ("/api/v1/incidents", "get", "200"): {
        "incident": "/incidents/0/id",
        "acknowledge_incident": "/incidents/0/id",
        "label_incident": "/incidents/0/id",
    },
}
"""Answer → operations that go on from it, and where their id stands."""


def _linked(paths: dict[str, Any]) -> dict[str, Any]:
    for (path, method, code), links in _LINKS.items():
        paths[path][method]["responses"][code]["links"] = {
            name: {"operationId": name, "parameters": {"id": f"$response.body#{pointer}"}}
            for name, pointer in links.items()
        }
    return paths


def document() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "least-monitor",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _linked(_paths()),
        "webhooks": {
            "incident": {
                "post": {
                    "summary": "What the webhook notifier sends.",
                    "parameters": [
                        {
                            "name": "X-Least-Monitor-Signature",
                            "in": "header",
                            "schema": TEXT,
                            "description": "`t=UNIX,v1=HEX`: HMAC-SHA256 of `UNIX.BODY`.",
                        },
                        {
                            "name": "Idempotency-Key",
                            "in": "header",
                            "required": True,
                            "schema": TEXT,
                            "description": "The same at every attempt.",
                        },
                    ],
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": ref("Notification")}},
                    },
                    "responses": {"2XX": {"description": "Received."}},
                }
            }
        },
        "components": {
            "schemas": SCHEMAS,
            "headers": _HEADERS,
            "responses": {str(code): _problem(code) for code in _ERRORS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def text() -> str:
    """The same for people: docs/openapi.json."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
