"""Leaves → the set of causes with the highest J; see `monitor.attribution.model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.attribution.leaves import Leaves
from monitor.attribution.model import CONSTANTS, log_likelihood
from monitor.attribution.screen import Candidate
from monitor.significance import excess_score

EVERYTHING = 0
"""Its place among the candidates."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How candidates stand out from all that is explained otherwise; the last axis is theirs."""

    nats: np.ndarray  # (horizons, candidates), the price paid
    observed: np.ndarray
    expected: np.ndarray
    size: np.ndarray


@dataclass(frozen=True, slots=True)
class Fit:
    """Causes fitted together."""

    effects: dict[int, np.ndarray]
    """Candidate → factor of each leaf; everything among them."""
    mean: np.ndarray  # (leaves,)
    value: float
    """J without the prices."""


class Search:
    """Weighs sets of candidates against each other.

    Args:
        leaves: of the candidates.
        candidates: everything is the first.
        told: excess of everything that is known, by horizon.
        coded: (candidates,) whether each names an error code.
        min_failures: fewer are never a cause.
        limit: causes at most.
        floor: failures expected of any cause at least. Where there is one, failures are counted,
            not rated: what comes in bulk is one act, and no sample of what its rows are made of.
    """

    def __init__(
        self,
        leaves: Leaves,
        candidates: Sequence[Candidate],
        told: np.ndarray,
        coded: np.ndarray,
        min_failures: int,
        limit: int,
        floor: float = 0.0,
    ) -> None:
        self._leaves, self._told = leaves, told
        self._least, self._limit = min_failures, limit
        self._price = np.array([c.price for c in candidates])
        # whether a cause that was told still stands out is asked without a search
        self._asked = np.array([0.0 if c.known else c.price for c in candidates])
        self._variance = np.array([c.variance for c in candidates]).T
        member, o = leaves.member.astype(float), leaves.observed
        self._member = member
        self._o = leaves.sums(member, o)  # (candidates, bands)
        self._e = leaves.sums(member, leaves.expected).cumsum(axis=1)
        self._exposure = np.where(coded[:, None], leaves.events, leaves.exposure)
        self._n = leaves.sums(member * self._exposure, np.ones(len(o)))
        self._floor = floor
        self._size = 1 / CONSTANTS.leaf_spread**2
        self._base = log_likelihood(o, leaves.expected, self._size)

    # --- fitting ----------------------------------------------------------------------------

    def fit(self, chosen: Sequence[int]) -> Fit:
        """All chosen causes, fitted together."""
        leaves = self._leaves
        inside = {c: np.flatnonzero(leaves.member[c]) for c in chosen}
        effects = {c: np.ones(len(leaves.observed)) for c in chosen}
        adds: dict[int, bool] = {}
        mean = leaves.expected.copy()
        for _ in range(CONSTANTS.sweeps if len(chosen) > 1 else 1):
            for c in chosen:
                at = inside[c]
                others = mean[at] / effects[c][at]
                effect, adds[c] = self._effect(c, at, others, adds.get(c))
                effects[c][at], mean[at] = effect, others * effect
        value = float((log_likelihood(leaves.observed, mean, self._size) - self._base).sum())
        return Fit(effects, mean, value)

    def _effect(
        self, c: int, at: np.ndarray, others: np.ndarray, adds: bool | None
    ) -> tuple[np.ndarray, bool]:
        """A cause's factor of each of its leaves: the better of its two kinds of effect.

        One number per band, by which all its rows fail more often, or a share of all its rows that
        fails besides, be they good or bad ones.

        Args:
            c: the cause.
            at: its leaves.
            others: what is expected of them without it.
            adds: which kind it is, if that is known.
        """
        leaves = self._leaves
        o, band = leaves.observed[at], leaves.band[at]
        if self._floor:
            return np.maximum(o / np.maximum(others, 1e-12), 1.0), False
        fair = np.bincount(band, others, leaves.bands)
        ratio = np.maximum(self._o[c] / np.maximum(fair, 1e-12), 1.0)[band]
        if adds is False:
            return ratio, False
        share = (np.maximum(self._o[c] - fair, 0.0) / np.maximum(self._n[c], 1e-9))[band]
        added = 1.0 + share * self._exposure[c, at] / np.maximum(others, 1e-12)
        if adds is None:
            both = [log_likelihood(o, others * e, self._size).sum() for e in (ratio, added)]
            adds = bool(both[1] > both[0])
        return (added, True) if adds else (ratio, False)

    # --- standing out -----------------------------------------------------------------------

    def standing(self, fit: Fit, among: np.ndarray) -> Standing:
        """How candidates stand out from what everything and the causes of a fit explain.

        How elevated everything is, is seen outside of each.

        Args:
            among: (k,) candidates.
        """
        leaves, k = self._leaves, CONSTANTS.smoothing
        base = self._without_everything(fit)
        observed = self._o[among].cumsum(axis=1).T
        mine = leaves.sums(self._member[among], base).cumsum(axis=1).T
        mine = np.maximum(mine, self._floor)
        whole_o = self._o[EVERYTHING].cumsum()
        whole_m = leaves.sums(self._member[[EVERYTHING]], base)[0].cumsum()
        rest = whole_o[:, None] - observed + k, np.maximum(whole_m[:, None] - mine, 0.0) + k
        expected = mine * np.maximum(rest[0] / rest[1], 1.0)
        everything = among == EVERYTHING
        expected = np.where(everything, (whole_m + self._told)[:, None], expected)
        usual = np.maximum(self._e[among].T, self._floor)
        variance = self._variance[:, among] * usual**2
        variance = variance + (CONSTANTS.spread * np.maximum(expected - usual, 0.0)) ** 2
        size = np.maximum(expected, 1e-6) ** 2 / np.maximum(variance, 1e-12)
        nats = excess_score(observed, expected, size) - self._asked[among]
        few = (observed < self._least) | (observed < CONSTANTS.least_ratio * expected)
        return Standing(np.where(few, -np.inf, nats), observed, expected, size)

    # --- the search -------------------------------------------------------------------------

    def best(self) -> tuple[list[int], Fit]:
        """The causes with the highest J, and their fit.

        Whether they are told is for the caller to say: what is too weak to be told may still be
        what a stronger one would be blamed for.
        """
        if self._floor:
            return self._most_evident()
        chosen: list[int] = []
        fit = self.fit([])
        value = fit.value
        for _ in range(4 * self._limit):
            step = self._step(chosen, fit, value)
            if step is None:
                break
            chosen, fit, value = step
        return self._needed(chosen, fit)

    def _most_evident(self) -> tuple[list[int], Fit]:
        """One act after the other, each with all that failed in its rows."""
        chosen: list[int] = []
        fit = self.fit(chosen)
        while len(chosen) < self._limit:
            nats = self.standing(fit, np.arange(len(self._price))).nats.max(axis=0)
            nats[chosen] = -np.inf
            if not (nats > 0).any():
                break
            chosen = [*chosen, int(np.argmax(nats))]
            fit = self.fit(chosen)
        return chosen, fit

    def _step(
        self, chosen: list[int], fit: Fit, value: float
    ) -> tuple[list[int], Fit, float] | None:
        """The best addition; where none improves J, the best swap or drop; None if nothing does."""
        adding = self._promising(chosen, fit) if len(chosen) < self._limit else []
        best = self._better_of([[*chosen, c] for c in adding], value)
        if best is not None:
            return best
        tries: list[list[int]] = []
        for c in chosen:
            others = [other for other in chosen if other != c]
            tries.append(others)
            without = self.fit(others)
            tries += [[*others, new] for new in self._promising(others, without) if new != c]
        return self._better_of(tries, value)

    def _better_of(
        self, tries: list[list[int]], value: float
    ) -> tuple[list[int], Fit, float] | None:
        best = None
        for some in tries:
            new = self.fit(some)
            gained = new.value - float(self._price[some].sum())
            if gained > (value if best is None else best[2]) + 1e-6:
                best = some, new, gained
        return best

    @staticmethod
    def _without_everything(fit: Fit) -> np.ndarray:
        return np.asarray(fit.mean / fit.effects.get(EVERYTHING, 1.0))

    def _promising(self, chosen: list[int], fit: Fit) -> list[int]:
        """The candidates that stand out, and of them those with the highest gain."""
        among = np.array([c for c in range(len(self._price)) if c not in chosen], int)
        if not len(among):
            return []
        stands = (self.standing(fit, among).nats > 0).any(axis=0)
        among = among[stands]
        gains = self._gains(fit, among)
        order = np.argsort(-gains, kind="stable")[: CONSTANTS.tried]
        return [int(among[i]) for i in order]

    def _gains(self, fit: Fit, among: np.ndarray) -> np.ndarray:
        """About what each candidate adds to J; everything is fitted anew outside of it."""
        leaves = self._leaves
        base = self._without_everything(fit)
        m = leaves.sums(self._member[among], base)
        o = self._o[among]
        rest = np.ones(o.shape)
        outside_o = self._o[EVERYTHING] - o
        outside_m = np.maximum(leaves.sums(self._member[[EVERYTHING]], base) - m, 1e-9)
        if EVERYTHING in fit.effects:
            rest = np.maximum(outside_o / outside_m, 1.0)
        mine = np.maximum(o / np.maximum(m, 1e-9), rest)
        nats = o * np.log(mine) - m * (mine - 1)
        nats += outside_o * np.log(rest) - outside_m * (rest - 1)
        return np.asarray(nats.sum(axis=1) - self._price[among])

    def _needed(self, chosen: list[int], fit: Fit) -> tuple[list[int], Fit]:
        """Drop the least evident cause until each stands out beside all others."""
        while chosen:
            alone = [self.fit([o for o in chosen if o != c]) for c in chosen]
            peaks = [
                float(self.standing(f, np.array([c])).nats.max())
                for c, f in zip(chosen, alone, strict=True)
            ]
            weakest = int(np.argmin(peaks))
            if peaks[weakest] > 0:
                break
            chosen, fit = [c for i, c in enumerate(chosen) if i != weakest], alone[weakest]
        return chosen, fit
