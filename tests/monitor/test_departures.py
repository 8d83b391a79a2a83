"""The log changes under a running monitor: a column vanishes, an outcome no longer happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from monitor.diagnosis import Monitor
from monitor.domain import Diagnosis
from monitor.edge.documents import diagnosis_document, diagnosis_from
from monitor.slices import Slice, aggregate
from tests.monitor.towns import SETTINGS, Town

WEEK = 7 * 48
CHANGE = 2 * WEEK + 10
TOWN = Town(rows=60)
LONG = replace(SETTINGS, detection=replace(SETTINGS.detection, history=timedelta(days=28)))


def without(piece: Slice, share: float, outcome: bool) -> Slice:
    """A slice in which some rows lost their fare, or nobody fails to pay any more."""
    values, failed = piece.values.copy(), piece.failed.copy()
    lost = np.random.default_rng(int(piece.rows)).random(len(values)) < share
    values[lost, 2] = -1
    if outcome:
        failed[:, 1] = False
    return aggregate(piece.start, values, failed, piece.weight)


def run(first: int, last: int, share: float = 0.0, outcome: bool = False) -> list[Diagnosis]:
    monitor = Monitor(LONG, TOWN.vocabulary())
    ticks = []
    for number in range(first, last):
        piece = TOWN.slice(number)
        if number >= CHANGE:
            piece = without(piece, share, outcome)
        ticks.append(monitor.tick(piece).diagnosis)
    return ticks


def said(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(misfit.kind, misfit.subject) for misfit in diagnosis.misfits]


def test_a_column_that_vanishes_is_told_within_two_ticks() -> None:
    ticks = run(CHANGE - 2 * 48, CHANGE + 2, share=1.0)
    assert said(ticks[-3]) == []
    assert said(ticks[-1]) == [("vanished", "fare")]
    assert "no row has a value, 100% had one" in ticks[-1].misfits[0].text
    document = diagnosis_document(ticks[-1])
    assert diagnosis_from(document).misfits == ticks[-1].misfits


def test_a_missing_share_that_jumps_is_told_within_two_ticks() -> None:
    ticks = run(CHANGE - 2 * 48, CHANGE + 2, share=0.6)
    assert said(ticks[-3]) == []
    assert said(ticks[-1]) == [("more_missing", "fare")]


def test_an_outcome_that_has_not_happened_for_a_week_is_told() -> None:
    ticks = run(0, CHANGE + WEEK, outcome=True)
    assert not any(said(tick) for tick in ticks[:-1]), "a log that stays as it was is told nothing"
    assert said(ticks[-1]) == [("silent", "pay")]
    learning = [tick.learning_outcomes for tick in ticks]
    assert learning == [("seat", "pay")] * 25 + [()] * (len(ticks) - 25)
