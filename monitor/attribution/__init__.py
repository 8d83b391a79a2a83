"""Tables → the causes of one outcome: screen, weigh, name. The model stands in `model`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.attribution.causes import Suspect, began, has_ended, locate
from monitor.attribution.leaves import leaves_of
from monitor.attribution.model import CONSTANTS
from monitor.attribution.scatter import VOLUMES, Scatter
from monitor.attribution.screen import Candidate, CodeModel, Screen, Settled, looks
from monitor.attribution.search import EVERYTHING, Fit, Search
from monitor.attribution.selectors import Selector, match, narrows, selector
from monitor.bar import KINDS
from monitor.significance import excess_p_value
from monitor.window import Horizons

__all__ = [
    "CONSTANTS",
    "VOLUMES",
    "Attribution",
    "CodeModel",
    "Scatter",
    "Selector",
    "Settled",
    "Suspect",
    "attribute",
    "began",
    "has_ended",
    "looks",
    "match",
    "selector",
]


@dataclass(frozen=True, slots=True)
class Attribution:
    """The causes of one outcome at one tick."""

    suspects: tuple[Suspect, ...]
    peaks: np.ndarray
    """(kinds,) nats of the most evident cell of every kind, less its price; see `monitor.bar`."""
    unexplained: float
    """Share of the outcome's excess that no cause explains."""


RIVALS = 5
"""Told beside a cause at most."""
NOTHING = Attribution((), np.full(len(KINDS), -np.inf), 0.0)


def attribute(
    outcome: int,
    tables: Horizons,
    scatter: Scatter,
    bar: np.ndarray,
    min_failures: int,
    max_causes: int,
    settled: Sequence[Settled] = (),
    floor: float = 0.0,
    barred: frozenset[int] = frozenset(),
    empty: frozenset[tuple[int, int]] = frozenset(),
    codes: CodeModel | None = None,
    known: Collection[Selector] = (),
    arrived: np.ndarray | None = None,
) -> Attribution:
    """Find the causes of `outcome`, best first.

    Args:
        outcome: index of the failures to explain.
        tables: counts of the last slices, by horizon.
        scatter: over-dispersion of quiet counts.
        bar: (kinds,) nats that a cause must stand out by, after the price of the search.
        min_failures: fewer are never a cause.
        max_causes: at most so many are named.
        settled: causes whose incidents are over.
        floor: failures expected of any single value or pair at least.
        barred: attributes that failure itself keeps empty.
        empty: (attribute, node number) of missing values.
        codes: what is known of the outcome's error codes.
        known: causes that were told and are not over: they need no search, so they last as long as
            anything of them can be seen.
        arrived: share of the failures of the last slices that are in the log, newest first; None:
            all of them.
    """
    screen = Screen(outcome, tables, scatter, min_failures, floor, barred, codes, empty)
    for episode in settled:
        screen.settle(episode)
    candidates = screen.candidates(bar, known)
    if not candidates:
        return NOTHING
    kinds = np.array([screen.kind(c.selector) for c in candidates])
    told = np.array([c.known for c in candidates])
    bars, peaks = np.where(told, CONSTANTS.interesting, bar[kinds]), screen.peaks.copy()
    nats = np.array([c.nats - c.price for c in candidates])
    np.maximum.at(peaks, kinds, nats)
    if (nats <= bars).all() and not told.any():
        return Attribution((), peaks, 0.0)
    leaves = leaves_of(screen, candidates)
    coded = np.array(
        [codes is not None and codes.attribute in dict(c.selector) for c in candidates]
    )
    search = Search(leaves, candidates, screen.told, coded, min_failures, max_causes, floor)
    chosen, fit = search.best()
    suspects = []
    for c in chosen:
        others = search.fit([o for o in chosen if o != c])
        suspect = _suspect(c, candidates, search, others, bars)
        if suspect is not None:
            locate(suspect, screen)
            suspect.ended = has_ended(suspect, tables.horizons[suspect.horizon], arrived)
            suspects.append(suspect)
    suspects.sort(key=lambda s: -s.score)
    everything = any(not s.selector for s in suspects)
    mean = fit.mean if everything else fit.mean / fit.effects.get(EVERYTHING, 1.0)
    excess = leaves.observed.sum() - leaves.expected.sum()
    left = leaves.observed.sum() - mean.sum()
    unexplained = float(np.clip(left / excess, 0.0, 1.0)) if suspects and excess > 0 else 0.0
    return Attribution(tuple(suspects), peaks, unexplained)


def _suspect(
    c: int, candidates: Sequence[Candidate], search: Search, others: Fit, bars: np.ndarray
) -> Suspect | None:
    """A cause with its evidence; None where it does not stand out.

    What lies in the cause, or around it, and would stand out without it, speaks for it.
    """
    mine = candidates[c]
    kin = [k for k, other in enumerate(candidates) if k != c and _kin(mine, other)]
    family = np.array([c, *kin])
    standing = search.standing(others, family)
    over = standing.nats - bars[family]
    at = np.unravel_index(int(np.argmax(over)), over.shape)
    if over[at] <= 0:
        return None
    observed, expected, size = (
        x[at][None] for x in (standing.observed, standing.expected, standing.size)
    )
    p_value = float(excess_p_value(observed, expected, size)[0])
    score = float(standing.nats[at]) - (mine.price if mine.known else 0.0)
    q_value = min(1.0, p_value * float(np.exp(mine.price)))
    rivals = [(o.selector, o.nats - o.price) for o in candidates if o is not mine]
    rivals = sorted((r for r in rivals if r[1] > 0), key=lambda r: -r[1])[:RIVALS]
    return Suspect(mine.selector, int(at[0]), score, p_value, q_value, tuple(rivals))


def _kin(one: Candidate, other: Candidate) -> bool:
    """Whether one holds the other; everything holds all, so it is nobody's kin."""
    mine, its = one.selector, other.selector
    return bool(mine and its) and (narrows(mine, its) or narrows(its, mine))
