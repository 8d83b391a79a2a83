"""In what the log is no longer as it was: told while the monitor runs, from what history keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import numpy as np

from monitor.baseline import Taught
from monitor.domain import MISSING, Misfit, Schema, WindowSettings

NEWEST = 2
"""Half hours, or longer slices, in which a change has to show."""
LEAST_ROWS = 100
"""Of these slices."""
VANISHED = 0.99
"""Missing share from which on nothing of a column is left."""
JUMP = 0.3
"""Rise of a missing share that is no accident."""
USUAL_FAILURES = 20
"""Of an outcome in the weeks before, that a week without any is no accident."""


class Departures:
    """Compares the newest slices with the week before, and the last week with those before it.

    Args:
        schema: of the log.
        window: its slices.
    """

    def __init__(self, schema: Schema, window: WindowSettings) -> None:
        self._schema = schema
        self._day, self._week = (window.slices_in(timedelta(days=days)) for days in (1, 7))
        self._newest = NEWEST * window.per_half_hour
        self._counts: dict[int, tuple[float, np.ndarray, np.ndarray]] = {}

    def forget(self, start: int) -> None:
        """A slice has changed: late rows came."""
        self._counts.pop(start, None)

    def seen(
        self, history: Iterable[Taught], unknown: Mapping[int, frozenset[int]]
    ) -> tuple[Misfit, ...]:
        """What is no longer as it was.

        Args:
            history: oldest first.
            unknown: start of a slice → outcomes of which it says nothing: these have no past.
        """
        self._counts = {t.start: self._counts.get(t.start) or _counts(t) for t in history}
        rows, missing, failures = (
            np.array(one) for one in zip(*self._counts.values(), strict=True)
        )
        filled = np.flatnonzero(rows)
        newest, past = filled[-self._newest :], filled[-self._week : -self._newest]
        if len(past) < self._day or rows[newest].sum() < LEAST_ROWS:
            return ()
        before = failures[: -self._week].sum(axis=0) / max(len(failures) / self._week - 1, 1)
        before[list(frozenset().union(*unknown.values()))] = np.nan
        return tuple(
            _departures(
                self._schema,
                missing[past].sum(axis=0) / rows[past].sum(),
                missing[newest].sum(axis=0) / rows[newest].sum(),
                before,
                failures[-self._week :].sum(axis=0),
            )
        )


def _counts(taught: Taught) -> tuple[float, np.ndarray, np.ndarray]:
    """Rows of a slice, those without a value of each attribute, and failures of each outcome."""
    missing = taught.exposure @ (taught.values == MISSING)
    return float(taught.exposure.sum()), missing, taught.failures.sum(axis=0).astype(float)


def _departures(
    schema: Schema,
    usual: np.ndarray,
    now: np.ndarray,
    before: np.ndarray,
    lately: np.ndarray,
) -> Iterator[Misfit]:
    """In what the log is no longer as it was.

    Args:
        schema: of the log.
        usual: (attributes,) share of rows without a value, over the last week.
        now: likewise, of the newest slices.
        before: (outcomes,) failures of an average week before the last; NaN is unknown.
        lately: (outcomes,) failures of the last week.
    """
    for attribute, was, share in zip(schema.attributes, usual.tolist(), now.tolist(), strict=True):
        name = attribute.name
        if attribute.is_code or share - was < JUMP:
            continue
        if share >= VANISHED:
            yield Misfit(
                "vanished",
                name,
                f"attribute `{name}` is gone: no row has a value, {1 - was:.0%} had one",
            )
        else:
            yield Misfit(
                "more_missing",
                name,
                f"attribute `{name}` is missing in {share:.0%} of the rows, it was in {was:.0%}",
            )
    for name, usually, failures in zip(
        schema.outcomes, before.tolist(), lately.tolist(), strict=True
    ):
        if not failures and usually >= USUAL_FAILURES:
            yield Misfit(
                "silent",
                name,
                f"outcome `{name}` has not happened for a week; it did {usually:.0f} times a week",
            )
