"""Explore: what a page or a program asks, and the answer for programs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from starlette.datastructures import QueryParams

from monitor.domain import Settings
from monitor.edge.documents import time_text
from monitor.edge.exploring import MOST_CONDITIONS, Answer, Count, Question
from monitor.edge.http import questions

_USUAL = timedelta(days=1)
_LONGEST = timedelta(days=400)


def asked(
    query: QueryParams, settings: Settings, newest: datetime, forms: bool = False
) -> Question:
    """The question; what is left out is the first outcome, everything, the last day.

    Args:
        query: outcome, where (once a condition), from, to.
        settings: know the outcomes and attributes.
        newest: what is known ends then.
        forms: of a page: what is empty counts as left out, a time without a zone is in UTC.

    Raises:
        Refusal: it names what there is not, or cannot be read.
    """
    schema = settings.schema
    given = questions.Question(query, ("outcome", "where", "from", "to"), forms, many=("where",))
    outcome = given.among("outcome", schema.outcomes) or schema.outcomes[0]
    conditions = given.pairs("where", schema.names, MOST_CONDITIONS)
    end = given.time("to") or newest
    first = given.time("from") or end - _USUAL
    if not first < end:
        given.fault("from", "`from` has to be before `to`")
    given.check()
    first = max(first, end - _LONGEST)
    return Question(outcome, tuple(conditions), first, end, settings.window.slice_length)


def document(question: Question, answer: Answer) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "outcome": question.outcome,
        "where": [f"{name}={value}" for name, value in question.conditions],
        "from": time_text(answer.first),
        "to": time_text(answer.end),
        "rounded": answer.rounded,
        "trouble": answer.trouble,
        "whole": _count(answer.whole),
        "point_seconds": answer.length.total_seconds(),
        "points": [
            {"at": time_text(p.start), "rows": p.rows, "observed": p.observed,
             "expected": p.expected}
            for p in answer.points
        ],
        "attributes": [
            {
                "attribute": b.attribute,
                "is_code": b.is_code,
                "values": [{"value": value, **_count(count)} for value, count in b.values],
                "more": b.more,
            }
            for b in answer.breakdowns
        ],
    }  # fmt: skip


def _count(count: Count) -> dict[str, Any]:
    return {"rows": count.rows, "observed": count.observed, "expected": count.expected}
