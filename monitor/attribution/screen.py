"""One outcome's tables → the candidates: what is worth weighing, and what is known of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise

import numpy as np

from monitor.attribution.model import CONSTANTS
from monitor.attribution.scatter import Scatter
from monitor.attribution.selectors import Selector, match, selector
from monitor.bar import KINDS
from monitor.domain import OTHER
from monitor.significance import excess_score
from monitor.window import Horizons


@dataclass(frozen=True, slots=True)
class CodeModel:
    """What the baseline knows of error codes: they tell failures apart, not events."""

    attribute: int
    parent: int | None
    """The attribute whose values have codes of their own (a fare source), if any."""
    share: np.ndarray  # (parent nodes, codes) of each code among an outcome's failures
    failures: np.ndarray  # (parent nodes,) that the shares were learned from


@dataclass(frozen=True, slots=True)
class Settled:
    """A cause whose incident is over: what its rows did until then is known and told."""

    selector: Selector
    until: np.datetime64
    """Start of the first slice that may be news again."""


def looks(tables: Horizons) -> np.ndarray:
    """How many independent chances to err a tick has, by outcome, (outcomes,), 0 to 1.

    A cell can stand out anew only when one of its failures is new. Where failures are few, most
    cells have none in a slice; where they are many, every cell is another look at every tick.
    """
    layout, slices = tables.layout, tables.horizons[-1]
    new = np.minimum(tables.expected[-1], slices) / slices
    out = np.zeros(len(new))
    for order in range(3):
        blocks = [i for i, block in enumerate(layout.blocks) if len(block) == order]
        cells = [slice(a, b) for a, b in pairwise((*layout.starts, layout.size))]
        for o, expected in enumerate(tables.expected[-1]):
            present = layout.present(expected)
            shares = [new[o, cells[i]].sum() / max(int(present[i]), 1) for i in blocks]
            out[o] += float(np.mean(shares)) / 3 if shares else 0.0
    return out


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be a cause."""

    selector: Selector
    nats: float
    """By which it stands out from the rest of the traffic at most, before the price."""
    price: float
    variance: np.ndarray  # (horizons,) s², the relative variance of its quiet counts
    known: bool = False
    """Told and not over: naming it again costs nothing."""


class Screen:
    """One outcome's cells with enough failures, and how they stand out.

    Args:
        outcome: index of the failures.
        tables: counts of the last slices, by horizon.
        scatter: over-dispersion of quiet counts.
        min_failures: of a pair, to be looked at; singles all are.
        floor: failures expected of any single value or pair at least; where there is one, failures
            are counted, not rated.
        barred: attributes that failure itself keeps empty: no candidates.
        codes: of the outcome's failures, if they have any.
        empty: (attribute, node number) of missing values.
    """

    def __init__(
        self,
        outcome: int,
        tables: Horizons,
        scatter: Scatter,
        min_failures: int,
        floor: float = 0.0,
        barred: frozenset[int] = frozenset(),
        codes: CodeModel | None = None,
        empty: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.empty = empty
        self._rows_missing: dict[tuple[int, int], list[np.ndarray]] = {}
        self.outcome, self.tables, self.layout = outcome, tables, tables.layout
        self.scatter, self.min_failures, self.floor, self.codes = (
            scatter,
            min_failures,
            floor,
            codes,
        )
        self.fair = [coded.expected[:, outcome] for coded in tables.slices]
        """Per slice: failures expected of each row, settled causes included."""
        self.told = np.zeros(len(tables.horizons))
        """Excess of everything that has been told, by horizon."""
        layout, observed = self.layout, tables.observed[:, outcome]
        lengths = np.array([len(block) for block in layout.blocks])
        usable = np.array([not barred & {layout.attributes[p] for p in b} for b in layout.blocks])
        keep = observed[-1] >= min_failures
        keep[: layout.singles] = True
        self.cells = np.flatnonzero(keep)
        block = layout.block_of(self.cells)
        self.cells = self.cells[usable[block] | (self.cells < layout.singles)]
        block = layout.block_of(self.cells)
        self.able = usable[block]
        self.order = lengths[block]
        self.observed = observed[:, self.cells]
        self.expected = tables.expected[:, outcome][:, self.cells]
        if floor:
            self.expected[:, 1:] = np.maximum(self.expected[:, 1:], floor)
        self.parents = layout.parents(self.cells)
        self.variance = 1 / scatter.sizes_of(self.expected, self.cells, self.order, self.parents)
        self.present = layout.present(tables.expected[-1, outcome])
        """Per block of the layout: cells of which any failure is expected."""
        of_order = np.array([np.count_nonzero(usable & (lengths == n)) for n in range(3)])
        self._alike = np.log(np.maximum(of_order, 1))
        self._kinds = float(np.log(3.0) + np.log(len(tables.horizons)))
        self.price = (
            self._kinds + self._alike[self.order] + np.log(np.maximum(self.present[block], 1))
        )
        self.positions = [p for p, a in enumerate(layout.attributes) if a not in barred]

    # --- what is known already --------------------------------------------------------------

    def settle(self, episode: Settled) -> None:
        """Expect of an ended cause's rows what they did, so that they are no news again."""
        slices, horizons = self.tables.slices, np.array(self.tables.horizons)
        rows = [
            np.flatnonzero(match(c.local, episode.selector))
            if c.slice.start < episode.until
            else np.zeros(0, np.int64)
            for c in slices
        ]
        seen, fair = np.array(
            [
                (
                    c.slice.weight[r] @ c.slice.failed[r, self.outcome],
                    c.exposure_of(r) @ self.fair[i][r],
                )
                for i, (c, r) in enumerate(zip(slices, rows, strict=True))
            ]
        ).T
        if seen.sum() <= fair.sum():
            return
        age = np.arange(len(slices))[::-1]
        if not episode.selector:
            # Of a cause inside of what failed as a whole more may still come to light.
            excess = [(seen - fair)[age < h].sum() for h in horizons]
            self.told = np.maximum(self.told, excess)
            return
        place = np.full(self.layout.size + 1, len(self.cells), np.int64)
        place[self.cells] = np.arange(len(self.cells))
        self.fair = [np.asarray(fair, float) for fair in self.fair]
        for newer, h in zip((0, *horizons[:-1]), horizons, strict=True):
            band = np.flatnonzero((age >= newer) & (age < h))
            ratio = max(seen[band].sum() / max(fair[band].sum(), 1e-9), 1.0)
            gained = np.zeros(len(self.cells) + 1)
            for s in (int(s) for s in band):
                gain = self.fair[s][rows[s]] * (ratio - 1)
                if self.floor:  # the history's mix says little of what a bulk is made of
                    gain = slices[s].slice.failed[rows[s], self.outcome] - self.fair[s][rows[s]]
                self.fair[s] = self.fair[s].copy()
                self.fair[s][rows[s]] += gain
                cells = place[self.layout.cells(slices[s].local[rows[s]])]
                weights = np.repeat(gain * slices[s].exposure_of(rows[s]), cells.shape[1])
                gained += np.bincount(cells.ravel(), weights, len(gained))
            self.expected[horizons >= h] += gained[:-1]

    # --- how cells stand out ----------------------------------------------------------------

    def _rest(self, observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """How elevated all traffic is that is not in some cells, at least 1."""
        k = CONSTANTS.smoothing
        whole_o, whole_e = self.observed[:, :1], self.expected[:, :1]
        ratio = (whole_o - observed + k) / (np.maximum(whole_e - expected, 0.0) + k)
        return np.asarray(np.maximum(ratio, 1.0))

    def nats(self) -> np.ndarray:
        """By how much every cell stands out from the rest of the traffic, (horizons, cells)."""
        fair = self.expected * self._rest(self.observed, self.expected)
        fair[:, 0] = self.expected[:, 0] + self.told
        nats = excess_score(self.observed, fair, 1 / self.variance)
        few = self.observed < np.maximum(CONSTANTS.least_ratio * fair, self.min_failures)
        return np.asarray(np.where(few, 0.0, nats))

    def kind(self, named: Selector) -> int:
        """Index into `monitor.bar.KINDS`."""
        if self.codes is not None and self.codes.attribute in dict(named):
            return KINDS.index("code")
        if any(len(numbers) > 1 for _, numbers in named):
            return KINDS.index("several")
        return KINDS.index(("everything", "value", "pair", "three")[len(named)])

    def candidates(self, bar: np.ndarray, known: Collection[Selector] = ()) -> list[Candidate]:
        """Everything, and what else may be a cause, most evident first.

        Several values inside of another are looked for only where something stands out by more
        than its `bar`: where they do, so does it, or one of them.

        Args:
            bar: (kinds,) nats after the price.
            known: causes that were told and are not over; they are always candidates.
        """
        self.peaks = np.full(len(KINDS), -np.inf)
        if self.observed[-1, 0] < self.min_failures:
            return []
        nats = np.where(self.able, self.nats(), 0.0)
        peak = nats.max(axis=0)
        for order, kind in enumerate(("everything", "value", "pair")):
            here = (self.order == order) & (self.observed[-1] >= self.min_failures)
            here_peak = (peak - self.price)[here].max(initial=-np.inf)
            self.peaks[KINDS.index(kind)] = here_peak
        enough = self.observed[-1] >= self.min_failures
        if self.floor:
            enough &= self.order < 2  # all that a bulk's rows have in common would be named
        chosen = np.flatnonzero((peak > CONSTANTS.interesting) & enough)
        pairs = [c for c in chosen if self.order[c] == 2]
        upper = np.searchsorted(self.cells, np.unique(self.parents[pairs]))
        chosen = np.unique(np.concatenate([[0], chosen, upper])).astype(int)
        found = [self._cell(int(c), float(peak[c])) for c in chosen]
        for position in self.positions if not self.floor else ():
            found += self._members((), position, range(len(nats)))
        found += self._threes(np.array(pairs, int), peak)
        found += self._coded()
        if not self.floor and any(c.nats - c.price > bar[self.kind(c.selector)] for c in found):
            found += self._inside(chosen, nats)
        found[1:] = sorted(found[1:], key=lambda c: (c.price - c.nats, c.selector))
        unique = {c.selector: c for c in reversed(found)}
        for named in known:
            mine = unique.get(named) or self._priced(named)
            unique[named] = replace(mine, known=True)
        ranked = sorted(
            unique.values(), key=lambda c: (bool(c.selector), not c.known, c.price - c.nats)
        )
        near = (c for c in ranked if not c.selector or c.known or c.price - c.nats < CONSTANTS.near)
        causes = (c for c in near if not self._is_symptom(c.selector))
        return list(islice(causes, CONSTANTS.candidates))

    def _is_symptom(self, named: Selector) -> bool:
        """Whether it names a missing value where most of such rows failed.

        That is what failing leaves behind: what makes rows fail is there before they do.
        """
        code = None if self.codes is None else self.codes.attribute
        plain = tuple(part for part in named if part[0] != code)
        missing = [(a, n) for a, n in self.empty if n in dict(plain).get(a, ())]
        if not missing:
            return False
        failed = events = 0.0
        for piece, rows in zip(self.tables.slices, self._missing(*missing[0]), strict=True):
            mine = rows[match(piece.local[rows], plain)]
            failed += piece.slice.weight[mine] @ piece.slice.failed[mine, self.outcome]
            events += piece.exposure_of(mine).sum()
        return 2 * failed > events

    def _missing(self, attribute: int, number: int) -> list[np.ndarray]:
        """Rows of each slice that miss a value."""
        node = attribute, number
        if node not in self._rows_missing:
            self._rows_missing[node] = [
                np.flatnonzero(piece.local[:, attribute] == number) for piece in self.tables.slices
            ]
        return self._rows_missing[node]

    def _priced(self, named: Selector) -> Candidate:
        """A selector that the screen did not come upon; its parts say how it scatters."""
        variance, price = np.zeros(len(self.observed)), self._kinds
        for attribute, numbers in named:
            if attribute not in self.layout.attributes:
                continue  # a code
            position = self.layout.attributes.index(attribute)
            inside = [n for n in numbers if 0 <= n < self.layout.room[position]]
            cells = self.layout.starts[1 + position] + np.array(inside, int)
            if len(cells):
                variance = np.maximum(variance, self.variance[:, cells].max(axis=1))
            price += float(np.log(max(int(self.present[1 + position]), 1))) * len(numbers)
        if not variance.any():
            variance = self.variance[:, 0]
        return Candidate(named, 0.0, price, variance)

    def _cell(self, c: int, nats: float) -> Candidate:
        conditions = selector(self.layout.conditions(int(self.cells[c])))
        return Candidate(conditions, nats, float(self.price[c]), self.variance[:, c])

    # --- several values of one attribute ----------------------------------------------------

    def _inside(self, chosen: np.ndarray, nats: np.ndarray) -> Iterator[Candidate]:
        """Several values of an attribute inside of single values, when those stand out most."""
        peak = nats.max(axis=0)
        values = [c for c in chosen if self.order[c] == 1 and peak[c] > CONSTANTS.interesting]
        for c in sorted(values, key=lambda c: -peak[c])[: CONSTANTS.threes]:
            when = [int(np.argmax(nats[:, c]))]
            inside = self.layout.conditions(int(self.cells[c]))
            mine = self.layout.attributes.index(inside[0][0])
            for position in self.positions:
                if position != mine:
                    yield from self._members(inside, position, when)

    def _members(
        self, inside: tuple[tuple[int, int], ...], position: int, when: Iterable[int]
    ) -> Iterator[Candidate]:
        """The values that, together, speak loudest within some horizons.

        Each is worth a place among the candidates, beside the others. As many as their price lets
        them be, and as many as come before the steepest fall; of more than half of all values the
        other half is the exception, and the whole is named. A missing value is none of several.
        """
        layout, room = self.layout, self.layout.room[position]
        numbers = np.arange(room)
        if inside:
            mine = layout.attributes.index(inside[0][0])
            fixed = np.full(room, mine), np.full(room, inside[0][1])
            cells = layout.pairs(fixed, (np.full(room, position), numbers))
            order, parents = np.full(room, 2), layout.parents(cells)
            c = int(np.searchsorted(self.cells, layout.cell(inside)))
            price = float(self.price[c] + np.log(max(len(self.positions) - 1, 1)))
        else:
            cells = layout.starts[1 + position] + numbers
            order, parents = np.ones(room, int), layout.parents(cells)
            price = self._kinds + float(self._alike[1])
        observed = self.tables.observed[:, self.outcome, cells]
        if np.count_nonzero(observed[-1] >= CONSTANTS.members) < 2:
            return
        expected = np.maximum(self.tables.expected[:, self.outcome, cells], self.floor)
        n = max(int(np.count_nonzero(expected[-1])), 1)
        size = self.scatter.sizes_of(expected, cells, order, parents)
        choices = np.log(n) + np.log(np.maximum(n - numbers, 1) / (numbers + 1)).cumsum()
        named = ~np.isin(numbers, [v for a, v in self.empty if a == layout.attributes[position]])
        seen: set[Selector] = set()
        for h in when:
            o, e = observed[h], expected[h]
            taken = np.zeros(0, int)
            for _ in range(2):
                rest = float(self._rest(o[taken].sum(), e[taken].sum())[h, 0])
                gains = excess_score(o, e * rest, size[h])
                able = np.flatnonzero(
                    named
                    & (o >= CONSTANTS.members)
                    & (o >= CONSTANTS.least_ratio * rest * e)
                    & (gains > (CONSTANTS.interesting if len(taken) else 0.0))
                )
                if len(able) < 2:
                    break
                able = able[np.argsort(-gains[able], kind="stable")]
                sums = gains[able].cumsum() - choices[: len(able)]
                taken = able[: max(int(np.argmax(sums)) + 1, 2)]
            if len(able) < 2:
                continue
            falls = gains[able[:-1]] / gains[able[1:]]
            for k in {len(taken), int(np.argmax(falls)) + 1}:
                some, whole = able[:k], float(gains[able[:k]].sum())
                enough = o[some].sum() >= 2 * self.min_failures
                if not 2 <= k <= n / 2 or not enough or whole <= CONSTANTS.interesting:
                    continue
                several = (layout.attributes[position], tuple(sorted(int(v) for v in some)))
                whom = tuple(sorted((*selector(inside), several)))
                if whom not in seen:
                    seen.add(whom)
                    spread = (expected[:, some] ** 2 / size[:, some]).sum(axis=1)
                    variance = spread / np.maximum(expected[:, some].sum(axis=1), 1e-9) ** 2
                    yield Candidate(whom, whole, price + float(choices[k - 1]), variance)

    # --- three values -----------------------------------------------------------------------

    def _threes(self, pairs: np.ndarray, peak: np.ndarray) -> list[Candidate]:
        """Third values of the pairs that stand out most.

        There are too many threes for tables. What failed is little, so it is counted row by row;
        what was expected is guessed from the pairs, as if they had nothing in common that is not
        in them. Whether it is so is found when candidates are weighed.
        """
        if self.floor or not len(pairs) or len(self.positions) < 3:
            return []
        pairs = pairs[np.argsort(-peak[pairs], kind="stable")[: 2 * CONSTANTS.threes]]
        layout, attributes = self.layout, self.layout.attributes
        local, weight, band = self._failed
        horizons = len(self.tables.horizons)
        found: dict[Selector, Candidate] = {}
        for c in (int(c) for c in pairs):
            pair = layout.conditions(int(self.cells[c]))
            rows = np.flatnonzero(np.all([local[a] == n for a, n in pair], axis=0))
            mine = [attributes.index(a) for a, _ in pair]
            one, two = np.searchsorted(self.cells, self.parents[c])
            for p in self.positions:
                if p in mine:
                    continue
                column = local[attributes[p]][rows]
                known = column > OTHER
                room = layout.room[p]
                key = band[rows][known] * room + column[known]
                seen = np.bincount(key, weight[rows][known], horizons * room)
                seen = seen.reshape(horizons, room).cumsum(axis=0)
                values = np.flatnonzero(seen[-1] >= self.min_failures)
                if not len(values):
                    continue
                third = np.full(len(values), p), values
                sides = [
                    layout.pairs((np.full(len(values), m), np.full(len(values), n)), third)
                    for m, (_, n) in zip(mine, pair, strict=True)
                ]
                e = self.tables.expected[:, self.outcome]
                single = layout.starts[1 + p] + values
                fair = e[:, sides[0]] * e[:, sides[1]] * (self.expected[:, [c]] * e[:, :1])
                both = (self.expected[:, one] * self.expected[:, two])[:, None]
                fair /= np.maximum(e[:, single] * both, 1e-12)
                places = np.searchsorted(self.cells, np.stack(sides))
                variance = np.maximum(self.variance[:, [c]], self.variance[:, places].max(axis=1))
                nats = excess_score(seen[:, values], fair, 1 / variance).max(axis=0)
                others = sum(int(self.present[1 + q]) for q in self.positions if q not in mine)
                price = float(self.price[c] + np.log(max(others, 1)))
                for i in np.flatnonzero(nats > CONSTANTS.interesting):
                    named = selector((*pair, (attributes[p], int(values[i]))))
                    new = Candidate(named, float(nats[i]), price, variance[:, i])
                    if named not in found or new.nats > found[named].nats:
                        found[named] = new
        return sorted(found.values(), key=lambda c: c.price - c.nats)[: CONSTANTS.threes]

    @cached_property
    def _failed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What failed: nodes (attributes, n), weight, and the shortest horizon that holds it."""
        tables, slices = self.tables, self.tables.slices
        rows = [tables.failing(s, self.outcome) for s in range(len(slices))]
        both = list(zip(slices, rows, strict=True))
        local = np.concatenate([c.local[r] for c, r in both]).T.astype(np.int64)
        weight = np.concatenate([c.slice.weight[r] for c, r in both]).astype(float)
        age = np.arange(len(slices))[::-1]
        band = np.searchsorted(np.array(tables.horizons), age, side="right")
        return local, weight, np.repeat(band, [len(r) for r in rows])

    # --- error codes ------------------------------------------------------------------------

    def _coded(self) -> Iterator[Candidate]:
        """Codes, alone and with one value: how often a code is expected follows from its parent."""
        if self.codes is None:
            return
        model, horizons = self.codes, len(self.tables.horizons)
        local, weight, band = self._failed
        code = np.maximum(local[model.attribute], 0)
        room = max(int(code.max(initial=0)) + 1, model.share.shape[1])
        observed = np.bincount(band * room + code, weight, horizons * room)
        observed = observed.reshape(horizons, room).cumsum(axis=0)
        share = self.code_shares(room)
        by_parent = self._by_parent(None)
        expected = by_parent @ share
        variance = 1 / self.scatter.sizes(expected, np.ones(room, int))
        variance += self._code_doubt(by_parent, share, expected)
        price = self._kinds + float(np.log(max(room - 1, 1)))
        if model.parent in self.layout.attributes:
            mine = self.layout.attributes.index(model.parent)
            yield from self._coded_values(mine, price, share, np.arange(1, room), code)
        able = np.flatnonzero(observed[-1] >= self.min_failures)
        for c in (int(c) for c in able[able > OTHER]):
            fair = expected[:, c] * self._rest(observed[:, [c]], expected[:, [c]])[:, 0]
            nats = excess_score(observed[:, c], fair, 1 / variance[:, c])
            if nats.max() <= CONSTANTS.interesting:
                continue
            yield Candidate(((model.attribute, (c,)),), float(nats.max()), price, variance[:, c])
            for p in self.positions:
                yield from self._coded_values(p, price, share, np.array([c]), code)

    def _coded_values(
        self, p: int, price: float, share: np.ndarray, asked: np.ndarray, code: np.ndarray
    ) -> Iterator[Candidate]:
        """Values of an attribute that hold much of what carries a code.

        Args:
            p: position of the attribute.
            price: of a code.
            share: (parents, codes) of each code.
            asked: (k,) codes, ascending.
            code: (n,) of the failures.
        """
        assert self.codes is not None
        layout, horizons, k = self.layout, len(self.tables.horizons), len(asked)
        attribute, room = layout.attributes[p], layout.room[p]
        local, weight, band = self._failed
        column, place = local[attribute], np.searchsorted(asked, code)
        known = (column >= 0) & (place < k)
        known[known] &= asked[place[known]] == code[known]
        key = (band[known] * room + column[known]) * k + place[known]
        seen = np.bincount(key, weight[known], horizons * room * k)
        seen = seen.reshape(horizons, room, k).cumsum(axis=0)
        values, codes = np.nonzero(seen[-1] >= self.min_failures)
        if not len(values):
            return
        by_parent = self._by_parent(p)
        fair = by_parent @ share[:, asked]
        doubt = self._code_doubt(by_parent, share[:, asked], fair)[:, values, codes]
        fair = fair[:, values, codes]
        cells = layout.starts[1 + p] + values
        variance = self.variance[:, cells] + doubt
        nats = excess_score(seen[:, values, codes], fair, 1 / variance).max(axis=0)
        for i in np.argsort(-nats)[: CONSTANTS.threes]:
            if nats[i] > CONSTANTS.interesting:
                value, carried = int(values[i]), int(asked[codes[i]])
                named = ((attribute, (value,)), (self.codes.attribute, (carried,)))
                whole = price + float(self.price[cells[i]] - self._kinds)
                yield Candidate(tuple(sorted(named)), float(nats[i]), whole, variance[:, i])

    def _code_doubt(
        self, by_parent: np.ndarray, share: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """Relative variance of what is expected of codes, as their shares come of few failures.

        A share learned from k failures with a code scatters by 1/k of its square.

        Args:
            by_parent: (…, parents) failures expected.
            share: (parents, codes).
            expected: (…, codes) failures expected with the code.
        """
        assert self.codes is not None
        doubt = by_parent**2 @ (share / self.codes.failures[:, None])
        return np.asarray(doubt / np.maximum(expected, 1e-9) ** 2)

    def code_shares(self, codes: int) -> np.ndarray:
        """(parents, codes) share of each code among a parent's failures; none is impossible."""
        assert self.codes is not None
        share = np.zeros((len(self.codes.share), codes))
        width = min(codes, self.codes.share.shape[1])
        share[:, :width] = self.codes.share[:, :width]
        unseen = CONSTANTS.unseen / max(float(self.expected[-1, 0]), CONSTANTS.unseen)
        return np.asarray(np.maximum(share, unseen))

    def parent_of(self, local: np.ndarray, parents: int) -> np.ndarray:
        """The parent of each row, (m,)."""
        if self.codes is None or self.codes.parent is None:
            return np.zeros(len(local), int)
        return np.asarray(np.clip(local[:, self.codes.parent], 0, parents - 1))

    def _by_parent(self, position: int | None) -> np.ndarray:
        """Failures expected by parent: (horizons, parents), or (horizons, values, parents)."""
        assert self.codes is not None
        layout, parents = self.layout, len(self.codes.share)
        values = 1 if position is None else layout.room[position]
        e = self.tables.expected[:, self.outcome]
        out = np.zeros((len(e), values, parents))
        if self.codes.parent is None or parents == 1:
            cells = np.zeros(1, int) if position is None else layout.starts[1 + position]
            out[:, :, 0] = e[:, cells + np.arange(values)]
            return out[:, 0] if position is None else out
        mine = layout.attributes.index(self.codes.parent)
        width = min(parents, layout.room[mine])
        singles = layout.starts[1 + mine] + np.arange(width)
        if position is None:
            out[:, 0, :width] = e[:, singles]
            return np.asarray(out[:, 0])
        if position == mine:
            number = np.arange(width)
            out[:, number, number] = e[:, singles]
            return out
        grid = np.repeat(np.arange(values), width), np.tile(np.arange(width), values)
        one = np.full(len(grid[0]), position), grid[0]
        other = np.full(len(grid[0]), mine), grid[1]
        out[:, :, :width] = e[:, layout.pairs(one, other)].reshape(len(e), values, width)
        return out
