"""One outcome's tables, scanned for the cell that fails most beyond what is fair."""

from __future__ import annotations

import numpy as np

from monitor.attribution.cells import BARRED, LEAVE_ONE_OUT, MIN_RATIO, Cells
from monitor.attribution.suspects import Conditions, Suspect, beginning, match
from monitor.attribution.threes import Threes
from monitor.domain import OTHER
from monitor.significance import excess_p_value, excess_score, poisson_score, q_values

CHILD_SHARE = 0.8
CHILD_PREFERENCE = 1.0
"""Nats by which what a child leaves out must prefer the rate outside. At most one value of an
attribute holds `CHILD_SHARE`, so there is hardly a search to be paid for, in pairs as in values."""
STORM_RATIO = 3.0
STORM_SHARE = 0.85
"""Share of every attribute's expected failures that must be so elevated in a storm."""
EVERYTHING_SHARE = 0.5
"""A value whose complement is elevated by this share of its own ratio is "everything"."""
BULK_SHARE = 0.95
"""Share of a value's counted excess that a pair must hold to be no more than another name of it."""
BULK_REST = 0.05
"""Of that excess; a value that usually has less outside of the pair says as much as the pair."""
WHOLE_MARGIN = 10.0
"""Nats by which everything but a cell must fail more evidently than the cell stands out."""
OWN_RATIO = 4.0
"""Times as elevated as the rest, a cell is a cause of its own whatever befalls the others."""
MEMBERS = 2
"""Failures of a value that may be one of several hit by the same storm."""
GROUP_MARGIN = 2.0
"""Nats by which several values of another attribute must explain more than the best cell."""
GROUP_SHARE = 0.5
"""Of the usual failures; values that have more are no group but everything."""
ALONE = 2
"""Times the failures of a cause that several values must have where none is one by itself."""


class Scan(Cells):
    """Which cell fails most beyond what is fair, and how specifically it is to be named."""

    scores: np.ndarray
    """(horizons, cells) what `gates` last returned, weak candidates included."""

    def _rest(self) -> np.ndarray:
        """How elevated the rest of the traffic is (at least 1), per horizon and cell."""
        o, e, k = self.observed, self.expected, LEAVE_ONE_OUT
        ratio: np.ndarray = np.maximum((o[:, :1] - o + k) / (e[:, :1] - e + k), 1.0)
        ratio[:, 0] = 1.0
        if len(self.pairs):
            for parent in self.parents[self.pairs].T:
                wider = (o[:, parent] - o[:, self.pairs] + k) / (
                    np.maximum(e[:, parent] - e[:, self.pairs], 0) + k
                )
                ratio[:, self.pairs] = np.maximum(ratio[:, self.pairs], wider)
        return ratio

    def gates(self) -> np.ndarray:
        """Score of every candidate against its own rate times that of the rest."""
        fair = self.expected * self._rest()
        fair[:, 0] += self.told
        self.scores = score = excess_score(self.observed, fair, self.size) - self.price
        weak = (self.observed < self.min_failures) | (self.observed < MIN_RATIO * fair)
        return np.asarray(np.where(weak, -np.inf, score))

    def best(self, gates: np.ndarray, threshold: float) -> Suspect | None:
        """The best candidate above the threshold, named as specifically as its remainders ask."""
        specific = gates[:, 1:]
        whole = int(np.argmax(gates[:, 0]))
        found = bool(specific.size) and float(specific.max()) > threshold
        everything = bool(gates[whole, 0] > threshold)
        storm = everything and self._storm(whole)
        h, j, score = -1, -1, threshold
        if storm or (everything and not found):
            h, j, score = whole, 0, float(gates[whole, 0])
        elif found:
            h, j = divmod(int(np.argmax(specific)), specific.shape[1])
            j += 1
            score = float(gates[h, j])
            if everything and self._drowns(h, j, score):
                h, j, score = whole, 0, float(gates[whole, 0])
        several = None if storm else self._shared(h, j, score)
        if several is not None:
            h, j, score = several
        if not storm:
            part = None if self.counted else Threes(self).best(self.scores, score)
            if part is not None:
                weighed = float(np.exp(-part.score)) / self.tests
                return self._suspect(
                    (part.conditions,), part.horizon, part.score, part.p_value, weighed, gates
                )
        if j < 0:
            return None
        chain = self._name(h, j, threshold)
        if j > 0 and chain[-1] == 0 and gates[whole, 0] > score:
            # what is named everything speaks with the evidence of everything
            h, j, score = whole, 0, float(gates[whole, 0])
        named = [self.layout.conditions(int(self.cells[i])) for i in chain]
        third = self._third(h, chain[-1])
        if third != named[-1]:
            named.append(third)
        p_value = self._p_value(h, j)
        if several is not None:  # the worst of them says less than all
            p_value = min(p_value, float(np.exp(-score)) / self.tests)
            return self._suspect(tuple(named), h, score, p_value, p_value, gates)
        weighed = p_value * float(np.exp(self.price[j])) / self.tests
        return self._suspect(tuple(named), h, score, p_value, weighed, gates)

    def _suspect(
        self,
        chain: tuple[Conditions, ...],
        h: int,
        score: float,
        p_value: float,
        weighed: float,
        gates: np.ndarray,
    ) -> Suspect:
        """What was found, with what else might have been.

        Args:
            weighed: the p-value, weighed by how much of the search falls to its class of cells: a
                few values count as much as a thousand pairs, and "everything" as much as either.
        """
        peaks = gates.max(axis=0)
        ranked = [int(i) for i in np.argsort(-peaks)[:12] if peaks[i] > 0]
        others = [
            (conditions, float(peaks[i]))
            for i in ranked
            if (conditions := self.layout.conditions(int(self.cells[i]))) != chain[-1]
        ]
        p_all = np.exp(-peaks[peaks > 0]) / self.tests
        q = q_values(np.append(p_all, weighed), self.tests)[-1]
        return Suspect(chain[-1], h, score, p_value, float(q), chain, tuple(others[:5]))

    def _drowns(self, h: int, j: int, score: float) -> bool:
        """True when a cell hardly stands out from what befalls all others far more evidently.

        What befalls them may multiply their failures or add the same share to every event.
        """
        o, e = self.observed[h], self.expected[h]
        rest = (o[0] - o[j] + LEAVE_ONE_OUT) / (e[0] - e[j] + LEAVE_ONE_OUT)
        fair = max(rest * e[j], self._beside(h, j))
        if o[j] >= OWN_RATIO * fair:
            return False
        alone = float(excess_score(o[j], fair, self.size[h, j]) - self.price[j])
        return self._without(j) > min(score, alone) + WHOLE_MARGIN

    def _without(self, j: int) -> float:
        """Evidence that everything fails too often even without a cell's rows, in nats."""
        o = self.observed[:, 0] - self.observed[:, j]
        fair = self.expected[:, 0] - self.expected[:, j] + self.told
        score = excess_score(o, fair, self.size[:, 0]) - self.price[0]
        weak = (o < self.min_failures) | (o < MIN_RATIO * fair)
        return float(np.where(weak, -np.inf, score).max())

    def _beside(self, h: int, j: int) -> float:
        """Failures expected of a cell if each of its events fails as much more as the others do."""
        conditions = self.layout.conditions(int(self.cells[j]))
        inside = whole = 0.0
        for coded in list(self.tables.slices)[-self.tables.horizons[h] :]:
            inside += float(coded.exposure[match(coded, conditions)].sum())
            whole += float(coded.exposure.sum())
        o, e = self.observed[h], self.expected[h]
        added = max(o[0] - o[j] - e[0] + e[j], 0.0) / max(whole - inside, 1.0)
        return float(e[j] + added * inside)

    def _shared(self, h: int, j: int, score: float) -> tuple[int, int, float] | None:
        """The worst of several values of one attribute that explain more than cell `j` does.

        A hurricane cancels the flights to a dozen cities, whoever flies there: the airline that
        flies there most is not the cause. The values must account for the cell, and not the
        reverse; every one of them must stand out from what none of them explains. What usually has
        most of the failures is no group.

        Args:
            h, j: horizon and cell found, or -1 where no cell alone is enough.
            score: what it has to beat.

        Returns:
            Horizon, cell of the worst value, and the score of all of them.
        """
        best: tuple[int, int, float] | None = None
        wanted = score + GROUP_MARGIN
        taken: tuple[int, ...] = ()
        if j > 0:
            taken = self.layout.blocks[int(self.layout.block_of(self.cells[[j]])[0])]
        for position in taken:  # the cell may be one of several, too
            wanted = max(wanted, self._members(h, position)[2])
        least = self.min_failures * (ALONE if j < 0 else 1)
        whole = self.tables.expected[-1, self.outcome, 0]
        most = self._most()
        for horizon in range(len(self.tables.horizons)) if j < 0 else (h,):
            for position in range(len(self.layout.attributes)):
                if position in taken or most[horizon, position] <= wanted:
                    continue
                if self.layout.attributes[position] in self.barred:
                    continue
                members, gains, total = self._members(horizon, position)
                if len(members) < 2 or total <= wanted:
                    continue
                usual = self.tables.expected[-1, self.outcome, self.cells[members]].sum()
                if usual > GROUP_SHARE * whole:
                    continue
                if self.observed[horizon, members].sum() < least:
                    continue
                if j >= 0 and not self._account(horizon, j, position, members):
                    continue
                wanted = total
                best = horizon, int(members[np.argmax(gains)]), total
        return best

    def _most(self) -> np.ndarray:
        """What the values of each attribute can hold together at most, (horizons, positions).

        That is what `_members` finds where nothing else is elevated.
        """
        out = np.empty((len(self.observed), len(self.layout.attributes)))
        for position, room in enumerate(self.layout.room):
            start = self.layout.starts[1 + position]
            here = slice(start, start + room)
            o, e = self.observed[:, here], self.expected[:, here]
            able = (o >= MEMBERS) & (o >= MIN_RATIO * e)
            gains = np.where(able, excess_score(o, e, self.size[:, here]), 0.0)
            gains = -np.sort(-gains, axis=1)[:, : max(int(able.sum(axis=1).max()), 1)]
            sums = gains.cumsum(axis=1) - self._choices(position, gains.shape[1])
            out[:, position] = sums.max(axis=1) - self.group_price
        return out

    def _choices(self, position: int, most: int) -> np.ndarray:
        """ln C(n, k) of an attribute's n values, for k up to `most`."""
        k = np.arange(1, most + 1)
        return np.asarray(np.log(np.maximum(self.present[1 + position] - k + 1, 1) / k).cumsum())

    def _members(self, h: int, position: int) -> tuple[np.ndarray, np.ndarray, float]:
        """The values of an attribute that, together, speak loudest for having been hit.

        They must stand out from all that is not among them. The price is that of one search, and
        of choosing k of n values, ln C(n, k): one more costs less than the first.

        Returns:
            Their cells, what each adds in nats, and the score of all.
        """
        start = int(self.layout.starts[1 + position])
        cells = np.arange(start, start + self.layout.room[position])
        o, e, size = self.observed[h, cells], self.expected[h, cells], self.size[h, cells]
        whole = self.observed[h, 0], self.expected[h, 0]
        members = np.zeros(0, np.int64)
        gains, total = np.zeros(len(cells)), 0.0
        for _ in range(3):
            rest = (whole[0] - o[members].sum() + LEAVE_ONE_OUT) / (
                max(whole[1] - e[members].sum(), 0.0) + LEAVE_ONE_OUT
            )
            fair = e * max(rest, 1.0)
            gains = excess_score(o, fair, size)
            able = np.flatnonzero((o >= MEMBERS) & (o >= MIN_RATIO * fair) & (gains > 0))
            if not len(able):
                return cells[:0], gains[:0], 0.0
            able = able[np.argsort(-gains[able], kind="stable")]
            sums = np.cumsum(gains[able]) - self._choices(position, len(able)) - self.group_price
            members = able[: int(np.argmax(sums)) + 1]
            total = float(sums.max())
        return cells[members], gains[members], total

    def _account(self, h: int, j: int, position: int, members: np.ndarray) -> bool:
        """True when the members explain the cell's excess, and the cell not theirs."""
        numbers = members - self.layout.starts[1 + position]
        attribute = self.layout.attributes[position]
        conditions = self.layout.conditions(int(self.cells[j]))
        counts = np.zeros((2, 2, 2))  # observed and expected, in the cell, in a member
        first = max(len(self.tables.slices) - self.tables.horizons[h], 0)
        for s in range(first, len(self.tables.slices)):
            coded = self.tables.slices[s]
            mu = self.mu(s)
            key = 2 * match(coded, conditions) + np.isin(coded.local[:, attribute], numbers)
            weight = coded.exposure
            failed = weight * coded.slice.failed[:, self.outcome]
            counts[0] += np.bincount(key, failed, 4).reshape(2, 2)
            counts[1] += np.bincount(key, weight * mu, 4).reshape(2, 2)
        outside = counts[0, 0, 0], counts[1, 0, 0]  # nothing, where the cell is everything
        if self.elevated(counts[0, 1, 0], counts[1, 1, 0], outside):
            return False
        return j == 0 or self.elevated(counts[0, 0, 1], counts[1, 0, 1], outside)

    def _p_value(self, h: int, j: int) -> float:
        fair = self.expected[h, j] * self._rest()[h, j]
        return float(excess_p_value(self.observed[h, j], fair, self.size[h, j]))

    def _name(self, h: int, j: int, threshold: float) -> list[int]:
        """Move between nested cells until the remainder rule is content; the way taken."""
        o, e = self.observed[h], self.expected[h]
        chain = [j]
        for _ in range(4):
            j = chain[-1]
            outside = (o[0] - o[j], e[0] - e[j])
            moved = None
            if self.order[j] == 2:
                moved = self._wider(h, j)
            elif self.order[j] == 1:
                ratio_in = o[j] / max(e[j], 1e-6)
                ratio_out = outside[0] / max(outside[1], 1e-6)
                whole = excess_score(
                    np.array(outside[0]), np.array(max(outside[1], 1e-6)), self.size[h, 0]
                )
                if whole > threshold and ratio_out > EVERYTHING_SHARE * ratio_in:
                    return [*chain, 0]
                moved = self._narrower(h, j)
            if moved is None or moved in chain:
                return chain
            chain.append(moved)
        return chain

    def _wider(self, h: int, j: int) -> int | None:
        """The parent whose remainder is itself elevated, if any."""
        if self.counted:
            return self._bulk(h, j)
        o, e = self.observed[h], self.expected[h]
        best, best_score = None, 0.0
        for parent in self.parents[j]:
            rest = (o[parent] - o[j], e[parent] - e[j])
            outside = (o[0] - o[parent], e[0] - e[parent])
            score = poisson_score(rest[0], rest[1])
            if self.elevated(rest[0], rest[1], outside) and score > best_score:
                best, best_score = int(parent), score
        return best

    def _bulk(self, h: int, j: int) -> int | None:
        """The value of a counted pair that has its whole excess and usually is little else.

        Where failures are counted, rows that did not fail do not speak against a value. A pair says
        more than its value only if the value usually has many failures outside of it.
        """
        o, e = self.observed[h], self.expected[h]
        excess = o - e
        fitting = [
            int(parent)
            for parent in self.parents[j]
            if excess[j] >= BULK_SHARE * excess[parent]
            and e[parent] - e[j] <= max(e[j], BULK_REST * excess[j])
        ]
        return min(fitting, key=lambda parent: (e[parent], parent), default=None)

    def _narrower(self, h: int, j: int) -> int | None:
        """The child that holds the excess while the remainder fails as the rest does."""
        o, e = self.observed[h], self.expected[h]
        best, best_preference = None, CHILD_PREFERENCE
        able = self.price[self.pairs] < BARRED
        for child in self.pairs[able & (self.parents[self.pairs] == j).any(axis=1)]:
            preference = self._prefers(
                (float(o[child]), float(e[child])), (o[j], e[j]), (o[0] - o[j], e[0] - e[j])
            )
            if preference >= best_preference:
                best, best_preference = int(child), preference
        return best

    def _prefers(
        self, part: tuple[float, float], cell: tuple[float, float], outside: tuple[float, float]
    ) -> float:
        """Nats by which what is left of a cell without a part of it fails as the rest does.

        Args:
            part, cell, outside: failures observed and expected; `outside` of the cell.

        Returns:
            -inf where the part does not hold the excess, or what is left is elevated itself.
        """
        rest = cell[0] - part[0], max(cell[1] - part[1], 0.0)
        if part[0] - part[1] < CHILD_SHARE * (cell[0] - cell[1]) or self.elevated(*rest, outside):
            return -np.inf
        ratio = cell[0] / max(cell[1], 1e-6)
        ratio_out = max((outside[0] + 1) / (outside[1] + 1), 1.0)
        return float(
            rest[1] * (ratio - ratio_out) - rest[0] * np.log(max(ratio / ratio_out, 1.0001))
        )

    def _third(self, h: int, j: int) -> Conditions:
        """A pair's conditions and a third one that holds its excess, or no third one.

        All that has happened since the pair began to fail speaks for it or against it.
        """
        pair = self.layout.conditions(int(self.cells[j]))
        if self.counted or len(pair) < 2:
            return pair
        others = [a for a in self.layout.attributes if a not in dict(pair) and a not in self.barred]
        room = {a: self.layout.room[self.layout.attributes.index(a)] for a in others}
        slices = self.tables.slices
        counts = {a: np.zeros((2, len(slices), room[a])) for a in others}
        cell, whole = np.zeros((2, len(slices))), np.zeros((2, len(slices)))
        for s, coded in enumerate(slices):
            mu = self.mu(s)
            hit = match(coded, pair)
            weight = coded.exposure[hit]
            amounts = weight * coded.slice.failed[hit, self.outcome], weight * mu[hit]
            cell[:, s] = amounts[0].sum(), amounts[1].sum()
            whole[1, s] = coded.exposure @ mu
            whole[0, s] = coded.exposure @ coded.slice.failed[:, self.outcome]
            for a in others:
                value = coded.local[hit, a]
                known = value >= 0
                for row, amount in enumerate(amounts):
                    counts[a][row, s] += np.bincount(value[known], amount[known], room[a])
        first = max(len(slices) - self.tables.horizons[h], 0)
        first = min(first, beginning(cell[0], cell[1]))
        inside = cell[:, first:].sum(axis=1)
        outside = whole[:, first:].sum(axis=1) - inside
        best, best_preference = pair, CHILD_PREFERENCE
        for a in others:
            parts = counts[a][:, first:].sum(axis=1)
            for value in np.flatnonzero(parts[0] >= self.min_failures):
                if value == OTHER:
                    continue
                preference = self._prefers(
                    (float(parts[0, value]), float(parts[1, value])),
                    (float(inside[0]), float(inside[1])),
                    (float(outside[0]), float(outside[1])),
                )
                if preference >= best_preference:
                    best, best_preference = (*pair, (a, int(value))), preference
        return tuple(sorted(best))

    def _storm(self, h: int) -> bool:
        """True when, whichever attribute one looks at, most of the traffic fails far too often.

        In a blizzard some airline is always hit even harder than the rest; the answer is still
        "everything". Two outages at once leave most values of some attribute far below the whole.
        """
        whole = self.tables.observed[h, self.outcome, 0] / max(
            self.tables.expected[h, self.outcome, 0], 1e-6
        )
        ratio = max(STORM_RATIO, EVERYTHING_SHARE * whole)
        for block in range(1, 1 + len(self.layout.attributes)):
            start = self.layout.starts[block]
            values = slice(start, start + self.layout.room[block - 1])
            o = self.tables.observed[h, self.outcome, values]
            e = self.tables.expected[h, self.outcome, values]
            if e[o >= ratio * e].sum() < STORM_SHARE * e.sum():
                return False
        return True
