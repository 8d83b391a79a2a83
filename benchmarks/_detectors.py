"""Simple detectors, as peers of the product: each a page of arithmetic over the same slices.

All look at the last 24 hours at every half hour and know the 28 days before. None masks incidents,
explains away or models over-dispersion: they show what is gained by that. What they say becomes
incidents as the product's do (opened, gone after four quiet ticks) and is scored by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

import numpy as np
from scipy.sparse import coo_array
from scipy.special import betainc

from monitor.domain import (
    Cause,
    Finding,
    Incident,
    Method,
    Schema,
    Settings,
    State,
    WindowSettings,
    utc,
)
from monitor.replay import Input
from monitor.vocabulary import Vocabulary

WINDOW, HISTORY = timedelta(days=1), timedelta(days=28)
LEAST_FAILURES = 5
FLOOR = 5.0
"""Nats below which no peer's threshold is sought."""
RESOLVE_AFTER = 4
PAIRS_AT_MOST = 20_000
BLOCK = 400


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a detector says at one tick."""

    tick: int
    outcome: int
    cause: Cause
    score: float


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts per slice of some cells: their causes, rows and failures, summed up over time."""

    causes: tuple[Cause, ...]
    rows: np.ndarray  # (slices + 1, cells), cumulative
    failed: np.ndarray  # (outcomes, slices + 1, cells), cumulative
    slice_length: timedelta
    learning: int
    """First tick that is judged: the product's own, for a fair comparison."""

    def window(self, sums: np.ndarray) -> np.ndarray:
        """Of the last 24 hours at every tick."""
        return sums[1:] - sums[self._begins(sums)]

    def _begins(self, sums: np.ndarray) -> np.ndarray:
        begins: np.ndarray = np.arange(1, len(sums)) - max(WINDOW // self.slice_length, 1)
        return np.maximum(begins, 0)

    def history(self, sums: np.ndarray) -> np.ndarray:
        """Of the 28 days before that."""
        last = self._begins(sums)
        return sums[last] - sums[np.maximum(last - HISTORY // self.slice_length, 0)]


def cells_of(data: Input, settings: Settings, vocabulary: Vocabulary, order: int) -> list[Cells]:
    """Cells of `order` 0, 1 or 2, in blocks that fit into memory; error codes make none."""
    schema, length = settings.schema, settings.window.slice_length
    step = np.timedelta64(length)
    at = np.repeat((data.starts - data.starts[0]) // step, np.diff(data.first)).astype(np.int64)
    slices = int(at[-1]) + 1
    usable = [i for i, a in enumerate(schema.attributes) if not a.is_code]
    blocks: list[Cells] = []
    for chosen in combinations(usable, order):
        columns = data.values[:, chosen]
        there = (columns >= 0).all(axis=1)
        found, cell = np.unique(columns[there], axis=0, return_inverse=True)
        failing = data.failed[there].any(axis=1)
        enough = np.bincount(cell.ravel()[failing], minlength=len(found)) >= LEAST_FAILURES
        kept = np.flatnonzero(enough)
        if order == 2 and len(kept) > PAIRS_AT_MOST:
            continue
        for first in range(0, len(kept), BLOCK):
            some = kept[first : first + BLOCK]
            place = np.full(len(found), -1)
            place[some] = np.arange(len(some))
            column = place[cell.ravel()]
            mine = column >= 0
            shape = slices, len(some)
            where = at[there][mine], column[mine]
            causes = tuple(
                Cause.from_json(
                    {
                        schema.names[a]: [vocabulary.text(a, int(code))]
                        for a, code in zip(chosen, row, strict=True)
                    }
                )
                for row in found[some]
            )
            failed = data.failed[there][mine]
            blocks.append(
                Cells(
                    causes,
                    _sums(np.ones(len(failed)), where, shape),
                    np.stack([_sums(one, where, shape) for one in failed.T]),
                    length,
                    settings.detection.learning // length,
                )
            )
    return blocks


def _sums(
    weight: np.ndarray, where: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]
) -> np.ndarray:
    table = coo_array((weight.astype(np.float64), where), shape=shape)
    return np.concatenate([np.zeros((1, shape[1])), np.cumsum(table.toarray(), axis=0)])


def tail(observed: np.ndarray, rows: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """−ln P(X ≥ observed) of a binomial; by Chernoff's bound where that is too small to tell."""
    rate = np.clip(rate, 1e-9, 1 - 1e-9)
    p = betainc(np.maximum(observed, 1e-9), np.maximum(rows - observed, 0) + 1, rate)
    share = np.clip(observed / np.maximum(rows, 1), 1e-12, 1 - 1e-12)
    bound = rows * (share * np.log(share / rate) + (1 - share) * np.log((1 - share) / (1 - rate)))
    score = np.where(p > 1e-290, -np.log(np.maximum(p, 1e-300)), bound)
    out: np.ndarray = np.where((observed >= LEAST_FAILURES) & (share > rate), score, 0.0)
    return out


def _alarms(scores: np.ndarray, cells: Cells, outcome: int) -> list[Alarm]:
    ticks, places = np.nonzero(scores > FLOOR)
    return [
        Alarm(int(t), outcome, cells.causes[c], float(scores[t, c]))
        for t, c in zip(ticks, places, strict=True)
        if t >= cells.learning
    ]


def nothing(orders: Sequence[Sequence[Cells]]) -> list[Alarm]:
    """The null detector."""
    return []


def binomial(orders: Sequence[Sequence[Cells]]) -> list[Alarm]:
    """Single values and everything, each against its own rate of the trailing 28 days."""
    alarms = []
    for cells in (*orders[0], *orders[1]):
        for o, failed in enumerate(cells.failed):
            rate = (cells.history(failed) + 0.5) / (cells.history(cells.rows) + 1)
            scores = tail(cells.window(failed), cells.window(cells.rows), rate)
            alarms += _alarms(scores, cells, o)
    return alarms


def adtributor(orders: Sequence[Sequence[Cells]]) -> list[Alarm]:
    """Bhagwan et al. 2014: one attribute, the values with most surprise that explain the excess.

    The paper takes the alarm as given; here the binomial test of everything raises it.
    """
    (whole,) = orders[0]
    names = [list(dict.fromkeys(n for c in b.causes for n, _ in c.selector)) for b in orders[1]]
    alarms = []
    for o, failed in enumerate(whole.failed):
        rate = (whole.history(failed) + 0.5) / (whole.history(whole.rows) + 1)
        total = tail(whole.window(failed), whole.window(whole.rows), rate)[:, 0]
        seen, fair = whole.window(failed)[:, 0], (whole.window(whole.rows) * rate)[:, 0]
        tables = []
        for cells in orders[1]:
            own = (cells.history(cells.failed[o]) + 1) / (
                cells.history(cells.rows) + 1 / np.maximum(rate, 1e-9)
            )
            tables.append((cells.window(cells.failed[o]), cells.window(cells.rows) * own))
        for t in np.flatnonzero(total > FLOOR):
            if t < whole.learning:
                continue
            best: tuple[float, list[tuple[Cause, float]]] = (0.0, [])
            for attribute in dict.fromkeys(n[0] for n in names):
                observed, expected, causes = [], [], []
                for cells, (x, e), mine in zip(orders[1], tables, names, strict=True):
                    if mine[0] == attribute:
                        observed.append(x[t])
                        expected.append(e[t])
                        causes += cells.causes
                chosen = elements(
                    np.concatenate(observed), np.concatenate(expected), seen[t], fair[t]
                )
                surprise = sum(s for _, s in chosen)
                if surprise > best[0]:
                    best = surprise, [(causes[i], s) for i, s in chosen]
            alarms += [Alarm(int(t), o, c, float(total[t]) + 1e-3 * s) for c, s in best[1]]
    return alarms


def elements(
    observed: np.ndarray, expected: np.ndarray, total: float, total_expected: float,
    least: float = 0.1, enough: float = 0.67,
) -> list[tuple[int, float]]:  # fmt: skip
    """Adtributor's values of one attribute with their surprise; empty if they explain too little.

    Args:
        observed, expected: per value.
        total, total_expected: of everything.
        least: explanatory power that each value needs (T_EEP).
        enough: explanatory power of all of them (T_EP).
    """
    p, q = expected / max(total_expected, 1e-12), observed / max(total, 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = 0.5 * (
            np.where(p > 0, p * np.log(2 * p / (p + q)), 0.0)
            + np.where(q > 0, q * np.log(2 * q / (p + q)), 0.0)
        )
    change = total - total_expected
    if change == 0:
        return []
    power = (observed - expected) / change
    chosen, explained = [], 0.0
    for i in np.argsort(-surprise, kind="stable"):
        if power[i] > least:
            chosen.append((int(i), float(surprise[i])))
            explained += power[i]
            if explained > enough:
                return chosen
    return []


def risk_ratio(orders: Sequence[Sequence[Cells]]) -> list[Alarm]:
    """MacroBase's explanation (Bailis et al. 2017): values and pairs with a risk ratio above 3.

    It compares the failing with the others of the same window and knows no history; they are
    ranked by the binomial tail against the rate of the rest.
    """
    (whole,) = orders[0]
    alarms = []
    for o, failed in enumerate(whole.failed):
        seen, rows = whole.window(failed), whole.window(whole.rows)
        for cells in (*orders[1], *orders[2]):
            x, n = cells.window(cells.failed[o]), cells.window(cells.rows)
            rest = (seen - x + 0.5) / (np.maximum(rows - n, 0) + 1)
            ratio = (x / np.maximum(n, 1)) / rest
            scores = np.where((ratio >= 3) & (x >= 0.01 * seen), tail(x, n, rest), 0.0)
            alarms += _alarms(scores, cells, o)
    return alarms


PEERS: dict[str, Callable[[Sequence[Sequence[Cells]]], list[Alarm]]] = {
    "null": nothing,
    "binomial, 28 days": binomial,
    "Adtributor": adtributor,
    "MacroBase-style": risk_ratio,
}


def incidents(
    alarms: Sequence[Alarm], threshold: float, data: Input, schema: Schema, window: WindowSettings
) -> list[Incident]:
    """Alarms above the threshold, joined while they go on."""
    by_cause: dict[tuple[int, Cause], list[Alarm]] = {}
    for alarm in alarms:
        if alarm.score > threshold:
            by_cause.setdefault((alarm.outcome, alarm.cause), []).append(alarm)
    out = []
    for (outcome, cause), mine in by_cause.items():
        mine.sort(key=lambda alarm: alarm.tick)
        spell = [mine[0]]
        for alarm in (*mine[1:], None):
            if alarm is not None and alarm.tick - spell[-1].tick <= RESOLVE_AFTER:
                spell.append(alarm)
                continue
            out.append(_incident(spell, schema.outcomes[outcome], cause, data, window, len(out)))
            spell = [alarm] if alarm is not None else []
    return sorted(out, key=lambda i: (i.opened_at, i.id))


def _incident(
    spell: Sequence[Alarm], outcome: str, cause: Cause, data: Input, window: WindowSettings, n: int
) -> Incident:
    length: timedelta = window.slice_length
    first, last = (
        utc(data.starts[0]) + (alarm.tick + 1) * length for alarm in (spell[0], spell[-1])
    )
    score = max(alarm.score for alarm in spell)
    finding = Finding(
        Method.EXCESS, outcome, cause, (), score, float(np.exp(-min(score, 700))), 1.0,
        0.0, 0.0, 0, WINDOW, first, 0.0, 0.0,
    )  # fmt: skip
    return Incident(f"peer-{n:06}", State.RESOLVED, first, last, last, finding, finding, last)
