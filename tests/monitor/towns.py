"""A small town of bookings whose truth is known: what the stations' tests are told about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.attribution import (
    Attribution,
    CodeModel,
    Scatter,
    Selector,
    Settled,
    attribute,
)
from monitor.bar import KINDS
from monitor.domain import (
    MISSING,
    Attribute,
    DetectionSettings,
    Events,
    IncidentSettings,
    LearnerSettings,
    Schema,
    Settings,
    WindowSettings,
)
from monitor.encoding import Coded, Nodes
from monitor.slices import Slice, aggregate
from monitor.vocabulary import MISSING_TEXT, Vocabulary
from monitor.window import QUANTUM, Horizons

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
STEP = np.timedelta64(HALF_HOUR)
OUTCOMES = ("seat", "pay")
VALUES = {
    "office": ["BKK", "SEL", "FRA", "JFK", "LHR", "GIG"],
    "airline": ["AC", "MU", "LH", "KE", "BA"],
    "fare": ["F1", "F2", "F3", "F4", "F5", "F6", "F7"],
    "code": ["E-NONE", "E-TIMEOUT", "E-SCHEMA"],
}
SCHEMA = Schema(
    tuple(Attribute(name, tier, name == "code") for tier, name in enumerate(VALUES)), OUTCOMES
)
WINDOW = WindowSettings()
SETTINGS = Settings(
    SCHEMA,
    WINDOW,
    LearnerSettings(),
    DetectionSettings(history=timedelta(days=7), learning=timedelta(hours=12)),
    IncidentSettings(),
)
BASE = np.array([0.01, 0.03])
SHARES = {
    "office": [0.3, 0.25, 0.2, 0.12, 0.08, 0.05],
    "airline": [0.35, 0.25, 0.2, 0.12, 0.08],
    "fare": [0.25, 0.2, 0.15, 0.13, 0.12, 0.1, 0.05],
}
CODE = list(VALUES).index("code")
F3, AC = VALUES["fare"].index("F3"), VALUES["airline"].index("AC")


@dataclass(frozen=True)
class Outage:
    """From slice `first` to slice `last`, rows of the cause fail with probability `rate`."""

    first: int
    last: int
    rate: float = 0.5
    outcome: str = "pay"
    cause: dict[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass(frozen=True)
class Promotion:
    """Traffic of one value, several times over, and no failure more than usual per row."""

    first: int
    last: int
    cause: dict[str, str]
    factor: int = 4


@dataclass(frozen=True)
class Town:
    """Half hours of bookings, each a function of the seed and its number."""

    outages: tuple[Outage, ...] = ()
    promotions: tuple[Promotion, ...] = ()
    rows: int = 300
    seed: int = 1
    seldom: float = 0.02
    """Chance that a row has no office."""

    def vocabulary(self) -> Vocabulary:
        vocabulary = Vocabulary(SCHEMA)
        for a, values in enumerate(VALUES.values()):
            vocabulary.encode(a, values)
        return vocabulary

    def events(self, number: int) -> Events:
        """The rows of slice `number`, in order of arrival."""
        rng = np.random.default_rng([self.seed, number])
        values = self._traffic(rng, self.rows)
        for promotion in self.promotions:
            if promotion.first <= number <= promotion.last:
                more = self._traffic(rng, self.rows * 12)
                chosen = more[self._matches(more, promotion.cause)]
                usual = self._matches(values, promotion.cause).sum()
                values = np.concatenate([values, chosen[: usual * (promotion.factor - 1)]])
        chance = np.tile(BASE, (len(values), 1))
        for outage in self.outages:
            if outage.first <= number <= outage.last:
                hit = self._matches(values, outage.cause)
                chance[hit, OUTCOMES.index(outage.outcome)] = outage.rate
        failed = rng.random(chance.shape) < chance
        failed[:, 1] &= ~failed[:, 0]  # who got no seat never pays
        codes = np.where(failed.any(axis=1), 1 + (rng.random(len(values)) < 0.3), -1)
        for outage in self.outages:
            if outage.code and outage.first <= number <= outage.last:
                o = OUTCOMES.index(outage.outcome)
                hit = self._matches(values, outage.cause) & failed[:, o]
                codes[hit] = VALUES["code"].index(outage.code) + 1
        values = np.column_stack([values, codes]).astype(np.int32)
        start = np.datetime64(MIDNIGHT.replace(tzinfo=None), "us") + number * STEP
        minute = np.sort(rng.integers(0, 30 * 60 * 1_000_000, len(values)))
        return Events(start + minute.astype("timedelta64[us]"), values, failed)

    def _traffic(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        office = rng.choice(6, rows, p=SHARES["office"])
        airline = rng.choice(5, rows, p=SHARES["airline"])
        fare = rng.choice(7, rows, p=SHARES["fare"])
        # AC sells most of its tickets through F3: so F3 looks guilty whenever AC is
        fare = np.where((airline == AC) & (rng.random(rows) < 0.7), F3, fare)
        traffic = np.column_stack([office, airline, fare]) + 1
        traffic[rng.random(rows) < self.seldom, 0] = -1
        return traffic

    @staticmethod
    def _matches(values: np.ndarray, cause: dict[str, str]) -> np.ndarray:
        hit = np.ones(len(values), bool)
        for name, value in cause.items():
            column = list(VALUES).index(name)
            hit &= values[:, column] == VALUES[name].index(value) + 1
        return hit

    def slice(self, number: int) -> Slice:
        return sliced(self.events(number), number)

    def slices(self, last: int, first: int = 0) -> list[Slice]:
        """Slices `first` … `last` − 1."""
        return [self.slice(number) for number in range(first, last)]


def start_of(number: int) -> np.datetime64:
    return np.datetime64(MIDNIGHT.replace(tzinfo=None), "us") + number * STEP


def sliced(events: Events, number: int) -> Slice:
    """The events as one slice."""
    ones = np.ones(len(events), np.int64)
    return aggregate(start_of(number), events.values, events.failed, ones)


def coded(slices: Iterable[Slice], nodes: Nodes) -> list[Coded]:
    """Slices with the true expectation of every row."""
    fair = np.round(BASE / QUANTUM) * QUANTUM
    out = []
    for piece in slices:
        nodes.observe(piece)
        local = nodes.local(piece.values, piece.start)
        out.append(Coded(piece, local, np.tile(fair, (len(local), 1))))
    return out


BAR = np.full(len(KINDS), 3.0)
"""Nats asked of every kind of cell."""


def judged(
    town: Town,
    slices: int = 48,
    outcome: str = "pay",
    settled: tuple[Settled, ...] = (),
    max_causes: int = 6,
    codes: CodeModel | None = None,
) -> tuple[Attribution, Nodes]:
    """The causes that attribution names in a town whose baseline is known exactly."""
    nodes = Nodes(len(SCHEMA.attributes), WINDOW, frozenset({CODE}))
    tables = Horizons((0, 1, 2), len(OUTCOMES), SETTINGS.detection.horizons)
    for piece in coded(town.slices(slices), nodes):
        tables.push(piece, nodes.sizes()[:3])
    scatter = Scatter.alike(0.1, len(tables.horizons))
    found = attribute(
        OUTCOMES.index(outcome),
        tables,
        scatter,
        BAR,
        5,
        max_causes,
        settled,
        empty=nodes.empty(),
        codes=codes,
    )
    return found, nodes


def named(selector: Selector, nodes: Nodes) -> dict[str, str]:
    """A selector in words; several values of one attribute are parted by `|`."""
    names = list(VALUES)
    return {
        names[a]: "|".join(_text(names[a], nodes.codes[a][n]) for n in numbers)
        for a, numbers in selector
    }


def _text(name: str, code: int) -> str:
    return MISSING_TEXT if code == MISSING else VALUES[name][code - 1]
