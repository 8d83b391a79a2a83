"""A finding and a tick to start from; tests say only what matters to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.domain import Cause, Diagnosis, Edge, Finding, Method, OutcomeCount

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def finding(**changes: Any) -> Finding:
    """Airline AC fails at one step."""
    usual = Finding(
        method=Method.EXCESS,
        outcome="reserve",
        cause=Cause.of(airline="AC"),
        path=("airline=AC", "fare=3", "reserve"),
        score=112.4,
        p_value=2e-40,
        q_value=0.002,
        observed=440,
        expected=23.2,
        rows=2100,
        horizon=HOUR,
        began=NOON - HOUR,
        rate_before=0.011,
        rate_now=0.21,
    )
    return replace(usual, **changes)


def tick(found: Finding, **changes: Any) -> Diagnosis:
    """The newest half hour, in which this was found."""
    usual = Diagnosis(
        at=NOON,
        rows=1000,
        clean_rows=940,
        outcomes=(OutcomeCount(found.outcome, 50, 12.5),),
        learning=False,
        gap=False,
        fit_status="converged",
        fit_steps=20,
        delta=0.0,
        nodes=7,
        rare_nodes=2,
        edges=(Edge("airline=AC", "fare=3", 0.7), Edge("fare=3", found.outcome, 0.4)),
        edges_added=2,
        edges_removed=1,
        paths_truncated=False,
        findings=(found,),
        unexplained={},
    )
    return replace(usual, **changes)
