"""What a configuration gets wrong about its log, seen from counts of rows; each with its cure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from monitor.domain import MISSING, Events, Misfit, Schema

MIN_ROWS = 100
"""Rows below which everything looks odd."""
MIN_FAILURES = 20
"""Of an outcome; below, nothing is said of what its failures have in common."""
NEARLY_ALL = 0.999
MANY_MISSING, MORE_MISSING = 0.5, 0.4
"""Share of an outcome's failures without a value, and by how much it exceeds that of the rest."""
FOLLOWS = 0.9
"""Share of the failures that lie in values of which nearly every row fails."""
FAILS_ALWAYS = 0.99
LEAST_ROWS = 5
"""Of a value, before it is taken to fail always."""
SWAPPED = 0.01
"""Share of the rows with a later value that lack an earlier one, before tiers seem swapped."""


class Tally:
    """Counts of rows, batch by batch.

    Args:
        schema: of the events.
    """

    def __init__(self, schema: Schema) -> None:
        attributes, outcomes = len(schema.attributes), len(schema.outcomes)
        self.schema = schema
        self.rows = 0
        self.failures = np.zeros(outcomes, np.int64)
        self.failed_together = np.zeros((outcomes, outcomes), np.int64)
        self.together = np.zeros((attributes, attributes), np.int64)
        """Rows that have values of both; of one by itself in the diagonal."""
        self.lost_failed = np.zeros((attributes, attributes), np.int64)
        """[a, b]: rows without a value of a that have one of b, and in which something failed."""
        self.present_failed = np.zeros((attributes, outcomes), np.int64)
        self.values = [np.zeros((0, 1 + outcomes), np.int64) for _ in schema.attributes]
        """Per attribute and code: rows, then failures of every outcome."""

    def add(self, events: Events) -> None:
        """Count some more."""
        present = events.values != MISSING
        failed = events.failed
        lost = ~present[failed.any(axis=1)]
        there = present.astype(np.int64)
        self.rows += len(events)
        self.failures += failed.sum(axis=0)
        self.failed_together += failed.astype(np.int64).T @ failed.astype(np.int64)
        self.together += there.T @ there
        self.lost_failed += lost.astype(np.int64).T @ (~lost).astype(np.int64)
        self.present_failed += there.T @ failed.astype(np.int64)
        for a, codes in enumerate(events.values.T):
            size = max(int(codes.max(initial=MISSING)) + 1, len(self.values[a]))
            seen = [np.bincount(codes + 1, minlength=size + 1)[1:]]
            seen += [np.bincount(codes[f] + 1, minlength=size + 1)[1:] for f in failed.T]
            counts = np.column_stack(seen)
            counts[: len(self.values[a])] += self.values[a]
            self.values[a] = counts

    @property
    def present(self) -> np.ndarray:
        """(attributes,) rows with a value."""
        return np.asarray(self.together.diagonal())

    def count(self, attribute: int) -> int:
        """Distinct values."""
        return int((self.values[attribute][:, 0] > 0).sum())


def misfits(tally: Tally, frequent: Sequence[int], max_values: int) -> Iterator[Misfit]:
    """What the counts say against the schema: by attribute, by tiers, by outcome.

    Args:
        tally: of `MIN_ROWS` rows or more.
        frequent: values of each attribute that would become nodes.
        max_values: of which so many may.
    """
    for a, attribute in enumerate(tally.schema.attributes):
        found = list(_of_attribute(tally, a))
        yield from found
        if frequent[a] > max_values and not any(one.kind == "unique" for one in found):
            yield Misfit(
                "crowded",
                attribute.name,
                f"attribute `{attribute.name}` has {frequent[a]} frequent values, more than "
                f"`window.max_values` = {max_values}; the rest count as (other)",
            )
    yield from _of_tiers(tally)
    for name, failures in zip(tally.schema.outcomes, tally.failures.tolist(), strict=True):
        if not failures:
            yield Misfit("never", name, f"outcome `{name}` never happens; is its `when` right?")
        elif failures == tally.rows:
            yield Misfit(
                "always", name, f"outcome `{name}` happens in every row; is its `when` right?"
            )
        elif failures > tally.rows / 2:
            yield Misfit(
                "mostly",
                name,
                f"outcome `{name}` happens in most rows; is its `when` turned round?",
            )
    yield from _twins(tally)


def _twins(tally: Tally) -> Iterator[Misfit]:
    """Outcomes that are one: every incident would be told twice."""
    for o, name in enumerate(tally.schema.outcomes):
        for other in range(o):
            together = int(tally.failed_together[o, other])
            both = max(tally.failures[[o, other]])
            if MIN_FAILURES <= together == both < tally.rows / 2:
                yield Misfit(
                    "twins",
                    name,
                    f"outcome `{name}` happens in the same rows as "
                    f"`{tally.schema.outcomes[other]}`: all would be told twice; keep one",
                )


def _of_attribute(tally: Tally, a: int) -> Iterator[Misfit]:
    attribute = tally.schema.attributes[a]
    name, present = attribute.name, int(tally.present[a])
    if not present:
        yield Misfit(
            "never",
            name,
            f"attribute `{name}` never has a value; is its column the right one?",
        )
        return
    values, top = tally.count(a), int(tally.values[a][:, 0].max())
    if values > tally.rows / 2 or (values > present / 2 and present >= MIN_ROWS):
        yield Misfit(
            "unique",
            name,
            f"attribute `{name}` is almost unique to each row: it cannot be a cause; leave it out",
        )
        return
    if attribute.is_code:
        return
    if values == 1:
        yield Misfit(
            "constant",
            name,
            f"attribute `{name}` always has the same value: it can explain nothing",
        )
    elif top > NEARLY_ALL * tally.rows:
        yield Misfit(
            "constant",
            name,
            f"attribute `{name}` has the same value in {top / tally.rows:.2%} of the rows: it can "
            "explain next to nothing",
        )
    yield from _by_failures(tally, a)


def _by_failures(tally: Tally, a: int) -> Iterator[Misfit]:
    name, present = tally.schema.attributes[a].name, int(tally.present[a])
    for o, outcome in enumerate(tally.schema.outcomes):
        failures = int(tally.failures[o])
        rest = tally.rows - failures
        if failures < MIN_FAILURES or rest < failures:
            continue
        lost = 1 - tally.present_failed[a, o] / failures
        usual = 1 - (present - tally.present_failed[a, o]) / rest
        if lost >= MANY_MISSING and lost - usual >= MORE_MISSING:
            yield Misfit(
                "empty_on_failures",
                name,
                f"attribute `{name}` is missing in {lost:.0%} of the rows with `{outcome}`, and in "
                f"{usual:.0%} of the others: it cannot be named as their cause; log it before the "
                "step that fails",
            )
        elif usual - lost >= FOLLOWS:
            yield Misfit(
                "on_failures_only",
                name,
                f"attribute `{name}` is there on `{outcome}` only: it tells what failed, not why; "
                "name it as `schema.error_code`",
            )
        elif _follows(tally, a, o):
            yield Misfit(
                "follows",
                name,
                f"attribute `{name}` follows from outcome `{outcome}`: some of its values always "
                "fail, the others hardly ever, so it will seem to be the cause of every failure; "
                "leave it out",
            )


def _follows(tally: Tally, a: int, o: int) -> bool:
    rows, failed = tally.values[a][:, 0], tally.values[a][:, 1 + o]
    always = (rows >= LEAST_ROWS) & (failed >= FAILS_ALWAYS * rows)
    seen = int(failed.sum())
    return seen >= MIN_FAILURES and int(failed[always].sum()) >= FOLLOWS * seen


def _of_tiers(tally: Tally) -> Iterator[Misfit]:
    """Who fails at a step has no values of later steps; of earlier ones only under wrong tiers."""
    attributes = tally.schema.attributes
    for a, early in enumerate(attributes):
        for b, later in enumerate(attributes):
            if early.tier >= later.tier or early.is_code or later.is_code:
                continue
            both, without = int(tally.together[a, b]), int(tally.present[b] - tally.together[a, b])
            if (
                without > max(SWAPPED * tally.present[b], MIN_FAILURES)
                and both >= NEARLY_ALL * tally.present[a]
                and tally.lost_failed[a, b] >= FOLLOWS * without
            ):
                yield Misfit(
                    "tiers",
                    early.name,
                    f"attribute `{early.name}` is missing in failed rows that have `{later.name}`, "
                    "and never the other way round, though its tier is the earlier one; are the "
                    "tiers the wrong way round?",
                )
