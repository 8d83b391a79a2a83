"""Outcomes that are counted: bulk cancellations where the share of failures tells nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from monitor.checkpoint import Stored, restore, snapshot
from monitor.counts import CARRIERS, Usual, usual_failures, without_carriers
from monitor.diagnosis import Monitor
from monitor.domain import Attribute, DetectionSettings, Schema, WindowSettings
from monitor.slices import Slice, aggregate
from monitor.vocabulary import Vocabulary
from tests.monitor.towns import SETTINGS

DAY = np.timedelta64(1, "D")
START = np.datetime64("2026-03-02", "us")  # a Monday
AGENTS = 6
BLOCK = 4


def settings(*, counted: bool):
    return replace(
        SETTINGS,
        schema=Schema(
            (Attribute("agent", 0), Attribute("deposit", 1)),
            ("cancelled",),
            ("cancelled",) if counted else (),
        ),
        window=WindowSettings(slice_length=timedelta(days=1), length=timedelta(days=7)),
        detection=DetectionSettings(
            history=timedelta(days=56), learning=timedelta(days=28), horizons=(1, 2, 4, 7)
        ),
    )


def closing(number: int, *, block: int = 0, promotion: int = 1, seed: int = 3) -> Slice:
    """A day of closed bookings: deposits of kind 2 are cancelled 99 % of the time, all year.

    Weekends have half the traffic. `block` more of agent 4's, all of kind 2, all cancelled.
    """
    rng = np.random.default_rng([seed, number])
    rows = int(400 * promotion * (0.5 if number % 7 >= 5 else 1.0))
    agent, deposit = 1 + rng.integers(0, AGENTS, rows), 1 + (rng.random(rows) < 0.1)
    agent, deposit = np.append(agent, np.full(block, BLOCK)), np.append(deposit, np.full(block, 2))
    chance = np.where(deposit == 2, 0.99, 0.05)
    failed = rng.random(len(agent)) < chance
    values = np.column_stack([agent, deposit]).astype(np.int32)
    return aggregate(START + number * DAY, values, failed[:, None], np.ones(len(agent), np.int64))


def vocabulary(schema: Schema) -> Vocabulary:
    texts = Vocabulary(schema)
    texts.encode(0, [f"A{i}" for i in range(AGENTS)])
    texts.encode(1, ["none", "non-refundable"])
    return texts


def run(slices: list[Slice], *, counted: bool) -> tuple[Monitor, list[str]]:
    chosen = settings(counted=counted)
    monitor = Monitor(chosen, vocabulary(chosen.schema))
    opened = []
    for piece in slices:
        opened += [str(n.incident.finding.cause) for n in monitor.tick(piece).news]
    return monitor, opened


def test_a_bulk_cancellation_is_seen_by_its_count_and_not_by_its_rate() -> None:
    days = [closing(n, block=150 * (n == 45)) for n in range(46)]
    assert run(days, counted=False)[1] == []
    (cause,) = run(days, counted=True)[1]
    assert "A3" in cause


def test_a_bulk_is_one_cause_whatever_its_values_usually_have() -> None:
    """Of what A3 usually has cancelled a third is refundable; of the bulk nothing is."""
    slices = [closing(n, block=900 if n == 40 else 0) for n in range(46)]
    _, opened = run(slices, counted=True)
    assert set(opened) == {"agent=A3"}


def test_weeks_as_usual_are_silent_weekends_included() -> None:
    monitor, opened = run([closing(n) for n in range(56)], counted=True)
    assert opened == []
    assert monitor.baseline is not None
    week = monitor.baseline.usual.week[0]
    assert week[5:].max() < 0.75 < 1.0 < week[:5].min()


def test_expected_failures_do_not_follow_the_traffic() -> None:
    monitor, _ = run([closing(n) for n in range(42)], counted=True)
    quiet = monitor.tick(closing(42)).diagnosis.outcomes[0].expected
    busy = monitor.tick(closing(43, promotion=3)).diagnosis.outcomes[0].expected
    assert busy == pytest.approx(quiet, rel=0.25)


def test_carriers_bring_expectations_and_no_rows() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(1, 5, (300, 2)).astype(np.int32)
    rows, mean, week = usual_failures(
        values, np.ones(300), np.zeros(300, np.int64), np.full(7, 4), weeks=4.0
    )
    assert mean.sum() == pytest.approx(300 / 28)
    assert week[0] > 1 > week[1]
    usual = Usual.none(2, 2).replace(1, rows, mean, week)
    piece = closing(0)
    piece = replace(piece, failed=np.column_stack([piece.failed, piece.failed]))
    whole, expected = usual.carried(piece, np.full((len(piece.weight), 2), 0.25), np.ones(2), 0)
    assert whole.rows == piece.rows
    real = whole.weight > 0
    np.testing.assert_array_equal(expected[real, 0], 0.25)
    assert expected[~real, 0].sum() == 0
    assert expected[~real, 1].sum() == pytest.approx(mean.sum() * week[0], rel=1e-5)
    again = without_carriers(whole)
    for name in ("values", "failed", "weight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(piece, name))


def test_a_memory_older_than_counted_outcomes_is_taken_over() -> None:
    chosen = settings(counted=False)
    straight = Monitor(chosen, vocabulary(chosen.schema))
    kept = remembered(straight, [closing(n) for n in range(32)])
    saved = snapshot(straight)
    older = {n: a for n, a in saved.arrays.items() if not n.startswith("baseline.usual")}
    assert len(older) < len(saved.arrays)
    again = Monitor(chosen, vocabulary(chosen.schema))
    restore(again, replace(saved, arrays=older), kept)
    for number in (32, 33):
        piece = closing(number)
        assert again.tick(piece).diagnosis.outcomes == straight.tick(piece).diagnosis.outcomes


def remembered(monitor: Monitor, slices: list[Slice]) -> list[Stored]:
    """Tick through the slices; what a store would hold of them."""
    kept: dict[np.datetime64, Stored] = {}
    for piece in slices:
        for coded in monitor.tick(piece).rewritten:
            kept[coded.slice.start] = Stored(coded.slice, coded.expected)
    return [kept[start] for start in sorted(kept)]


def test_many_distinct_failures_are_sampled_without_moving_their_mean() -> None:
    values = np.arange(3 * CARRIERS, dtype=np.int32)[:, None]
    failures = np.ones(len(values))
    days = np.full(7, 1)
    rows, mean, _ = usual_failures(values, failures, np.zeros(len(values), np.int64), days, 1.0)
    assert len(rows) <= CARRIERS
    assert mean.sum() == pytest.approx(len(values) / 7)


def test_a_restart_goes_on_exactly() -> None:
    days = [closing(n, block=150 * (n == 45)) for n in range(50)]
    chosen = settings(counted=True)
    straight = Monitor(chosen, vocabulary(chosen.schema))
    kept = remembered(straight, days[:40])
    again = Monitor(chosen, vocabulary(chosen.schema))
    restore(again, snapshot(straight), kept)
    for piece in days[40:]:
        one, other = straight.tick(piece), again.tick(piece)
        assert one.diagnosis.findings == other.diagnosis.findings
        assert one.diagnosis.outcomes == other.diagnosis.outcomes
        assert one.incidents == other.incidents
    assert one.incidents
