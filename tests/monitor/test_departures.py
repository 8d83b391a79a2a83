"""The log changes under a running monitor: a column vanishes, an outcome no longer happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from monitor.diagnosis import Monitor
from monitor.domain import Diagnosis
from monitor.edge.documents import diagnosis_document, diagnosis_from
from monitor.slices import aggregate
from tests.monitor.towns import SETTINGS, Town

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


def run(first: int, last: int, change: Change, town: Town = TOWN) -> list[Diagnosis]:
    """Ticks of a town whose log is changed from slice `CHANGE` on."""
    monitor = Monitor(LONG, town.vocabulary())
    ticks = []
    for number in range(first, last):
        piece = town.slice(number)
        if number >= CHANGE:
            values, failed = piece.values.copy(), piece.failed.copy()
            change(values, failed)
            piece = aggregate(piece.start, values, failed, piece.weight)
        ticks.append(monitor.tick(piece).diagnosis)
    return ticks


def said(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(misfit.kind, misfit.subject) for misfit in diagnosis.misfits]


def always(outcome: int) -> Change:
    def change(values: np.ndarray, failed: np.ndarray) -> None:
        failed[:, outcome] = True

    return change


def never(values: np.ndarray, failed: np.ndarray) -> None:
    failed[:, 1] = False


def one_value(values: np.ndarray, failed: np.ndarray) -> None:
    values[:, 1] = 2


def other_spelling(values: np.ndarray, failed: np.ndarray) -> None:
    values[values[:, 0] >= 1, 0] += 100


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
    ticks = run(CHANGE - 3 * 48, CHANGE + 2, change, Town(rows=400))
    assert not any(said(tick) for tick in ticks[:-2])
    assert said(ticks[-1]) == [(kind, subject)]
    assert diagnosis_from(diagnosis_document(ticks[-1])).misfits == ticks[-1].misfits


def test_a_release_that_replaces_all_others_is_no_change_of_the_log() -> None:
    def released(values: np.ndarray, failed: np.ndarray) -> None:
        values[:, 0] = 101

    def before(values: np.ndarray, failed: np.ndarray) -> None:
        values[:, 0] = 1

    town = Town(rows=200)
    monitor = Monitor(LONG, town.vocabulary())
    for number in range(CHANGE - 3 * 48, CHANGE + 2):
        piece = town.slice(number)
        values, failed = piece.values.copy(), piece.failed.copy()
        (released if number >= CHANGE else before)(values, failed)
        tick = monitor.tick(aggregate(piece.start, values, failed, piece.weight))
        assert not said(tick.diagnosis)


def test_what_is_so_every_night_is_told_in_the_first_only() -> None:
    """Jobs of the night have no fare."""
    town = Town(rows=100)
    monitor = Monitor(LONG, town.vocabulary())
    told = []
    for number in range(5 * 48):
        piece = town.slice(number)
        values = piece.values.copy()
        if number % 48 < 8 and number > 48:
            values[:, 2] = -1
        tick = monitor.tick(aggregate(piece.start, values, piece.failed, piece.weight))
        told += [number // 48] * bool(said(tick.diagnosis))
    assert set(told) <= {1, 2}


def test_an_outcome_that_has_not_happened_for_a_week_is_told() -> None:
    ticks = run(0, CHANGE + WEEK, never)
    assert not any(said(tick) for tick in ticks[:-1]), "a log that stays as it was is told nothing"
    assert said(ticks[-1]) == [("silent", "pay")]
    learning = [tick.learning_outcomes for tick in ticks]
    assert learning == [("seat", "pay")] * 25 + [()] * (len(ticks) - 25)
