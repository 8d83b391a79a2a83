"""The documents of the interface, as JSON Schema.

Written by hand: it is what we promise, and tests hold the answers against it.
"""

from __future__ import annotations

from typing import Any

from monitor.domain import Change, Method, Severity, State
from monitor.edge.http.problems import TYPES
from monitor.edge.store import Verdict

Schema = dict[str, Any]

_PROBLEM_TYPES = tuple(f"urn:least-monitor:problem:{name}" for name in TYPES)


def closed(**properties: Schema) -> Schema:
    """An object with these fields, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def listed(items: Schema) -> Schema:
    """Any number of them."""
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    """Or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def words(
    kind: type[State] | type[Severity] | type[Method] | type[Change] | type[Verdict],
) -> Schema:
    """One of its values."""
    return {"type": "string", "enum": [member.value for member in kind]}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}

_FINDING = closed(
    method=words(Method),
    outcome=TEXT,
    cause=ref("Cause"),
    path=listed(TEXT) | {"description": "Root … outcome; each `attribute=value`."},
    score=ref("Number"),
    p_value=ref("Number"),
    q_value=ref("Number"),
    observed=ref("Number"),
    expected=ref("Number"),
    rows=COUNT,
    horizon_seconds={"type": "number", "minimum": 0},
    began=TIME,
    rate_before=ref("Number"),
    rate_now=ref("Number"),
    ended=FLAG,
    chain=listed(ref("Cause")),
    codes=listed(TEXT),
    runners_up=listed(closed(cause=ref("Cause"), score=ref("Number"))),
)

# Came later: incidents stored before do not have them.
_FINDING["properties"]["fresh"] = FLAG | {
    "description": "The newest slice holds a failure of the cause."
}

_INCIDENT = closed(
    id=TEXT,
    state=words(State),
    opened_at=TIME,
    updated_at=TIME,
    last_seen_at=TIME,
    resolved_at=maybe(TIME),
    worsened_at=listed(TIME),
    causes=listed(ref("Cause")),
    finding=ref("Finding") | {"description": "At its highest score."},
    latest=ref("Finding") | {"description": "At the latest tick that saw it."},
)

_HISTORY = closed(
    **_INCIDENT["properties"],
    silenced=maybe(closed(reason=TEXT, until=TIME))
    | {"description": "Why nobody is told of it now."},
    label=maybe(words(Verdict)),
    audit=listed(closed(at=TIME, kind=TEXT, actor=TEXT, note=TEXT)),
)

for _schema in (_INCIDENT, _HISTORY):
    _schema["properties"]["told_excess"] = ref("Number") | {
        "description": "Observed less expected, when it opened or last worsened."
    }
    _schema["properties"]["told_per_hour"] = ref("Number") | {
        "description": "The same by the hour, when people last heard that it is worse."
    }
    _schema["properties"]["severity"] = words(Severity) | {
        "description": "The highest it has reached."
    }
    _schema["properties"]["quiet_ticks"] = COUNT | {
        "description": "Ticks with data, in a row, that did not see it."
    }
    _schema["properties"]["merged_into"] = maybe(TEXT) | {
        "description": "The incident that goes on in its place."
    }
    _schema["properties"]["story"] = TEXT | {
        "description": "Id of the first incident of the same outage."
    }
    _schema["properties"]["story_goes_on"] = FLAG | {
        "description": "It is over while its story goes on: its end has not been told yet."
    }

_TICK = closed(
    at=TIME,
    rows=COUNT,
    clean_rows=COUNT,
    outcomes=listed(closed(outcome=TEXT, observed=COUNT, expected=ref("Number"))),
    learning=FLAG,
    gap=FLAG,
    fit_status=TEXT,
    fit_steps=COUNT,
    delta=ref("Number"),
    nodes=COUNT,
    rare_nodes=COUNT,
    edges_added=COUNT,
    edges_removed=COUNT,
    paths_truncated=FLAG,
    unexplained={"type": "object", "additionalProperties": ref("Number")},
    seconds={"type": "object", "additionalProperties": ref("Number")},
    learning_outcomes=listed(TEXT),
    misfits=listed(closed(kind=TEXT, subject=TEXT, text=TEXT)),
)

_STATUS = closed(
    version=TEXT,
    ready=FLAG,
    reason=TEXT,
    role={"enum": ["leader", "standby"]},
    problem=TEXT,
    source=TEXT,
    store=maybe(TEXT | {"description": "A digest that names the store."}),
    started_at=maybe(TIME),
    watermark=maybe(TIME),
    tick=maybe(ref("Tick")),
    rejected={"type": "object", "additionalProperties": COUNT},
    outbox=listed(closed(notifier=TEXT, status=TEXT, count=COUNT)),
    parked=listed(
        closed(
            notifier=TEXT,
            incident=TEXT,
            change=words(Change),
            at=TIME,
            attempts=COUNT,
            error=TEXT,
        )
    ),
)

_COUNTS: dict[str, Schema] = {"rows": COUNT, "observed": COUNT, "expected": ref("Number")}

_EXPLORED = closed(
    **{"from": TIME, "to": TIME},
    outcome=TEXT,
    where=listed(TEXT),
    rounded=FLAG | {"description": "The time was rounded to what the summaries know."},
    trouble=TEXT | {"description": "Why something is missing, and what to ask instead."},
    whole=closed(**_COUNTS),
    point_seconds={"type": "number", "minimum": 0},
    points=listed(closed(at=TIME, **_COUNTS)),
    attributes=listed(
        closed(
            attribute=TEXT,
            is_code=FLAG | {"description": "Only failures have it."},
            values=listed(closed(value=TEXT, **_COUNTS))
            | {"description": "Those with the largest excess, worst first."},
            more=COUNT | {"description": "Values that are left out here."},
        )
    ),
)

_SILENCE = closed(
    id=TEXT,
    state={"type": "string", "enum": ["active", "pending", "expired"]},
    match=listed(TEXT) | {"description": "Matchers; all must hold."},
    starts_at=TIME,
    ends_at=TIME,
    created_at=TIME,
    actor=TEXT,
    note=TEXT,
    expired_by=maybe(TEXT) | {"description": "Who ended it before its time."},
    fault=TEXT | {"description": "Why it silences nothing; empty when it can be understood."},
)

SCHEMAS: dict[str, Schema] = {
    "Number": {
        "description": "A number, or what JSON has no number for.",
        "anyOf": [{"type": "number"}, {"type": "string", "enum": ["inf", "-inf", "nan"]}],
    },
    "Cause": {
        "description": "Attribute → values; empty is everything.",
        "type": "object",
        "additionalProperties": listed(TEXT),
    },
    "Finding": _FINDING,
    "Incident": _INCIDENT,
    "IncidentHistory": _HISTORY,
    "Incidents": closed(
        incidents=listed(ref("Incident")),
        next=maybe(TEXT | {"description": "Goes into `after` for the following page."}),
    ),
    "Graph": closed(
        at=TIME,
        nodes=COUNT,
        delta=ref("Number"),
        fit_status=TEXT,
        edges=listed(closed(source=TEXT, target=TEXT, weight=ref("Number"))),
    ),
    "Tick": _TICK,
    "Status": _STATUS,
    "Rejected": closed(
        counts={"type": "object", "additionalProperties": COUNT},
        kept={"type": "object", "additionalProperties": COUNT},
        records=listed(
            closed(
                reason=TEXT,
                result={"enum": ["rejected", "kept", "duplicate", "excluded"]},
                where=TEXT,
                detail=TEXT,
                count=COUNT,
                raw=TEXT,
            )
        ),
    ),
    "Explored": _EXPLORED,
    "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
    "Silence": _SILENCE,
    "Silences": closed(
        silences=listed(ref("Silence")),
        maintenance=listed(
            closed(match=listed(TEXT), when=TEXT, note=TEXT, open_until=maybe(TIME))
        ),
    ),
    "Notification": closed(
        version={"const": 1},
        story=TEXT,
        change=words(Change),
        at=TIME,
        link=maybe(TEXT),
        incident=ref("Incident"),
    ),
    "Problem": {
        "description": "RFC 9457. `type` is one of " + ", ".join(f"`{k}`" for k in _PROBLEM_TYPES),
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["about:blank", *_PROBLEM_TYPES]},
            "title": TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": TEXT,
            "instance": TEXT | {"description": "This occurrence, as the log names it."},
            "errors": listed(
                closed(**{"in": {"enum": ["query", "body", "header"]}}, name=TEXT, detail=TEXT)
            ),
        },
        "required": ["type", "title", "status", "detail"],
        "additionalProperties": False,
    },
}
