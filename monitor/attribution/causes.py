"""Causes as the search finds them: their rows, when they began, whether they have ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from monitor.attribution.model import CONSTANTS
from monitor.attribution.screen import Screen
from monitor.attribution.selectors import Selector, match


@dataclass(slots=True)
class Suspect:
    """A candidate that the search chose."""

    selector: Selector
    horizon: int
    """Index into the horizons, of the one in which it stands out most."""
    score: float
    p_value: float
    q_value: float
    runners_up: tuple[tuple[Selector, float], ...]
    observed: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (slices,) oldest first
    expected: np.ndarray = field(default_factory=lambda: np.zeros(0))  # by the baseline
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0))
    matches: list[np.ndarray] = field(default_factory=list)
    """Per slice: which rows are the cause's."""
    ended: bool = False

    def total(self, span: int) -> tuple[float, float, float]:
        """Observed, expected and rows over the last `span` slices."""
        return (
            float(self.observed[-span:].sum()),
            float(self.expected[-span:].sum()),
            float(self.rows[-span:].sum()),
        )


def locate(suspect: Suspect, screen: Screen) -> None:
    """Find the suspect's rows and count them slice by slice."""
    slices, codes, named = screen.tables.slices, screen.codes, suspect.selector
    numbers = None if codes is None else dict(named).get(codes.attribute)
    if codes is not None and numbers:
        # Only failures carry a code: of all other rows it is expected as often as usual.
        named = tuple(part for part in named if part[0] != codes.attribute)
        share = screen.code_shares(max(*numbers, codes.share.shape[1] - 1) + 1)
        share = share[:, list(numbers)].sum(axis=1)
    counts = np.zeros((3, len(slices)))
    suspect.matches = [match(coded.local, suspect.selector) for coded in slices]
    for i, (coded, hit) in enumerate(zip(slices, suspect.matches, strict=True)):
        failing = screen.tables.failing(i, screen.outcome)
        counts[0, i] = coded.slice.weight[failing[hit[failing]]].sum()
        rows = np.flatnonzero(match(coded.local, named) if numbers else hit)
        fair = screen.fair[i][rows]
        if numbers:
            fair = fair * share[screen.parent_of(coded.local[rows], len(share))]
        counts[1, i] = coded.exposure_of(rows) @ fair
        counts[2, i] = coded.slice.weight[rows].sum()
    suspect.observed, suspect.expected, suspect.rows = counts


def has_ended(suspect: Suspect, span: int, arrived: np.ndarray | None = None) -> bool:
    """True when the newest slices prefer that nothing is left over half of the excess.

    Asked of every suffix; the price of asking so often is paid.

    Args:
        suspect: what failed.
        span: slices of the horizon in which it stands out.
        arrived: share of the failures of the last slices that are in the log, newest first: what
            is told late is not over.
    """
    observed, expected = (x[-span:][::-1] for x in (suspect.observed, suspect.expected))
    if arrived is not None:
        expected = expected * arrived[: len(expected)]
    if not len(observed):
        return False
    seen, fair = observed.cumsum(), expected.cumsum()
    before, usual = seen[-1] - seen, fair[-1] - fair
    ratio = 1 + 0.5 * np.maximum(before / np.maximum(usual, 1e-6) - 1, 0.01)
    nats = fair * (ratio - 1) - seen * np.log(ratio)
    asked = np.log(1 + np.log2(len(nats)))  # suffixes of about the same length see the same
    return bool((nats[:-1] > CONSTANTS.gone + asked).any())


def began(suspect: Suspect) -> int:
    """Index of the slice from which on the suspect's excess is most evident."""
    observed = np.cumsum(suspect.observed[::-1])
    expected = np.maximum(np.cumsum(suspect.expected[::-1]), 1e-6)
    nats = observed * np.log(np.maximum(observed, 1e-9) / expected) - (observed - expected)
    nats = np.where(observed > expected, nats, 0.0)
    return len(observed) - 1 - int(np.argmax(nats))
