"""One outcome's cells: what is observed and expected, and how causes change the latter."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from monitor.attribution.suspects import Scatter, Settled, Suspect, match
from monitor.encoding import Coded
from monitor.significance import poisson_score
from monitor.window import Horizons

MIN_RATIO = 1.5
"""Observed over expected, for a cell to be a candidate."""
LEAVE_ONE_OUT = 2.0
"""Failures added to both sides when the rest of the traffic is compared."""
REMAINDER_SCORE = 5.0
REMAINDER_RATIO = 1.3
WHOLE_PRICE = 3.0
"""Nats asked of "everything" on top: shocks common to all traffic have a heavier tail than the
scatter of single values lets expect. Chosen on quiet days."""
BARRED = 1e6
"""Nats asked of values of attributes that failure itself keeps empty: no count comes near."""
ADDED_PREFERENCE = 3.0
"""Nats by which failures added evenly must fit better than failures multiplied."""


def looks(tables: Horizons) -> float:
    """How many independent chances to err a tick has, weighted as the search is priced.

    A cell can stand out anew only when one of its failures is new. Where failures are few, most
    cells have none in a slice; where they are many, every cell is another look at every tick.

    Returns:
        From 0, nothing is expected to fail, to the number of outcomes.
    """
    layout, slices = tables.layout, tables.horizons[-1]
    lengths = np.array([len(block) for block in layout.blocks])
    share = 1.0 / (3.0 * np.bincount(lengths, minlength=3)[lengths])
    share[lengths == 0] *= np.exp(-WHOLE_PRICE)
    blocks = list(pairwise((*layout.starts, layout.size)))
    new = np.array(
        [
            [np.minimum(table[start:end], slices).sum() / slices for start, end in blocks]
            for table in tables.expected[-1]
        ]
    )
    present = np.array([layout.present(table) for table in tables.expected[-1]])
    return float((new / np.maximum(present, 1) @ share).sum())


class Cells:
    """One outcome's tables, restricted to cells with enough failures.

    Args:
        outcome: index of the failures.
        tables: counts of the last slices, by horizon.
        scatter: over-dispersion of quiet counts.
        min_failures: of a pair, to be looked at; singles all are.
        floor: failures expected of any single value or pair at least; where there is one, failures
            are counted, not rated.
        whole_price: nats asked of "everything" on top.
        value_price: nats asked of "everything" and of single values on top.
        barred: attributes that failure itself keeps empty.
    """

    def __init__(
        self,
        outcome: int,
        tables: Horizons,
        scatter: Scatter,
        min_failures: int,
        floor: float,
        whole_price: float = WHOLE_PRICE,
        value_price: float = 0.0,
        barred: frozenset[int] = frozenset(),
    ) -> None:
        self.outcome, self.tables, self.layout = outcome, tables, tables.layout
        self.min_failures = min_failures
        self.counted = floor > 0
        observed = tables.observed[:, outcome]
        self.enough = bool(observed[-1, 0] >= min_failures)
        keep = observed[-1] >= min_failures
        keep[: self.layout.singles] = True  # all singles
        self.cells = np.flatnonzero(keep) if self.enough else np.zeros(0, np.int64)
        self.observed = observed[:, self.cells]
        self.expected = tables.expected[:, outcome][:, self.cells]
        if floor and self.enough:
            self.expected[:, 1:] = np.maximum(self.expected[:, 1:], floor)
        self.base_expected = self.expected
        self.told = np.zeros(len(tables.horizons))
        """Excess of everything that has been told, by horizon."""
        if not len(self.cells):
            return
        block, layout_of = self.layout.block_of(self.cells), self.layout.attributes
        lengths = np.array([len(b) for b in self.layout.blocks])
        self.order = lengths[block]
        parents = self.layout.parents(self.cells)
        # a pair's singles hold its failures too, so they are among the cells
        self.parents = np.where(
            parents >= 0, np.searchsorted(self.cells, np.maximum(parents, 0)), -1
        )
        self.pairs = np.flatnonzero(self.order == 2)
        self.size = scatter.sizes_of(self.expected, self.cells, self.order, parents)
        self.present = present = self.layout.present(tables.expected[-1, outcome])
        """Per block of the layout: cells of which any failure is expected."""
        of_order = np.array([np.count_nonzero(lengths == n) for n in range(3)])
        self.price = (
            np.log(3.0)
            + np.log(of_order[self.order])
            + np.log(np.maximum(present[block], 1))
            + np.log(len(tables.horizons))
        )
        self.group_price = float(np.log(3.0 * of_order[1] * len(tables.horizons)))
        """Of a search for several values of one attribute; the values come on top."""
        self.surcharge = np.where(self.order < 2, value_price, 0.0)
        """What of the price is no part of what the search costs."""
        self.surcharge[0] += whole_price
        self.price += self.surcharge
        self.barred = barred
        closed = np.array([bool(barred & {layout_of[p] for p in b}) for b in self.layout.blocks])
        self.price[closed[block]] += BARRED
        self.tests = int(present.sum()) * len(tables.horizons)
        self.fair = [coded.expected[:, outcome] for coded in tables.slices]
        """Per slice: failures expected of each row, once ended causes are settled."""
        self._mu: list[np.ndarray] | None = None
        self._place: np.ndarray | None = None

    def locate(self, suspect: Suspect) -> None:
        """Find the suspect's rows and count them slice by slice."""
        slices = self.tables.slices
        suspect.matches = [match(coded, suspect.conditions) for coded in slices]
        suspect.places = [np.flatnonzero(hit) for hit in suspect.matches]
        counts = np.zeros((3, len(slices)))
        for i, (coded, rows) in enumerate(zip(slices, suspect.places, strict=True)):
            weight = coded.slice.weight[rows]
            counts[0, i] = weight[coded.slice.failed[rows, self.outcome]].sum()
            counts[1, i] = coded.exposure_of(rows) @ self.fair[i][rows]
            counts[2, i] = weight.sum()
        suspect.observed, suspect.expected, suspect.rows = counts

    def settle(self, episode: Settled) -> None:
        """Expect of an ended cause's rows what they did, so that they are no news again."""
        slices = self.tables.slices
        past = Suspect(episode.conditions, len(self.tables.horizons) - 1, 0, 1, 1, (), ())
        self.locate(past)
        for i, coded in enumerate(slices):
            if coded.slice.start >= episode.until:
                past.matches[i] = np.zeros(len(past.matches[i]), bool)
                past.places[i] = past.places[i][:0]
                past.observed[i] = past.expected[i] = 0
        if past.observed.sum() <= past.expected.sum():
            return
        if not episode.conditions:
            # Of a cause inside of what failed as a whole more may still come to light.
            for i, h in enumerate(self.tables.horizons):
                excess = past.observed[-h:].sum() - past.expected[-h:].sum()
                self.told[i] = max(self.told[i], excess)
            return
        self.explain(past, least=1.0)
        assert self._mu is not None
        self.fair, self._mu = self._mu, None
        self.base_expected = self.expected

    def explain(self, suspect: Suspect, least: float = 0.0) -> None:
        """Expect of the suspect's rows what they did, so that the rest can be seen."""
        slices, horizons = self.tables.slices, self.tables.horizons
        if self._mu is None:
            self._mu = [fair.astype(float) for fair in self.fair]
        if self._place is None:
            self._place = np.full(self.layout.size + 1, len(self.cells), np.int32)
            self._place[self.cells] = np.arange(len(self.cells))
        span = horizons[suspect.horizon]
        changed = np.zeros((len(horizons), len(self.cells)))
        overall = self._ratio(suspect, max(len(slices) - span, 0), len(slices))
        newer = 0
        for i, h in enumerate(horizons):
            if newer >= span:
                break
            first, last = max(len(slices) - h, 0), len(slices) - newer
            newer = h
            factor = max(self._ratio(suspect, first, last, towards=overall), least)
            block = np.zeros(len(self.cells) + 1)
            added = self._added(suspect, first, last, factor)
            whole = not suspect.conditions and all(m.all() for m in suspect.matches[first:last])
            whole = whole and not self.counted
            for s in range(first, last):
                rows, mu = suspect.places[s], self._mu[s]
                if not len(rows):
                    continue
                if self.counted:  # the history's mix says little of what a bulk is made of
                    gain = slices[s].slice.failed[rows, self.outcome] - mu[rows]
                else:
                    gain = np.full(len(rows), added) if added else mu[rows] * (factor - 1)
                mu[rows] += gain
                if added or not whole:
                    self._spread(block, slices[s], rows, gain)
            if whole and not added:
                inner = self.expected[i - 1] if i else 0.0
                block[:-1] = (self.expected[i] - inner) * (factor - 1)
            changed[i:] += block[:-1]
        self.expected = np.maximum(self.expected + changed, 0.0)

    def _added(self, suspect: Suspect, first: int, last: int, factor: float) -> float:
        """Failures added to each event alike, if that fits "everything" better than a factor.

        A broken payment provider fails a share of all payments, be they of a good airline or of a
        bad one; bad weather cancels more where more is cancelled anyway.
        """
        if suspect.conditions or self.counted or factor <= 1:
            return 0.0
        assert self._mu is not None
        slices = self.tables.slices
        mu, failed, weight = [], [], []
        for s in range(first, last):
            coded, rows = slices[s], suspect.places[s]
            mu.append(self._mu[s][rows])
            weight.append(coded.exposure_of(rows))
            failed.append(weight[-1] * coded.slice.failed[rows, self.outcome])
        m, k, n = np.concatenate(mu), np.concatenate(failed), np.concatenate(weight)
        if not n.sum():
            return 0.0
        share = float(m @ n) * (factor - 1) / float(n.sum())
        gain = k @ (np.log(m + share) - np.log(m * factor))  # both expect as many in total
        return share if gain > ADDED_PREFERENCE else 0.0

    def _spread(self, block: np.ndarray, coded: Coded, rows: np.ndarray, gain: np.ndarray) -> None:
        assert self._place is not None
        place = self._place[self.layout.cells(coded.local[rows])]
        weights = np.repeat(gain * coded.exposure_of(rows), place.shape[1])
        block += np.bincount(place.ravel(), weights, len(block))

    def _ratio(
        self, suspect: Suspect, first: int, last: int, towards: float | None = None
    ) -> float:
        """Observed over currently expected among the suspect's rows of some slices, shrunk."""
        assert self._mu is not None
        slices = self.tables.slices
        o = float(suspect.observed[first:last].sum())
        e = 0.0
        for s in range(first, last):
            rows = suspect.places[s]
            e += float(slices[s].exposure_of(rows) @ self._mu[s][rows])
        if towards is None:
            return o / max(e, 1e-9)
        shrink = 1.0 / max(towards, 1.0)
        return (o + min(towards, 1e3) * shrink) / (e + shrink)

    def mu(self, s: int) -> np.ndarray:
        """Failures expected of each row of a slice, given the causes explained so far."""
        return np.asarray(self.fair[s] if self._mu is None else self._mu[s])

    def elevated(self, o: float, e: float, out: tuple[float, float]) -> bool:
        """True when what is left of a cell fails more than what is outside of it, `out`."""
        fair = max(e, 0.0) * max((out[0] + 1) / (out[1] + 1), 1.0)
        return poisson_score(o, fair) > REMAINDER_SCORE and o >= REMAINDER_RATIO * fair

    def unexplained(self) -> float:
        """Share of the outcome's excess left over, in the horizon where it is largest."""
        excess = self.observed[:, 0] - self.base_expected[:, 0]
        h = int(np.argmax(excess))
        if excess[h] <= 0:
            return 0.0
        left = self.observed[h, 0] - self.expected[h, 0]
        return float(np.clip(left / excess[h], 0.0, 1.0))
