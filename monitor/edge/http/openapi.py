"""The interface for programs, and the webhook's body, described in OpenAPI 3.1.

Written by hand: it is what we promise, and tests hold the answers against it.
"""

from __future__ import annotations

from typing import Any

from monitor import __version__
from monitor.domain import Change, Method, Severity, State
from monitor.edge.store import Verdict

Schema = dict[str, Any]


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _words(
    kind: type[State] | type[Severity] | type[Method] | type[Change] | type[Verdict],
) -> Schema:
    return {"type": "string", "enum": [member.value for member in kind]}


_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_TIME: Schema = {"type": "string", "format": "date-time"}

_FINDING = _object(
    method=_words(Method),
    outcome=_TEXT,
    cause=_ref("Cause"),
    path=_list(_TEXT) | {"description": "Root … outcome; each `attribute=value`."},
    score=_ref("Number"),
    p_value=_ref("Number"),
    q_value=_ref("Number"),
    observed=_ref("Number"),
    expected=_ref("Number"),
    rows=_COUNT,
    horizon_seconds={"type": "number", "minimum": 0},
    began=_TIME,
    rate_before=_ref("Number"),
    rate_now=_ref("Number"),
    ended=_FLAG,
    chain=_list(_ref("Cause")),
    codes=_list(_TEXT),
    runners_up=_list(_object(cause=_ref("Cause"), score=_ref("Number"))),
)

# Came later: incidents stored before do not have them.
_FINDING["properties"]["fresh"] = _FLAG | {
    "description": "The newest slice holds a failure of the cause."
}

_INCIDENT = _object(
    id=_TEXT,
    state=_words(State),
    opened_at=_TIME,
    updated_at=_TIME,
    last_seen_at=_TIME,
    resolved_at=_maybe(_TIME),
    worsened_at=_list(_TIME),
    causes=_list(_ref("Cause")),
    finding=_ref("Finding") | {"description": "At its highest score."},
    latest=_ref("Finding") | {"description": "At the latest tick that saw it."},
)

_HISTORY = _object(
    **_INCIDENT["properties"],
    silenced=_maybe(_object(reason=_TEXT, until=_TIME))
    | {"description": "Why nobody is told of it now."},
    label=_maybe(_words(Verdict)),
    audit=_list(_object(at=_TIME, kind=_TEXT, actor=_TEXT, note=_TEXT)),
)

for _schema in (_INCIDENT, _HISTORY):
    _schema["properties"]["told_excess"] = _ref("Number") | {
        "description": "Observed less expected, when it opened or last worsened."
    }
    _schema["properties"]["told_per_hour"] = _ref("Number") | {
        "description": "The same by the hour, when people last heard that it is worse."
    }
    _schema["properties"]["severity"] = _words(Severity) | {
        "description": "The highest it has reached."
    }
    _schema["properties"]["quiet_ticks"] = _COUNT | {
        "description": "Ticks with data, in a row, that did not see it."
    }
    _schema["properties"]["merged_into"] = _maybe(_TEXT) | {
        "description": "The incident that goes on with its story."
    }

_TICK = _object(
    at=_TIME,
    rows=_COUNT,
    clean_rows=_COUNT,
    outcomes=_list(_object(outcome=_TEXT, observed=_COUNT, expected=_ref("Number"))),
    learning=_FLAG,
    gap=_FLAG,
    fit_status=_TEXT,
    fit_steps=_COUNT,
    delta=_ref("Number"),
    nodes=_COUNT,
    rare_nodes=_COUNT,
    edges_added=_COUNT,
    edges_removed=_COUNT,
    paths_truncated=_FLAG,
    unexplained={"type": "object", "additionalProperties": _ref("Number")},
    seconds={"type": "object", "additionalProperties": _ref("Number")},
)

_STATUS = _object(
    version=_TEXT,
    ready=_FLAG,
    reason=_TEXT,
    role={"enum": ["leader", "standby"]},
    problem=_TEXT,
    source=_TEXT,
    started_at=_maybe(_TIME),
    watermark=_maybe(_TIME),
    tick=_maybe(_ref("Tick")),
    rejected={"type": "object", "additionalProperties": _COUNT},
    outbox=_list(_object(notifier=_TEXT, status=_TEXT, count=_COUNT)),
    parked=_list(
        _object(
            notifier=_TEXT,
            incident=_TEXT,
            change=_words(Change),
            at=_TIME,
            attempts=_COUNT,
            error=_TEXT,
        )
    ),
)

_SILENCE = _object(
    id=_TEXT,
    state={"type": "string", "enum": ["active", "pending", "expired"]},
    match=_list(_TEXT) | {"description": "Matchers; all must hold."},
    starts_at=_TIME,
    ends_at=_TIME,
    created_at=_TIME,
    actor=_TEXT,
    note=_TEXT,
    expired_by=_maybe(_TEXT) | {"description": "Who ended it before its time."},
)

_SCHEMAS: dict[str, Schema] = {
    "Number": {
        "description": "A number, or what JSON has no number for.",
        "anyOf": [{"type": "number"}, {"type": "string", "enum": ["inf", "-inf", "nan"]}],
    },
    "Cause": {
        "description": "Attribute → values; empty is everything.",
        "type": "object",
        "additionalProperties": _list(_TEXT),
    },
    "Finding": _FINDING,
    "Incident": _INCIDENT,
    "IncidentHistory": _HISTORY,
    "Incidents": _object(
        incidents=_list(_ref("Incident")),
        next=_maybe(_TEXT | {"description": "Goes into `after` for the following page."}),
    ),
    "Graph": _object(
        at=_TIME,
        nodes=_COUNT,
        delta=_ref("Number"),
        fit_status=_TEXT,
        edges=_list(_object(source=_TEXT, target=_TEXT, weight=_ref("Number"))),
    ),
    "Tick": _TICK,
    "Status": _STATUS,
    "Rejected": _object(
        counts={"type": "object", "additionalProperties": _COUNT},
        records=_list(_object(reason=_TEXT, where=_TEXT, detail=_TEXT, count=_COUNT, raw=_TEXT)),
    ),
    "Silence": _SILENCE,
    "Silences": _object(
        silences=_list(_ref("Silence")),
        maintenance=_list(
            _object(match=_list(_TEXT), when=_TEXT, note=_TEXT, open_until=_maybe(_TIME))
        ),
    ),
    "Labelled": _object(id=_TEXT, label=_words(Verdict)),
    "Notification": _object(
        version={"const": 1},
        change=_words(Change),
        at=_TIME,
        link=_maybe(_TEXT),
        incident=_ref("Incident"),
    ),
    "Error": _object(error=_TEXT),
}

_ERRORS = {
    400: "The question or the body makes no sense.",
    401: "The token is missing or wrong.",
    403: "No token is set, so nothing can be changed.",
    404: "No such incident, or a prefix of several.",
    409: "The incident's state does not allow it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    503: "There is no tick yet, or the store fails.",
}


def _answers(schema: str, *errors: int, done: int = 200) -> dict[str, Any]:
    def body(name: str) -> Any:
        return {"application/json": {"schema": _ref(name)}}

    return {
        str(done): {"description": "Done.", "content": body(schema)},
        **{str(e): {"description": _ERRORS[e], "content": body("Error")} for e in errors},
    }


def _asked(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": _TEXT,
    "description": "Of the incident, or a start of it that no other has.",
}


def _change(summary: str, **fields: Schema) -> dict[str, Any]:
    note = {"type": "string", "maxLength": 2000}
    actor = {"type": "string", "minLength": 1, "maxLength": 200}
    schema = _object(**fields, actor=actor) | {"additionalProperties": True}
    schema["properties"]["note"] = note
    answer = "Labelled" if fields else "Incident"
    return {
        "post": {
            "summary": summary,
            "security": [{"token": []}],
            "parameters": [_ID],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": _answers(answer, 400, 401, 403, 404, 409, 413, 415, 503),
        }
    }


_ACTOR = {"type": "string", "minLength": 1, "maxLength": 200}
_NEW_SILENCE = {
    "summary": "Nobody is told of matching incidents for a while.",
    "security": [{"token": []}],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "match": _list(_TEXT) | {"minItems": 1, "maxItems": 20},
                        "starts_at": _TIME,
                        "ends_at": _TIME,
                        "length": _TEXT | {"description": "`2h`, instead of `ends_at`."},
                        "actor": _ACTOR,
                        "note": {"type": "string", "maxLength": 2000},
                    },
                    "required": ["match", "actor"],
                }
            }
        },
    },
    "responses": _answers("Silence", 400, 401, 403, 413, 415, 503, done=201),
}
_END_SILENCE = {
    "post": {
        "summary": "End a silence before its time.",
        "security": [{"token": []}],
        "parameters": [_ID | {"description": "Of the silence, or a start of it."}],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _object(actor=_ACTOR)}},
        },
        "responses": _answers("Silence", 400, 401, 403, 404, 409, 413, 415, 503),
    }
}


def document() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "least-monitor",
            "version": __version__,
            "description": "Anomalies in a stream of logs, and their root causes.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/api/v1/status": {
                "get": {
                    "summary": "How the daemon is, with the newest tick in numbers.",
                    "responses": _answers("Status", 401, 503),
                }
            },
            "/api/v1/incidents": {
                "get": {
                    "summary": "Incidents, newest first.",
                    "parameters": [
                        _asked("state", _words(State), "Only these."),
                        _asked("since", _TIME, "Opened, or still unresolved, since then."),
                        _asked("outcome", _TEXT, "Only of this outcome."),
                        _asked("method", _TEXT, "Only judged by this method."),
                        _asked(
                            "limit",
                            {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
                            "At most so many.",
                        ),
                        _asked("after", _TEXT, "Continue behind this incident."),
                    ],
                    "responses": _answers("Incidents", 400, 401, 404, 503),
                }
            },
            "/api/v1/incidents/{id}": {
                "get": {
                    "summary": "One incident with its history.",
                    "parameters": [_ID],
                    "responses": _answers("IncidentHistory", 401, 404, 503),
                }
            },
            "/api/v1/incidents/{id}/acknowledge": _change("An operator takes it on."),
            "/api/v1/incidents/{id}/label": _change(
                "An operator judges it.", verdict=_words(Verdict)
            ),
            "/api/v1/silences": {
                "get": {
                    "summary": "Silences, newest first, and maintenance windows.",
                    "responses": _answers("Silences", 401, 503),
                },
                "post": _NEW_SILENCE,
            },
            "/api/v1/silences/{id}/expire": _END_SILENCE,
            "/api/v1/graph": {
                "get": {
                    "summary": "The learned graph of the newest tick.",
                    "responses": _answers("Graph", 401, 503),
                }
            },
            "/api/v1/rejected": {
                "get": {
                    "summary": "Records that could not be understood.",
                    "responses": _answers("Rejected", 401, 503),
                }
            },
        },
        "webhooks": {
            "incident": {
                "post": {
                    "summary": "What the webhook notifier sends.",
                    "parameters": [
                        {
                            "name": "X-Least-Monitor-Signature",
                            "in": "header",
                            "schema": _TEXT,
                            "description": "`t=UNIX,v1=HEX`: HMAC-SHA256 of `UNIX.BODY`.",
                        },
                        {
                            "name": "Idempotency-Key",
                            "in": "header",
                            "required": True,
                            "schema": _TEXT,
                            "description": "The same at every attempt.",
                        },
                    ],
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": _ref("Notification")}},
                    },
                    "responses": {"2XX": {"description": "Received."}},
                }
            }
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
