"""The log changes under a running monitor: a column vanishes, an outcome no longer happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from monitor.baseline import Taught, teach
from monitor.departures import Departures
from monitor.diagnosis import Monitor
from monitor.domain import Misfit
from monitor.edge.documents import diagnosis_document, diagnosis_from
from monitor.slices import aggregate
from tests.monitor.towns import SCHEMA, SETTINGS, VALUES, Town

WEEK = 7 * 48
CHANGE = 2 * WEEK + 10
TOWN = Town(rows=60)
LONG = replace(SETTINGS, detection=replace(SETTINGS.detection, history=timedelta(days=28)))


Change = Callable[[np.ndarray, np.ndarray], None]
"""Of the codes and the failures of a slice, in place."""


def lost(attribute: int, share: float = 1.0) -> Change:
    def change(values: np.ndarray, failed: np.ndarray) -> None:
        values[np.random.default_rng(1).random(len(values)) < share, attribute] = -1

    return change


class Log:
    """The town's, day by day, and what is told of it."""

    def __init__(self, rows: int) -> None:
        self.town = Town(rows=rows)
        self.departures = Departures(SCHEMA, LONG.window)
        self.history: list[Taught] = []

    def tick(self, number: int, change: Change | None = None) -> list[tuple[str, str]]:
        piece = self.town.slice(number)
        values, failed = piece.values.copy(), piece.failed.copy()
        if change is not None:
            change(values, failed)
        piece = aggregate(piece.start, values, failed, piece.weight)
        self.history.append(teach(piece, number % 48, number // 48 % 7, np.zeros(2)))
        return said(self.departures.seen(self.history, {}))


def said(misfits: Iterable[Misfit]) -> list[tuple[str, str]]:
    return [(misfit.kind, misfit.subject) for misfit in misfits]


def always(outcome: int) -> Change:
    def change(values: np.ndarray, failed: np.ndarray) -> None:
        failed[:, outcome] = True

    return change


def never(values: np.ndarray, failed: np.ndarray) -> None:
    failed[:, 1] = False


def one_value(values: np.ndarray, failed: np.ndarray) -> None:
    values[:, 1] = 2


def other_spelling(values: np.ndarray, failed: np.ndarray) -> None:
    values[values[:, 0] >= 1, 0] += len(VALUES["office"])


@pytest.mark.parametrize(
    ("change", "kind", "subject"),
    [
        (lost(2), "vanished", "fare"),
        (lost(2, 0.6), "more_missing", "fare"),
        (lost(3), "vanished", "code"),
        (always(1), "always", "pay"),
        (never, "silent", "pay"),
        (one_value, "constant", "airline"),
        (other_spelling, "renewed", "office"),
    ],
)
def test_a_change_of_the_log_is_told_within_two_ticks(
    change: Change, kind: str, subject: str
) -> None:
    log = Log(1000)
    assert not any(log.tick(number) for number in range(3 * 48 + 20))
    told = [log.tick(number, change) for number in range(3 * 48 + 20, 3 * 48 + 22)]
    assert (kind, subject) in told[-1]


def test_a_release_that_replaces_all_others_is_no_change_of_the_log() -> None:
    def release(code: int) -> Change:
        def change(values: np.ndarray, failed: np.ndarray) -> None:
            values[:, 0] = code

        return change

    log = Log(200)
    assert not any(log.tick(number, release(1)) for number in range(2 * 48))
    assert not any(log.tick(number, release(7)) for number in range(2 * 48, 4 * 48))


def test_what_is_so_every_night_is_told_in_the_first_nights_only() -> None:
    """Jobs of the night have no fare."""
    log = Log(100)
    told = {
        number // 48
        for number in range(5 * 48)
        if log.tick(number, lost(2) if number % 48 < 8 and number >= 48 else None)
    }
    assert told == {1, 2}


def test_an_outcome_that_has_not_happened_for_a_week_is_told() -> None:
    monitor = Monitor(LONG, TOWN.vocabulary())
    ticks = []
    for number in range(CHANGE + WEEK):
        piece = TOWN.slice(number)
        if number >= CHANGE:
            failed = piece.failed.copy()
            failed[:, 1] = False
            piece = aggregate(piece.start, piece.values, failed, piece.weight)
        ticks.append(monitor.tick(piece).diagnosis)
    assert not any(tick.misfits for tick in ticks[:-1]), "a log that stays as it was"
    assert said(ticks[-1].misfits) == [("silent", "pay")]
    assert diagnosis_from(diagnosis_document(ticks[-1])).misfits == ticks[-1].misfits
    learning = [tick.learning_outcomes for tick in ticks]
    assert learning == [("seat", "pay")] * 25 + [()] * (len(ticks) - 25)
