"""Tables → the minimal causes of one outcome: scan, name, explain away, look again.

The best cell over all horizons is found by an over-dispersed score. How specific the cause
is follows from the remainders of nested cells (plain Poisson: over-dispersion is shared
within one window). Its rows are then expected to fail as they did, and the scan is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.attribution.cells import LEAVE_ONE_OUT, WHOLE_PRICE, looks
from monitor.attribution.scan import Scan
from monitor.attribution.suspects import (
    LEFT,
    VOLUMES,
    Conditions,
    Scatter,
    Settled,
    Suspect,
    began,
    has_ended,
    match,
)
from monitor.window import Horizons

__all__ = [
    "LEAVE_ONE_OUT",
    "VOLUMES",
    "WHOLE_PRICE",
    "Attribution",
    "Conditions",
    "Scatter",
    "Settled",
    "Suspect",
    "attribute",
    "began",
    "has_ended",
    "looks",
    "match",
]

LATER_ROUNDS = 2.0
"""Nats asked on top of the threshold once a cause has been found."""
DROP_ONE = 5.0


@dataclass(frozen=True, slots=True)
class Attribution:
    """The causes of one outcome at one tick."""

    suspects: tuple[Suspect, ...]
    best_score: float
    """Of the scan's first round, before any surcharge was paid."""
    unexplained: float
    """Share of the outcome's excess that no cause explains."""


def attribute(
    outcome: int,
    tables: Horizons,
    scatter: Scatter,
    threshold: float,
    min_failures: int,
    max_causes: int,
    settled: Sequence[Settled] = (),
    floor: float = 0.0,
    whole_price: float = WHOLE_PRICE,
    value_price: float = 0.0,
    barred: frozenset[int] = frozenset(),
    arrived: np.ndarray | None = None,
) -> Attribution:
    """Find the causes of `outcome`, best first.

    Args:
        outcome: index of the failures to explain.
        tables: counts of the last slices, by horizon.
        scatter: over-dispersion of quiet counts.
        threshold: nats that a cause must hold after the price of the search.
        min_failures: fewer are never a cause.
        max_causes: at most so many are named.
        settled: causes whose incidents are over.
        floor: failures expected of any single value or pair at least.
        whole_price: nats asked of "everything" on top of the threshold.
        value_price: nats asked of "everything" and of single values on top.
        barred: attributes that failure itself keeps empty: their values are no causes.
        arrived: see `has_ended`.
    """
    scan = Scan(outcome, tables, scatter, min_failures, floor, whole_price, value_price, barred)
    if not scan.enough:
        return Attribution((), -np.inf, 0.0)
    for episode in settled:
        scan.settle(episode)
    gates = scan.gates()
    best = float((gates + scan.surcharge).max())
    suspects: list[Suspect] = []
    while len(suspects) < max_causes:
        wanted = threshold + (LATER_ROUNDS if suspects else 0.0)
        suspect = scan.best(gates, wanted)
        if suspect is None or any(s.conditions == suspect.conditions for s in suspects):
            break
        suspects.append(suspect)
        scan.locate(suspect)
        if len(suspects) < max_causes:
            scan.explain(suspect)
            gates = scan.gates()
    unexplained = scan.unexplained() if suspects else 0.0
    if len(suspects) > 1:
        suspects = _jointly(suspects, scan, threshold)
    left = 1.0 if floor else LEFT
    for suspect in suspects:
        suspect.ended = has_ended(suspect, tables.horizons[suspect.horizon], arrived, left)
    return Attribution(tuple(suspects), best, unexplained)


def _jointly(suspects: Sequence[Suspect], scan: Scan, threshold: float) -> list[Suspect]:
    """Fit all causes together and drop, one by one, those that are not needed."""
    slices, horizons = scan.tables.slices, scan.tables.horizons
    count = len(slices)
    pattern_o = np.zeros(1 << len(suspects))
    pattern_e = np.zeros(1 << len(suspects))
    for s, coded in enumerate(slices):
        pattern = np.zeros(len(coded.local), np.int64)
        for bit, suspect in enumerate(suspects):
            if count - s <= horizons[suspect.horizon]:
                pattern |= suspect.matches[s].astype(np.int64) << bit
        weight = coded.exposure
        failed = weight * coded.slice.failed[:, scan.outcome]
        pattern_o += np.bincount(pattern, failed, len(pattern_o))
        pattern_e += np.bincount(pattern, weight * scan.fair[s], len(pattern_e))
    patterns = np.arange(len(pattern_o))

    def likelihood(chosen: list[int]) -> float:
        mu = np.maximum(pattern_e, 1e-12)
        for _ in range(4):
            for bit in chosen:
                inside = (patterns >> bit & 1).astype(bool)
                o, e = pattern_o[inside].sum(), mu[inside].sum()
                if o > 0 and e > 0:
                    mu = np.where(inside, mu * (o / e), mu)
        return float((pattern_o * np.log(mu) - mu).sum())

    chosen = list(range(len(suspects)))
    while len(chosen) > 1:
        whole = likelihood(chosen)
        loss = [whole - likelihood([c for c in chosen if c != bit]) for bit in chosen]
        weakest = int(np.argmin(loss))
        if loss[weakest] >= threshold + DROP_ONE:
            break
        del chosen[weakest]
    return [suspects[bit] for bit in chosen]
