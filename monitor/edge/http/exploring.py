"""What the address of the page Explore asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.datastructures import QueryParams

from monitor.domain import Settings
from monitor.edge.exploring import MOST_CONDITIONS, Condition, Question
from monitor.edge.http.problems import Refusal

_USUAL = timedelta(days=1)
_LONGEST = timedelta(days=400)


def asked(query: QueryParams, settings: Settings, newest: datetime) -> Question:
    """The question; what is left out is the first outcome, everything, the last day.

    Raises:
        Refusal: it names what there is not, or cannot be read.
    """
    schema = settings.schema
    outcome = query.get("outcome") or schema.outcomes[0]
    if outcome not in schema.outcomes:
        raise Refusal(400, f"outcome={outcome!r} is none of {', '.join(schema.outcomes)}")
    conditions: dict[Condition, None] = {}
    for text in query.getlist("where"):
        name, equals, value = text.strip().partition("=")
        if not text.strip():
            continue
        if not equals or name.strip() not in schema.names:
            raise Refusal(
                400,
                f"where={text!r} is no attribute=value; attributes are {', '.join(schema.names)}",
            )
        conditions[name.strip(), value.strip()] = None
    if len(conditions) > MOST_CONDITIONS:
        raise Refusal(400, f"at most {MOST_CONDITIONS} conditions")
    end = _time(query, "to") or newest
    first = _time(query, "from") or end - _USUAL
    if not first < end:
        raise Refusal(400, "`from` has to be before `to`")
    first = max(first, end - _LONGEST)
    return Question(outcome, tuple(conditions), first, end, settings.window.slice_length)


def _time(query: QueryParams, name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refusal(400, f"{name}={text!r} is no ISO-8601 time like 2026-03-01T12:00Z") from None
