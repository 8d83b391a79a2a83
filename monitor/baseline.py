"""History → how many failures this traffic should produce.

Per outcome, a row's failure probability is base × time of day × a multiplier per attribute
value. Multipliers are shrunk towards 1 by their own evidence. Rows are scored on arrival, and teach
only when they have left the window: what builds up for a day would otherwise be learned before it
comes to light.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from monitor.counts import CARRIERS, LEAST_CARRIERS, Usual, usual_failures, without_carriers
from monitor.domain import MISSING, OTHER
from monitor.slices import Slice
from monitor.window import QUANTUM

SHRINK = 15.0
"""Expected failures that a value's multiplier of 1 is worth."""
SHRINK_DAY = 10.0
SHRINK_WEEK = 0.3
"""Of a single slice of the week: that it must recur guards against chance already."""
_WEEK = np.int64(7 * 86_400_000_000)  # µs
LEAST_RHYTHM = 1.5
"""Observed over expected, from which on what recurs is no chance of small counts."""
SHRINK_CODES = 20.0
"""Failures that the overall shares of codes are worth to a single parent."""
KEPT_EMPTY = 3.0
"""Times as often as in the rest an attribute is missing among failures, if failing empties it."""
SAMPLE_ROWS = 400
"""Rows that half an hour, or a longer slice, keeps as exposure; failures are all kept."""
CAP = 2.0
"""In periods when everything failed, failures teach at most this multiple of the expected."""


Codes = tuple[tuple[int, tuple[int, ...]], ...]
"""A selector by code: per attribute that is named, the codes that its value may have."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Rows that must not teach: those of a reported cause while it lasted."""

    outcome: int
    codes: Codes
    """Empty is everything, which is capped instead."""
    first: int
    """Start of the first slice, µs since the epoch."""
    last: int
    """Start of the last slice."""


@dataclass(frozen=True, slots=True)
class Taught:
    """What the history keeps of a slice."""

    start: int
    slot: int
    weekday: int
    values: np.ndarray  # (n, attributes) codes
    exposure: np.ndarray  # (n,) events that each row stands for
    failures: np.ndarray  # (n, outcomes) failures of each row
    expected: np.ndarray  # (outcomes,) expected on arrival, whole slice


def teach(
    piece: Slice,
    slot: int,
    weekday: int,
    expected: np.ndarray,
    sample: int = SAMPLE_ROWS,
    half_hour: int = 1,
) -> Taught:
    """A slice as history: all failures, and at most its part of `sample` rows of exposure.

    Exposure is sampled at equal steps through the rows in their fixed order (by value),
    which stratifies it: every value keeps its share. The slices of half an hour begin in different
    places, so that together they draw what a single one would.

    Args:
        piece: the slice.
        slot: its time of day, in slices.
        weekday: Monday is 0.
        expected: (outcomes,) failures expected of it.
        sample: rows drawn from half an hour.
        half_hour: slices in one.
    """
    piece = without_carriers(piece)
    sample = -(-sample // half_hour)
    start = int(piece.start.astype(np.int64))
    failures = piece.failed * piece.weight[:, None]
    if len(piece.weight) <= sample:
        return Taught(
            start,
            slot,
            weekday,
            piece.values,
            piece.weight.astype(float),
            failures,
            expected,
        )
    cumulative = np.cumsum(piece.weight)
    step = cumulative[-1] / sample
    begin = (slot % half_hour + 0.5) / half_hour
    drawn = np.searchsorted(cumulative, (np.arange(sample) + begin) * step)
    exposure = np.bincount(drawn, minlength=len(piece.weight)) * step
    keep = (exposure > 0) | failures.any(axis=1)
    return Taught(
        start,
        slot,
        weekday,
        piece.values[keep],
        exposure[keep],
        failures[keep],
        expected,
    )


@dataclass(frozen=True, slots=True)
class CodeShares:
    """Which error codes an outcome's failures carry."""

    parent: int | None
    """The attribute whose values tell most of the code (a fare source, with codes of its own)."""
    share: np.ndarray  # (parent nodes, codes) share of each code among the failures of each
    failures: (
        np.ndarray
    )  # (parent nodes,) that this was learned from, the overall share's worth too

    @staticmethod
    def none() -> CodeShares:
        """Nothing is known of codes."""
        return CodeShares(None, np.zeros((1, 0)), np.ones(1))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The fitted model; `expected` applies it."""

    base: np.ndarray  # (outcomes,)
    day: np.ndarray  # (outcomes, slots per day)
    week: np.ndarray  # (outcomes, 7, slots per day) what recurs week by week, on top; at least 1
    multipliers: tuple[np.ndarray, ...]  # per attribute (outcomes, nodes)
    codes: tuple[CodeShares, ...]  # per outcome
    usual: Usual
    """What the counted outcomes usually have."""
    fitted_at: int  # µs since the epoch
    kept_empty: np.ndarray  # (outcomes, attributes) bool: failing keeps the attribute empty

    def expected(self, local: np.ndarray, slot: int, weekday: int) -> np.ndarray:
        """Failure probability per row and outcome, in multiples of the quantum.

        Args:
            local: (m, attributes) node numbers.
            slot: time of day, in slices since local midnight.
            weekday: local; Monday is 0.
        """
        usual = self.base * self.day[:, slot] * self.week[:, weekday, slot]
        rate = np.repeat(usual[:, None], len(local), axis=1)
        for a, multiplier in enumerate(self.multipliers):
            nodes = multiplier.shape[1]
            if not nodes:
                continue
            node = np.where((local[:, a] >= 0) & (local[:, a] < nodes), local[:, a], nodes)
            for o, factors in enumerate(multiplier):
                rate[o] *= np.append(factors, 1.0)[node]
        np.minimum(rate, 0.999, out=rate)
        return np.asarray(np.maximum(np.round(rate / QUANTUM), 1.0) * QUANTUM).T


def _by_node(
    node: np.ndarray, amounts: np.ndarray, first: int, more: np.ndarray, nodes: int
) -> np.ndarray:
    """Sums of the `first` rows and of some `more`, (nodes,); what is MISSING has none."""
    sums = np.bincount(node[:first] + 1, amounts[:first], nodes + 1)
    if len(more):
        sums += np.bincount(node[more] + 1, amounts[more], nodes + 1)
    return np.asarray(sums[1:])


def _code_shares(
    failures: np.ndarray, code: np.ndarray, parent: np.ndarray, codes: int, parents: int
) -> tuple[np.ndarray, np.ndarray]:
    """(parents, codes) share of each code among a parent's failures, shrunk to the overall one.

    Returns:
        They, and the failures that they are worth, (parents,).
    """
    seen, overall, whole = _code_counts(failures, code, parent, codes, parents)
    worth = whole + SHRINK_CODES
    return np.asarray((seen + SHRINK_CODES * overall) / worth), worth[:, 0]


def _code_likelihood(
    failures: np.ndarray, code: np.ndarray, parent: np.ndarray, codes: int, parents: int
) -> float:
    """ln of how likely the codes are by `_code_shares`, each failure left out of its own share."""
    seen, overall, whole = _code_counts(failures, code, parent, codes, parents)
    share = (np.maximum(seen - 1, 0) + SHRINK_CODES * overall) / (
        np.maximum(whole - 1, 0) + SHRINK_CODES
    )
    return float((seen * np.log(share)).sum())


def _code_counts(
    failures: np.ndarray, code: np.ndarray, parent: np.ndarray, codes: int, parents: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Failures by parent and code, the share of each code in general, failures by parent."""
    hit = (code >= 0) & (failures > 0)
    cell = np.maximum(parent[hit], 0) * codes + code[hit]
    seen = np.bincount(cell, failures[hit], parents * codes).reshape(parents, codes)
    overall = seen.sum(axis=0) + 1e-3
    return seen, overall / overall.sum(), seen.sum(axis=1, keepdims=True)


@dataclass(frozen=True, slots=True)
class _Rows:
    """One outcome's history, row by row."""

    start: np.ndarray  # (n,) ascending
    slot: np.ndarray  # (n,)
    weekday: np.ndarray  # (n,)
    values: np.ndarray  # (n, attributes)
    exposure: np.ndarray  # (n,)
    failures: np.ndarray  # (n,)


def _usual(fitted: Baseline, o: int, slot: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Failure probability of rows without what recurs by week, (n,)."""
    rate: np.ndarray = fitted.base[o] * fitted.day[o][slot]
    for a, multiplier in enumerate(fitted.multipliers):
        if multiplier.shape[1]:
            rate = rate * np.append(multiplier[o], 1.0)[local[:, a]]  # MISSING is the last
    return rate


def _kept_empty(rows: _Rows) -> np.ndarray:
    """Attributes that failing keeps empty, (attributes,): a payment provider, without a seat.

    It is missing far more often among failures than among the rest; and in most failures, or most
    rows without it fail.
    """
    empty = rows.values == MISSING
    failures, failed = rows.failures.sum(), rows.failures @ empty
    # exposure is sampled: only sums of it are events
    rest = max(rows.exposure.sum() - failures, 1.0)
    others = np.maximum(rows.exposure @ empty - failed, 0.0)
    often = failed * rest > KEPT_EMPTY * others * failures
    most = (failed > failures / 2) | (failed > others)
    return np.asarray((failed >= SHRINK) & often & most)


def _blank(
    outcomes: int,
    slots: int,
    sizes: tuple[int, ...],
    skip: tuple[int, ...],
    fitted_at: int,
) -> Baseline:
    return Baseline(
        np.zeros(outcomes),
        np.ones((outcomes, slots)),
        np.ones((outcomes, 7, slots)),
        tuple(np.ones((outcomes, 0 if a in skip else size)) for a, size in enumerate(sizes)),
        (CodeShares.none(),) * outcomes,
        Usual.none(outcomes, len(sizes)),
        fitted_at,
        np.zeros((outcomes, len(sizes)), bool),
    )


def _copy(before: Baseline, after: Baseline) -> None:
    """Take over a fit; nodes that are new since then keep a multiplier of 1."""
    after.base[:] = before.base
    after.day[:] = before.day
    after.week[:] = before.week
    for old, new in zip(before.multipliers, after.multipliers, strict=True):
        new[:, : old.shape[1]] = old
    after.kept_empty[:] = before.kept_empty


class History:
    """The last days of slices, ready to be fitted again and again.

    Args:
        length: of the history.
        slots: slices a day.
        wait: age at which a row begins to teach.
        start: the oldest rows teach at once, for so long; likewise those of a new value.
        half_hour: slices in one; what recurs by week is told so finely and no finer, for what an
            hour counts is what it weighs.
    """

    def __init__(
        self,
        length: timedelta,
        slots: int,
        wait: timedelta = timedelta(0),
        start: timedelta = timedelta(0),
        half_hour: int = 1,
    ) -> None:
        self._length, self._wait, self._start = (
            np.int64(span.total_seconds() * 1e6) for span in (length, wait, start)
        )
        self._slots, self._half_hour = slots, half_hour
        self.taught: deque[Taught] = deque()

    def add(self, taught: Taught) -> None:
        """Append the newest slice; what is older than the history's length leaves."""
        self.taught.append(taught)
        while self.taught[0].start <= taught.start - self._length:
            self.taught.popleft()

    def without(self, starts: frozenset[int]) -> History:
        """The same, less the slices that start then."""
        if not starts:
            return self
        part = copy(self)
        part.taught = deque(taught for taught in self.taught if taught.start not in starts)
        return part

    @property
    def span(self) -> timedelta:
        """From the oldest slice to the newest."""
        if not self.taught:
            return timedelta(0)
        return timedelta(microseconds=int(self.taught[-1].start - self.taught[0].start))

    def fit(
        self,
        local_of: Callable[[np.ndarray], np.ndarray],
        sizes: tuple[int, ...],
        skip: tuple[int, ...],
        masks: tuple[Mask, ...],
        code: int | None = None,
        *,
        only: int | None = None,
        before: Baseline | None = None,
        counted: frozenset[int] = frozenset(),
    ) -> Baseline:
        """Fit base, day and multipliers by iterative proportional fitting.

        Args:
            local_of: (n, attributes) codes → node numbers, as of now.
            sizes: nodes per attribute.
            skip: attributes without a multiplier (error codes).
            masks: rows that must not teach.
            code: index of the error-code attribute, if any.
            only: fit this outcome alone and take the others from `before`.
            before: the last fit.
            counted: outcomes whose failures are counted, not rated.
        """
        pieces = [t for t in self.taught if len(t.exposure)]
        outcomes = pieces[0].failures.shape[1]
        fitted = _blank(outcomes, self._slots, sizes, skip, pieces[-1].start)
        if before is not None:
            _copy(before, fitted)
            fitted = replace(fitted, usual=before.usual, codes=before.codes)
        for o in range(outcomes) if only is None else (only,):
            rows = self._rows(pieces, o)
            local = local_of(rows.values)
            all_failures, all_exposure = rows.failures.copy(), rows.exposure.copy()
            self._mask(rows, local, masks, o, counted=o in counted)
            fitted.kept_empty[o] = _kept_empty(rows)
            if o in counted:
                fitted = self._count(fitted, o, rows)
                continue
            # What failing keeps empty would be told by the failure itself what to expect of it.
            told = [a for a in range(len(sizes)) if a not in skip and not fitted.kept_empty[o, a]]
            self._rate(fitted, o, rows, local, told)
            usual = _usual(fitted, o, rows.slot, local) * all_exposure
            fitted.week[o] = self._week(rows, all_failures, usual)
            if code is not None:
                shares = self._codes(rows, local, sizes, code, skip)
                fitted = replace(fitted, codes=(*fitted.codes[:o], shares, *fitted.codes[o + 1 :]))
        return fitted

    def _codes(
        self,
        rows: _Rows,
        local: np.ndarray,
        sizes: tuple[int, ...],
        code: int,
        skip: tuple[int, ...],
    ) -> CodeShares:
        """The codes of an outcome's failures, by the attribute that tells most of them."""
        failed = rows.failures > 0
        teaching = self._teaching(rows.start)
        some = np.flatnonzero(failed[:teaching])
        carried, codes = rows.failures[some], local[some, code]
        likely = {
            a: _code_likelihood(carried, codes, local[some, a], sizes[code], size)
            for a, size in enumerate(sizes)
            if a not in skip
        }
        parent = max(likely, key=lambda a: (likely[a], -a), default=None)
        above = np.zeros(len(local), np.int64) if parent is None else local[:, parent]
        parents = 1 if parent is None else sizes[parent]
        known = np.append(np.arange(teaching), self._late(rows.start, above, teaching, parents))
        share, worth = _code_shares(
            rows.failures[known], local[known, code], above[known], sizes[code], parents
        )
        return CodeShares(parent, share, worth)

    def _rate(
        self, fitted: Baseline, o: int, rows: _Rows, local: np.ndarray, attributes: list[int]
    ) -> None:
        """A rated outcome: its base, time of day and multipliers, in place."""
        y, teaching = rows.failures, self._teaching(rows.start)
        fitted.base[o] = (y[:teaching].sum() + 0.5) / (rows.exposure[:teaching].sum() + 1.0)
        e = fitted.base[o] * rows.exposure
        fitted.day[o] = self._day(rows.slot[:teaching], y[:teaching], e[:teaching])
        e *= fitted.day[o][rows.slot]
        late, seen = {}, {}
        for every in fitted.multipliers:
            every[o] = 1.0
        for a in attributes:
            node, multiplier = local[:, a], fitted.multipliers[a][o]
            late[a] = self._late(rows.start, node, teaching, len(multiplier))
            seen[a] = _by_node(node, y, teaching, late[a], len(multiplier))
        for _ in range(2):
            for a in attributes:
                node, old = local[:, a], fitted.multipliers[a][o].copy()
                fair = _by_node(node, e, teaching, late[a], len(old)) / old
                new = (seen[a] + SHRINK) / (fair + SHRINK)
                e *= np.append(new / old, 1.0)[node]  # MISSING is the last
                fitted.multipliers[a][o] = new

    def _teaching(self, start: np.ndarray) -> int:
        """How many of the rows teach whatever they are of; `start` of their slices, ascending."""
        latest = max(start[0] + self._start, start[-1] - self._wait)
        return int(np.searchsorted(start, latest, "right"))

    def _late(self, start: np.ndarray, node: np.ndarray, teaching: int, nodes: int) -> np.ndarray:
        """Rows behind those that teach anyway, and that do so too: the first ones of a new node.

        Args:
            start: (n,) of their slices, ascending.
            node: (n,) number, or MISSING.
            teaching: rows that teach anyway.
            nodes: how many there are.
        """
        if teaching == len(start):
            return np.zeros(0, np.int64)
        since = int(np.searchsorted(start, start[teaching] - self._start))
        new = np.bincount(node[:since] + 1, minlength=nodes + 1) == 0
        new[0] = False  # that is MISSING
        rows = since + np.flatnonzero(new[node[since:] + 1])
        first = np.zeros(nodes, np.int64)
        first[node[rows][::-1]] = start[rows][::-1]  # the earliest is written last
        rows = rows[rows >= teaching]
        return np.asarray(rows[start[rows] <= first[node[rows]] + self._start])

    def _count(self, fitted: Baseline, o: int, rows: _Rows) -> Baseline:
        """A counted outcome: its usual failures, and when they come."""
        slots = np.bincount([t.slot for t in self.taught], minlength=self._slots)
        days = np.bincount([t.weekday for t in self.taught], minlength=7)
        mean = rows.failures.sum() / len(self.taught)
        fitted.base[o] = 0.0
        seen = np.bincount(rows.slot, rows.failures, self._slots)
        fitted.day[o] = self._smooth(seen, mean * slots)
        carriers = usual_failures(
            rows.values,
            rows.failures,
            rows.weekday,
            days,
            self.span / timedelta(weeks=1),
            max(CARRIERS // self._half_hour, LEAST_CARRIERS),
        )
        return replace(fitted, usual=fitted.usual.replace(o, *carriers))

    @staticmethod
    def _rows(pieces: list[Taught], o: int) -> _Rows:
        kept = [(t.exposure > 0) | (t.failures[:, o] > 0) for t in pieces]
        lengths = [int(np.count_nonzero(k)) for k in kept]
        both = list(zip(pieces, kept, strict=True))
        return _Rows(
            np.repeat([t.start for t in pieces], lengths),
            np.repeat([t.slot for t in pieces], lengths),
            np.repeat([t.weekday for t in pieces], lengths),
            np.concatenate([t.values[k] for t, k in both]),
            np.concatenate([t.exposure[k] for t, k in both]),
            np.concatenate([t.failures[k, o] for t, k in both]).astype(float),
        )

    def _mask(
        self, rows: _Rows, local: np.ndarray, masks: tuple[Mask, ...], o: int, *, counted: bool
    ) -> None:
        """Silence the rows of reported causes, in place.

        Where failures are counted, the cause's rows of all other slices stand in for them. What
        has lasted for most of the history is usual by now.
        """
        starts = np.array([t.start for t in self.taught])
        for mask in masks:
            if mask.outcome != o:
                continue
            begin, end = np.searchsorted(rows.start, [mask.first, mask.last + 1])
            if begin == end:
                continue
            during = slice(int(begin), int(end))
            if not mask.codes:
                rows.failures[during] *= self._cap(mask, o)
                continue
            matched = np.ones(len(local), bool)
            for a, values in mask.codes:
                hit = np.isin(rows.values[:, a], values)
                matched &= hit | (local[:, a] == OTHER) if OTHER in values else hit
            if counted:
                silent = np.count_nonzero((starts >= mask.first) & (starts <= mask.last))
                if 2 * silent > len(starts):
                    continue
                rows.failures[matched] *= len(starts) / (len(starts) - silent)
            rows.failures[during][matched[during]] = 0
            rows.exposure[during][matched[during]] = 0

    def _cap(self, mask: Mask, outcome: int) -> float:
        inside = [t for t in self.taught if mask.first <= t.start <= mask.last]
        seen = sum(float(t.failures[:, outcome].sum()) for t in inside)
        fair = sum(float(t.expected[outcome]) for t in inside)
        return min(1.0, CAP * fair / seen) if seen > 0 else 1.0

    def _day(self, slot: np.ndarray, y: np.ndarray, e: np.ndarray) -> np.ndarray:
        slots = self._slots
        return self._smooth(np.bincount(slot, y, slots), np.bincount(slot, e, slots))

    def _week(self, rows: _Rows, seen: np.ndarray, fair: np.ndarray) -> np.ndarray:
        """What recurs at the same time of most weeks, told or not, as a factor, (7, slots).

        The lower median over weeks: what happened once is no rhythm. Rows of reported causes count
        here, or what alarms every Sunday would alarm for ever.

        Args:
            rows: the history.
            seen: (n,) failures of each row.
            fair: (n,) failures expected of each row without any rhythm.
        """
        ago = (rows.start[-1] - rows.start) // _WEEK
        part = np.arange(self._slots) // self._half_hour  # of the day
        parts = int(part[-1]) + 1
        weeks, slots = int(ago[0]) + 1, 7 * parts
        if weeks < 2:
            return np.ones((7, self._slots))
        at = ago * slots + rows.weekday * parts + part[rows.slot]
        counts = np.array([np.bincount(at, x, weeks * slots) for x in (seen, fair)])
        counts = counts.reshape(2, weeks, slots)
        near = ((-2, 1), (-1, 2), (0, 3), (1, 2), (2, 1))
        counts = np.sum([w * np.roll(counts, by, 2) for by, w in near], axis=0) / 9
        known = counts[1] > 0
        ratio = (counts[0] + SHRINK_WEEK) / (counts[1] + SHRINK_WEEK)
        ratio = np.sort(np.where(known, ratio, np.inf), axis=0)
        middle = np.maximum((known.sum(axis=0) - 1) // 2, 0)
        recurring = np.take_along_axis(ratio, middle[None], axis=0)[0]
        recurring[(known.sum(axis=0) < 2) | (recurring < LEAST_RHYTHM)] = 1.0
        return np.asarray(recurring.reshape(7, parts)[:, part])

    def _smooth(self, seen: np.ndarray, fair: np.ndarray) -> np.ndarray:
        """Factor by time of day from failures seen and expected of each, (slots,)."""
        slots = self._slots
        reach = max(1, slots // 8)
        offsets = np.arange(-reach, reach + 1)
        kernel = np.exp(-0.5 * (offsets / max(1.0, slots / 16)) ** 2)

        def smooth(counts: np.ndarray) -> np.ndarray:
            wrapped = np.concatenate([counts[-reach:], counts, counts[:reach]])
            return np.convolve(wrapped, kernel, "valid")

        return np.asarray((smooth(seen) + SHRINK_DAY) / (smooth(fair) + SHRINK_DAY))
