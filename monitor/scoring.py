"""Incidents against labels and quiet days: recall, precision, delay, false alarms."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

from monitor.domain import Cause, Incident


class LabelError(Exception):
    """A label file cannot be read; the message names the file, the line and the field."""


@dataclass(frozen=True, slots=True)
class Label:
    """A known anomaly: when, of which outcome, and which causes count as right."""

    id: str
    start: datetime
    end: datetime
    """Exclusive."""
    outcome: str
    accept: tuple[Cause, ...]
    partly: tuple[Cause, ...] = ()
    event: str = ""
    """What happened, for people."""


@dataclass(frozen=True, slots=True)
class Case:
    """How one label fared."""

    label: Label
    reported: tuple[Incident, ...]
    """Incidents of its outcome that opened or worsened inside its time, best first."""
    right_first: bool
    """The best is a right one; what is right for another label of that time is left out, for two
    things may happen at once."""
    right_any: bool
    delay: timedelta | None
    """From the label's start to the first right report."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of a backtest."""

    cases: tuple[Case, ...]
    quiet_days: int
    quiet_days_alarmed: int
    recall_at_1: float | None
    recall_any: float | None
    exact: float | None
    mean_delay_ticks: float | None
    false_alarms_per_week: float | None
    """New incidents on quiet days, per week of them; without quiet days, outside all labels."""
    precision: float | None
    """Share of incidents that fall into a label's time and outcome; only a lower bound, for a
    label file rarely lists everything that went wrong."""


def read_labels(path: Path, zone: str) -> tuple[Label, ...]:
    """Labels from JSON lines: id, start, end, outcome, accept, partly.

    Start and end are ISO times, or days (inclusive) in `zone`.

    Raises:
        LabelError: a line is no label.
    """
    labels = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            labels.append(
                Label(
                    raw["id"],
                    _moment(raw["start"], zone),
                    _moment(raw["end"], zone, end=True),
                    raw["outcome"],
                    tuple(Cause.from_json(selector) for selector in raw["accept"]),
                    tuple(Cause.from_json(selector) for selector in raw.get("partly", [])),
                    raw.get("event", ""),
                )
            )
        except KeyError as error:
            raise LabelError(f"{path}:{number}: the label has no field {error}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise LabelError(f"{path}:{number}: not a label: {error}") from None
    return tuple(labels)


def _moment(text: str, zone: str, *, end: bool = False) -> datetime:
    if len(text) == len("2013-04-16"):
        day = date.fromisoformat(text) + timedelta(days=int(end))
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return moment.astimezone(UTC)


def read_quiet_days(path: Path) -> tuple[date, ...]:
    """Days on which an alarm is false, from a CSV with a column `date`.

    Raises:
        LabelError: the column is missing, or a cell is no date.
    """
    with path.open(encoding="utf-8", newline="") as file:
        days = []
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                days.append(date.fromisoformat(row["date"]))
            except KeyError:
                raise LabelError(f"{path}: no column `date`; the first line names them") from None
            except (ValueError, TypeError):
                raise LabelError(f"{path}:{number}: `date` is no day; write 2013-02-01") from None
        return tuple(days)


def score(
    incidents: Sequence[Incident],
    labels: Sequence[Label],
    quiet_days: Iterable[date],
    zone: str,
    slice_length: timedelta,
    span: tuple[datetime, datetime],
) -> Scores:
    """Compare incidents of one method with the truth.

    Args:
        incidents: all of the backtest.
        labels: known anomalies; those outside `span` are left out.
        quiet_days: local days without any anomaly; those outside `span` are left out.
        zone: time zone of those days.
        slice_length: one tick.
        span: start and end of the data.
    """
    cases = tuple(
        _case(label, incidents, labels) for label in labels if span[0] <= label.start < span[1]
    )
    local = ZoneInfo(zone)
    first, last = (moment.astimezone(local).date() for moment in (span[0], span[1] - slice_length))
    days = {day for day in quiet_days if first <= day <= last}
    # a report at midnight ends the slice before it, so it belongs to the day before
    alarmed = [
        (i.opened_at - slice_length).astimezone(local).date()
        for i in incidents
        if (i.opened_at - slice_length).astimezone(local).date() in days
    ]
    found = [case for case in cases if case.delay is not None]
    delays = [case.delay / slice_length for case in found if case.delay is not None]
    inside = [i for i in incidents if any(_during(i, case.label) for case in cases)]
    outside_weeks = (span[1] - span[0]) / timedelta(weeks=1)
    rate: float | None
    if days:
        rate = len(alarmed) / (len(days) / 7)
    else:
        rate = (len(incidents) - len(inside)) / outside_weeks if outside_weeks else None
    n = len(cases)
    return Scores(
        cases=cases,
        quiet_days=len(days),
        quiet_days_alarmed=len(set(alarmed)),
        recall_at_1=sum(c.right_first for c in cases) / n if n else None,
        recall_any=sum(c.right_any for c in cases) / n if n else None,
        exact=(
            sum(bool(c.reported) and c.reported[0].finding.cause in c.label.accept for c in cases)
            / n
            if n
            else None
        ),
        mean_delay_ticks=sum(delays) / len(delays) if delays else None,
        false_alarms_per_week=rate,
        precision=len(inside) / len(incidents) if incidents and cases else None,
    )


def is_right(cause: Cause, accept: Sequence[Cause]) -> bool:
    """Whether a cause is an accepted one; of several values, most of them must be.

    A storm that closes five airports is told as five values, and a label that lists four of
    them is about the same storm.
    """
    if cause in accept:
        return True
    parts = [[(name, (value,)) for value in values] for name, values in cause.selector]
    single = [Cause(tuple(part)) for part in product(*parts)]
    return len(single) > 1 and 2 * sum(one in accept for one in single) > len(single)


def _during(incident: Incident, label: Label) -> bool:
    """Opened or worsened inside the label's time, for the label's outcome."""
    return incident.finding.outcome == label.outcome and any(
        label.start < moment <= label.end for moment in (incident.opened_at, *incident.worsened_at)
    )


def _case(label: Label, incidents: Sequence[Incident], labels: Sequence[Label]) -> Case:
    reported = sorted(
        (i for i in incidents if _during(i, label)), key=lambda i: (-i.finding.score, i.id)
    )
    right = [i for i in reported if is_right(i.finding.cause, label.accept)]
    first = min(
        (
            moment
            for i in right
            for moment in (i.opened_at, *i.worsened_at)
            if label.start < moment <= label.end
        ),
        default=None,
    )
    others = [o for o in labels if o.start < label.end and label.start < o.end]
    answers = [
        i
        for i in reported
        if i in right
        or not any(_during(i, o) and is_right(i.finding.cause, o.accept) for o in others)
    ]
    return Case(
        label=label,
        reported=tuple(reported),
        right_first=bool(right) and answers[0] in right,
        right_any=bool(right),
        delay=None if first is None else first - label.start,
    )
