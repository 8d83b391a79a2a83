"""A first look at a log: what its attributes and outcomes hold, and what seems odd about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from monitor.domain import MISSING, Batch, Rejected, Schema, WindowSettings, utc
from monitor.vocabulary import Vocabulary

MIN_ROWS = 100
"""Rows below which everything looks odd."""

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
    oddities: tuple[str, ...]
    """What a person should look at before trusting the rest."""
    outlook: Outlook | None
    """None without rows."""


def survey(
    batches: Iterable[Batch],
    schema: Schema,
    vocabulary: Vocabulary,
    window: WindowSettings,
    limit: int,
    learning: timedelta = timedelta(0),
) -> Survey:
    """Count the first `limit` rows, or a few more: batches are not cut.

    Args:
        batches: of the source.
        schema, vocabulary: of the source.
        window: of the configuration.
        limit: in rows.
        learning: history needed before the first verdict.
    """
    counts = [np.zeros(0, np.int64) for _ in schema.attributes]
    missing = np.zeros(len(schema.attributes), np.int64)
    failures = np.zeros(len(schema.outcomes), np.int64)
    told: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[str, Rejected] = {}
    rows = 0
    ends: list[np.datetime64] = []
    step = np.timedelta64(window.slice_length).astype("timedelta64[us]").astype(np.int64)
    filled: set[int] = set()
    for batch in batches:
        events = batch.events
        for one in batch.rejected:
            told[one.result][one.reason] += one.count
            examples.setdefault(one.reason, one)
        if len(events):
            rows += len(events)
            ends += [events.at.min(), events.at.max()]
            filled.update(np.unique(events.at.astype(np.int64) // step).tolist())
            failures += events.failed.sum(axis=0)
            missing += (events.values == MISSING).sum(axis=0)
            for i in range(len(counts)):
                seen = np.bincount(events.values[:, i] + 1, minlength=len(counts[i]) + 1)[1:]
                seen[: len(counts[i])] += counts[i]
                counts[i] = seen
        if rows >= limit:
            break
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
                missing=int(missing[i]),
                top=tuple(top),
            )
        )
    outcomes = [
        OutcomeSurvey(name, int(count))
        for name, count in zip(schema.outcomes, failures, strict=True)
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
        tuple(_oddities(rows, windows, attributes, outcomes, schema, window)),
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


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _oddities(
    rows: int,
    windows: float,
    attributes: list[AttributeSurvey],
    outcomes: list[OutcomeSurvey],
    schema: Schema,
    window: WindowSettings,
) -> Iterable[str]:
    if rows < MIN_ROWS:
        yield f"only {_rows(rows)}: too few to tell what is odd"
        return
    if rows / windows < 100:
        yield (
            f"about {rows / windows:.0f} rows a window: too few to judge single values; "
            "lengthen `window.length`"
        )
    codes = {attribute.name for attribute in schema.attributes if attribute.is_code}
    for one in attributes:
        if one.missing == rows:
            yield f"attribute `{one.name}` never has a value; is its column the right one?"
        elif one.values == 1 and one.name not in codes:
            yield f"attribute `{one.name}` always has the same value: it can explain nothing"
        elif one.values > rows / 2:
            yield f"attribute `{one.name}` is almost unique to each row: it cannot be a cause"
        elif one.frequent > window.max_values:
            yield (
                f"attribute `{one.name}` has {one.frequent} frequent values, "
                f"more than `window.max_values` = {window.max_values}; the rest count as (other)"
            )
    for outcome in outcomes:
        if not outcome.failures:
            yield f"outcome `{outcome.name}` never happens; is its `when` right?"
        elif outcome.failures > rows / 2:
            yield f"outcome `{outcome.name}` happens in most rows; is its `when` turned round?"
