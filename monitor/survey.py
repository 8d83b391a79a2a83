"""A first look at a log: what its attributes and outcomes hold, and what seems odd about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from monitor.config.durations import format_duration
from monitor.domain import MISSING, Batch, Misfit, Rejected, Schema, WindowSettings, utc
from monitor.misfits import MIN_ROWS, Tally, misfits
from monitor.spelling import alike
from monitor.vocabulary import Vocabulary

ZONES = timedelta(hours=15)
"""How far two zones can be apart."""

_EPOCH = datetime.fromtimestamp(0, UTC)

OLD = timedelta(days=20 * 365)
"""No log is so old, but one whose seconds are taken for milliseconds."""

ENDED = 0.1
"""Share of the time at whose end an attribute has no value any more."""

SPELT_OTHERWISE = 0.01
"""Share of the rows from which on values that only look different are told."""

TOP = 3
"""Most frequent values shown."""


@dataclass(frozen=True, slots=True)
class AttributeSurvey:
    """One attribute in the rows looked at."""

    name: str
    tier: int
    values: int
    """Distinct values."""
    frequent: int
    """Values frequent enough, in the mean window, to become nodes."""
    missing: int
    """Rows without a value."""
    top: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OutcomeSurvey:
    """One outcome in the rows looked at."""

    name: str
    failures: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the monitor could do with these rows, were they the whole log."""

    slices: int
    """From the first to the last, empty ones too."""
    empty_slices: int
    rows_per_slice: float
    """Of those that are not empty."""
    nodes: int
    """Of the graph: frequent values and outcomes."""
    verdicts: int
    """Ticks after the learning time: those that could find something."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The rows looked at."""

    rows: int
    first: datetime | None
    last: datetime | None
    attributes: tuple[AttributeSurvey, ...]
    outcomes: tuple[OutcomeSurvey, ...]
    rejected: dict[str, int]
    """Reason → rows left out."""
    excluded: int
    """Rows that `source.where` leaves out."""
    kept: dict[str, int]
    """Reason → rows counted although something in them could not be read."""
    examples: tuple[Rejected, ...]
    """The first complaint of each reason."""
    misfits: tuple[Misfit, ...]
    """What a person should look at before trusting the rest."""
    strange_times: str
    """What is odd about the event times; empty when nothing is."""
    outlook: Outlook | None
    """None without rows."""


def survey(
    batches: Iterable[Batch],
    schema: Schema,
    vocabulary: Vocabulary,
    window: WindowSettings,
    now: datetime,
    learning: timedelta = timedelta(0),
) -> Survey:
    """Count the rows.

    Args:
        batches: of the source.
        schema, vocabulary: of the source.
        window: of the configuration.
        now: the clock.
        learning: history needed before the first verdict.
    """
    tally = Tally(schema)
    told: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[str, Rejected] = {}
    ends: list[np.datetime64] = []
    late = np.datetime64(now.astimezone(UTC).replace(tzinfo=None)) + np.timedelta64(
        window.max_future
    )
    ahead = 0
    step = np.timedelta64(window.slice_length).astype("timedelta64[us]").astype(np.int64)
    filled: set[int] = set()
    apart = 0
    newest = np.zeros(len(schema.attributes), np.int64)
    for batch in batches:
        events = batch.events
        for one in batch.rejected:
            told[one.result][one.reason] += one.count
            examples.setdefault(one.reason, one)
        if len(events):
            ends += [events.at.min(), events.at.max()]
            ahead += int((events.at > late).sum())
            at = events.at.astype(np.int64)
            filled.update(np.unique(at // step).tolist())
            apart = int(np.gcd(apart, np.gcd.reduce(at - ends[0].astype(np.int64))))
            valued = np.where(events.values != MISSING, at[:, None], 0)
            newest = np.maximum(newest, valued.max(axis=0))
            tally.add(events)
    rows, counts = tally.rows, [values[:, 0] for values in tally.values]
    first, last = (utc(min(ends)), utc(max(ends))) if ends else (None, None)
    windows = max((last - first) / window.length, 1.0) if first and last else 1.0
    attributes = []
    for i, attribute in enumerate(schema.attributes):
        order = np.argsort(-counts[i], kind="stable")[:TOP]
        top = [(vocabulary.text(i, int(c)), int(counts[i][c])) for c in order if counts[i][c]]
        attributes.append(
            AttributeSurvey(
                attribute.name,
                attribute.tier,
                values=int((counts[i] > 0).sum()),
                frequent=int((counts[i] / windows >= window.min_count).sum()),
                missing=rows - int(tally.present[i]),
                top=tuple(top),
            )
        )
    outcomes = [
        OutcomeSurvey(name, int(count))
        for name, count in zip(schema.outcomes, tally.failures, strict=True)
    ]
    return Survey(
        rows,
        first,
        last,
        tuple(attributes),
        tuple(outcomes),
        dict(told["rejected"]),
        told["excluded"].total(),
        dict(told["kept"]),
        tuple(examples.values()),
        (
            *_misfits(tally, windows, attributes, window),
            *_ended(tally, newest, first, last),
            *_spellings(tally, vocabulary),
        ),
        _coarse_times(rows, apart, filled, window) or _strange_times(first, last, ahead, now),
        _outlook(rows, filled, attributes, schema, window, learning),
    )


def _outlook(
    rows: int,
    filled: set[int],
    attributes: list[AttributeSurvey],
    schema: Schema,
    window: WindowSettings,
    learning: timedelta,
) -> Outlook | None:
    if not filled:
        return None
    slices = max(filled) - min(filled) + 1
    return Outlook(
        slices,
        slices - len(filled),
        rows / len(filled),
        sum(min(a.frequent, window.max_values) for a in attributes) + len(schema.outcomes),
        max(0, slices - int(-(-learning // window.slice_length))),
    )


def _misfits(
    tally: Tally, windows: float, attributes: list[AttributeSurvey], window: WindowSettings
) -> Iterable[Misfit]:
    rows = tally.rows
    if rows < MIN_ROWS:
        text = f"only {rows:,} row{'s' * (rows != 1)}: too few to tell what is odd"
        yield Misfit("few", "", text)
        return
    if rows / windows < 100:
        text = f"about {rows / windows:.0f} rows a window: too few to judge single values; "
        yield Misfit("few", "", f"{text}lengthen `window.length`")
    yield from misfits(tally, [one.frequent for one in attributes], window.max_values)


def _ended(
    tally: Tally, newest: np.ndarray, first: datetime | None, last: datetime | None
) -> Iterable[Misfit]:
    """Attributes that cease to have values.

    Args:
        tally: of all rows.
        newest: of each attribute, the time of the last row with a value, microseconds since 1970.
        first, last: times of the first and last row.
    """
    if first is None or last is None or first == last or tally.rows < MIN_ROWS:
        return
    for attribute, at, present in zip(
        tally.schema.attributes, newest.tolist(), tally.present.tolist(), strict=True
    ):
        until = _EPOCH + timedelta(microseconds=at)
        before = tally.rows * ((until - first) / (last - first))
        if present >= MIN_ROWS and present > before / 2 and last - until > ENDED * (last - first):
            yield Misfit(
                "ended",
                attribute.name,
                f"attribute `{attribute.name}` has no value after {until:%Y-%m-%d %H:%M} UTC, and "
                "had before: was its column renamed?",
            )


def _spellings(tally: Tally, vocabulary: Vocabulary) -> Iterable[Misfit]:
    """Values that a person would take for one."""
    for i, attribute in enumerate(tally.schema.attributes):
        rows = tally.values[i][:, 0]
        counts = {vocabulary.text(i, int(c)): int(rows[c]) for c in np.flatnonzero(rows)}
        groups = [sorted(group, key=lambda word: -counts[word]) for group in alike(counts)]
        fewer = sum(counts[word] for group in groups for word in group[1:])
        if tally.rows >= MIN_ROWS and fewer > SPELT_OTHERWISE * tally.rows:
            most = max(groups, key=lambda group: counts[group[1]])
            pair = f"`{most[0]}` and `{most[1]}`"
            yield Misfit(
                "spelling",
                attribute.name,
                f"attribute `{attribute.name}` has values that differ in capitals, blanks or zeros "
                f"alone, such as {pair}: they are judged apart; if they mean the same, have the "
                "log write them alike",
            )


def _coarse_times(rows: int, apart: int, filled: set[int], window: WindowSettings) -> str:
    """Times that are rounded to more than a slice, or whose days are months."""
    if rows < MIN_ROWS:
        return ""
    if not apart:
        return "all events have the same time: is the column of the event time the right one?"
    if timedelta(microseconds=apart) > window.slice_length:
        return (
            f"event times are whole multiples of {format_duration(timedelta(microseconds=apart))} "
            f"apart, so most slices of {format_duration(window.slice_length)} are empty: name a "
            "column with exact times, or lengthen `window.slice_length`"
        )
    zone, length = ZoneInfo(window.zone), window.slice_length
    days = {(_EPOCH + one * length).astimezone(zone).date() for one in filled}
    if len(days) > 1 and len({day.day for day in days}) == 1:
        return (
            f"all events lie on day {min(days).day} of {len(days)} months: are days and months the "
            "wrong way round in the format of the event time?"
        )
    return ""


def _strange_times(first: datetime | None, last: datetime | None, ahead: int, now: datetime) -> str:
    """Times of a wrong unit lie decades off, those of a wrong zone some hours ahead."""
    if first is None or last is None:
        return ""
    if ahead and last - now > ZONES:
        return (
            f"{ahead:,} events lie in the future, up to {last:%Y-%m-%d}: is the unit of the "
            "event time right?"
        )
    if ahead:
        hours = (last - now) / timedelta(hours=1)
        return (
            f"{ahead:,} events lie in the future, by up to {hours:.1f} hours: is the zone of the "
            "event time right?"
        )
    if now - last > OLD:
        return f"the newest event is of {last:%Y-%m-%d}: is the unit of the event time right?"
    return ""
