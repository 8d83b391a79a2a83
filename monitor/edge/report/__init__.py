"""A backtest as one HTML file: no script, nothing from elsewhere, for screen and paper."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from importlib import resources
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor import __version__
from monitor.config import Config
from monitor.config.listing import listing
from monitor.domain import Cause, Incident, Method
from monitor.edge.report.timeline import HEIGHT, WIDTH, Drawing, draw, place
from monitor.edge.wording import (
    cause_text,
    duration,
    number,
    percent,
    probability,
    time_text,
    visible,
)
from monitor.scoring import Case, Scores

MOST_CARDS = 150
"""Incidents shown in full: those of highest score."""

MOST_ROWS = 1000
"""Incidents and cases in tables."""

THRESHOLDS = (1, 2, 3, 5, 8, 12, 20, 30, 50)
"""Scores, in nats."""


@dataclass(frozen=True, slots=True)
class Series:
    """Every tick of a replay, column by column."""

    at: Sequence[datetime]
    learning: Sequence[bool]
    gap: Sequence[bool]
    observed: Sequence[Sequence[int]]
    """(outcomes, ticks)"""
    expected: Sequence[Sequence[float]]
    scores: Sequence[Sequence[float]]
    p_values: Sequence[Sequence[int]]
    """(ticks, bins); empty while learning"""


@dataclass(frozen=True, slots=True)
class Backtest:
    """All that a report tells."""

    config: Config
    inputs: Sequence[str]
    rows: int
    rejected: Mapping[str, int]
    series: Series
    incidents: Mapping[Method, Sequence[Incident]]
    scores: Mapping[Method, Scores]
    quiet_days: Sequence[date] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a timeline."""

    x: float
    width: float
    title: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """One outcome over time."""

    outcome: str
    counts: Drawing
    scores: Drawing
    labels: tuple[Span, ...]
    incidents: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """One incident and what the labels say of it."""

    incident: Incident
    verdict: str
    right: bool | None
    """None: no label is about its time and outcome."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores and p-values at ticks at which nothing was wrong."""

    ticks: int
    above: tuple[tuple[int, int, float], ...]
    """Score, ticks that reached it, how often a week."""
    bars: tuple[tuple[float, float, float, str], ...]
    """x, y, height of a bar of p-values, 0 to 100, and its words."""
    cells: int
    small: float | None
    """Share of the p-values in the lowest bin."""
    bins: int


def render(found: Backtest) -> str:
    """The whole file."""
    page = Environment(
        loader=PackageLoader("monitor.edge.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    zone = ZoneInfo(found.config.settings.window.zone)
    page.filters.update(
        time=lambda at: time_text(at, zone),
        number=number, percent=percent, duration=duration, small=probability, shown=visible,
        cause=lambda cause: visible(cause_text(cause)),
    )  # fmt: skip
    style = (resources.files(__name__) / "report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    report = found.config.settings.detection.report
    mine = list(found.incidents.get(report, ()))
    cards = [_card(i, found.scores.get(report)) for i in mine]
    cards.sort(key=lambda c: (-c.incident.finding.score, c.incident.opened_at))
    cases = found.scores[report].cases if report in found.scores else ()
    return page.get_template("report.html").render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        found=found,
        version=__version__,
        report=report.value,
        zone=str(zone),
        charts=_charts(found, mine, cases, [c.incident.id for c in cards[:MOST_CARDS]]),
        calibration=_calibration(found, cases, zone),
        cards=cards[:MOST_CARDS],
        left_out=max(0, len(cards) - MOST_CARDS),
        table=sorted(cards, key=lambda c: (c.incident.opened_at, c.incident.id))[:MOST_ROWS],
        incident_count=len(cards),
        cases=cases[:MOST_ROWS],
        case_count=len(cases),
        scores={method.value: scores for method, scores in found.scores.items()},
        settings=listing(found.config),
        width=WIDTH,
        height=HEIGHT,
        axis=_axis(found.series.at, zone),
    )


def _charts(
    found: Backtest, incidents: Sequence[Incident], cases: Sequence[Case], shown: Sequence[str]
) -> list[Chart]:
    at = found.series.at
    if not at:
        return []
    first, last = at[0], at[-1]

    def span(start: datetime, end: datetime, title: str, href: str = "") -> Span:
        x = place(start, first, last)
        return Span(x, round(max(place(end, first, last) - x, 1.5), 2), title, href)

    charts = []
    for o, name in enumerate(found.config.settings.schema.outcomes):
        labels = tuple(
            span(
                c.label.start, c.label.end, visible(f"label {c.label.id}: {c.label.event or name}")
            )
            for c in cases
            if c.label.outcome == name and c.label.end > first and c.label.start < last
        )
        marks = tuple(
            span(
                i.opened_at,
                i.resolved_at or last,
                visible(f"{cause_text(i.finding.cause)}, score {number(i.finding.score)}"),
                f"#incident-{i.id}" if i.id in shown else "",
            )
            for i in incidents
            if i.finding.outcome == name
        )
        series = found.series
        charts.append(
            Chart(
                visible(name),
                draw(series.observed[o], series.expected[o]),
                draw(series.scores[o]),
                labels,
                marks,
            )
        )
    return charts


def _axis(at: Sequence[datetime], zone: tzinfo) -> list[tuple[float, str]]:
    if not at:
        return []
    first, last = at[0], at[-1]
    form = "%Y-%m-%d" if last - first > timedelta(days=4) else "%Y-%m-%d %H:%M"
    moments = [first + (last - first) * k / 5 for k in range(6)]
    return [(place(m, first, last), f"{m.astimezone(zone):{form}}") for m in moments]


def _card(incident: Incident, scores: Scores | None) -> Card:
    for case in scores.cases if scores else ():
        if incident.id not in [i.id for i in case.reported]:
            continue
        if incident.finding.cause in case.label.accept:
            return Card(incident, f"names what label {case.label.id} accepts", True)
        wanted = " or ".join(_words(cause) for cause in case.label.accept[:3])
        return Card(incident, f"label {case.label.id} accepts {wanted}", False)
    return Card(incident, "no label is about this time and outcome" if scores else "", None)


def _words(cause: Cause) -> str:
    return visible(cause_text(cause))


def _calibration(found: Backtest, cases: Sequence[Case], zone: tzinfo) -> Calibration:
    """Over the ticks on quiet days, or, where none are known, outside of all labels."""
    series, length = found.series, found.config.settings.window.slice_length
    # An incident is told for as long as the longest horizon still holds it.
    spans = [(c.label.start, c.label.end + found.config.settings.window.length) for c in cases]
    quiet = set(found.quiet_days)

    def counts(t: int) -> bool:
        at = series.at[t]
        if series.learning[t] or series.gap[t]:
            return False
        if quiet:
            return (at - length).astimezone(zone).date() in quiet
        return not any(start <= at < end for start, end in spans)

    calm = [t for t in range(len(series.at)) if counts(t)]
    best = [max((scores[t] for scores in series.scores), default=0.0) for t in calm]
    weeks = len(calm) * length / timedelta(days=7)
    above = tuple(
        (s, reached := sum(b >= s for b in best), reached / weeks if weeks else 0.0)
        for s in THRESHOLDS
    )
    bins = max((len(series.p_values[t]) for t in calm), default=0)
    sums = [sum(series.p_values[t][b] for t in calm if series.p_values[t]) for b in range(bins)]
    cells, top = sum(sums), max(sums, default=0)
    bars = tuple(
        (
            round(100 * b / bins, 2),
            round(100 - 92 * n / top, 2) if top else 100.0,
            round(92 * n / top, 2) if top else 0.0,
            f"p from {b / bins:g} to {(b + 1) / bins:g}: {n:,} of {cells:,}",
        )
        for b, n in enumerate(sums)
    )
    return Calibration(
        len(calm), above, bars, cells, sums[0] / cells if cells else None, max(bins, 1)
    )
