"""What a log is made of: fields, traffic, true failure rates and error codes."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

SLICES = 48
"""Slices of a day."""
WEEK = 7 * SLICES
ROOM = 64
"""Values that may join a field after its rates were drawn (releases)."""
LOG_RATE_LIMIT = np.log(0.6)

Columns = dict[str, np.ndarray]
"""Field → (n,) int32 codes; -1 is missing."""
Where = Mapping[str, tuple[int, ...]]
"""A selector in codes: every named field has one of the listed values; empty is every row."""


@dataclass
class Field:
    """A categorical column."""

    name: str
    values: list[str]
    tier: int = 0
    step: int = -1
    """Written when the outcome of this number is attempted; -1 is always."""

    def add(self, text: str) -> int:
        """The code of a new value."""
        self.values.append(text)
        return len(self.values) - 1


class Choice:
    """Draws a value given a parent's value.

    Args:
        shares: (parents, children), not negative; rows need not add up to one.
    """

    def __init__(self, shares: np.ndarray) -> None:
        shares = np.atleast_2d(shares)
        self.shares = shares / shares.sum(axis=1, keepdims=True)
        self._children = shares.shape[1]
        bounds = np.cumsum(self.shares, axis=1)
        bounds[:, -1] = 1.0
        self._bounds = (bounds + np.arange(len(shares))[:, None]).ravel()

    def draw(self, rng: np.random.Generator, parents: np.ndarray) -> np.ndarray:
        """One child for each parent."""
        at = np.searchsorted(self._bounds, parents + rng.random(len(parents)), side="right")
        return (at - parents * self._children).clip(0, self._children - 1).astype(np.int32)


def zipf(count: int, exponent: float) -> np.ndarray:
    """Popularity that falls with rank; adds up to one."""
    weights = 1.0 / np.arange(1, count + 1) ** exponent
    return weights / weights.sum()


def tilted(
    rng: np.random.Generator, parents: int, popularity: np.ndarray, spread: float, kept: float = 1.0
) -> Choice:
    """Children's popularity, bent for each parent.

    Args:
        rng: of the table.
        parents: rows.
        popularity: (children,) of the whole.
        spread: standard deviation of the log of what is bent.
        kept: share of the children that a parent has at all; at least one.
    """
    shares = popularity * np.exp(spread * rng.normal(size=(parents, len(popularity))))
    if kept < 1:
        there = rng.random(shares.shape) < kept
        there[np.arange(parents), rng.choice(len(popularity), parents, p=popularity)] = True
        shares = np.where(there, shares, 0)
    return Choice(shares)


@dataclass
class Codes:
    """Error codes of failures, depending on one field and on the outcome."""

    of: str
    """The field a system's own codes go with."""
    texts: list[str]
    outcomes: tuple[int, ...]
    """Which outcomes write one."""
    shares: list[np.ndarray]
    """Per outcome: (values of the field, codes)."""
    choices: list[Choice] = field(init=False)

    def __post_init__(self) -> None:
        self.choices = [Choice(s) for s in self.shares]

    def share(self, outcome: int, code: int, columns: Columns) -> np.ndarray:
        """How often a usual failure of each row carries this code."""
        table = self.choices[outcome].shares
        if code >= table.shape[1]:
            return np.zeros(len(columns[self.of]))
        return table[columns[self.of], code]


def codes(
    rng: np.random.Generator, of: Field, outcomes: Sequence[str], general: int, own: int
) -> Codes:
    """A few codes that every system writes at a step, and some of each system's own."""
    texts: list[str] = []
    owners: list[tuple[int, int]] = []  # outcome, value; value -1 is everybody's
    for o, outcome in enumerate(outcomes):
        stem = "".join(word[0] for word in outcome.split("_")).upper()
        numbers = rng.choice(np.arange(1000, 9999), general + own * len(of.values), replace=False)
        for n, number in enumerate(numbers):
            value = -1 if n < general else (n - general) // own
            place = "00" if value < 0 else f"{value + 1:02d}"
            texts.append(f"{stem}-{place}-{number}")
            owners.append((o, value))
    owned = np.array(owners)
    shares = []
    for o in range(len(outcomes)):
        mine = (owned[:, 0] == o) & (
            (owned[:, 1] == -1) | (owned[:, 1] == np.arange(len(of.values))[:, None])
        )
        shares.append(np.where(mine, rng.gamma(0.8, size=mine.shape) + 0.02, 0))
    return Codes(of.name, texts, tuple(range(len(outcomes))), shares)


class Rates:
    """True failure probabilities: heavy-tailed multipliers that wander.

    Args:
        domain: fields and outcomes.
        rng: of the multipliers.
        drift: times the usual wandering.
    """

    def __init__(self, domain: Domain, rng: np.random.Generator, drift: float) -> None:
        self._domain = domain
        self._base = np.log(np.array(domain.base))
        names = [f.name for f in domain.fields]
        self._level, self._spread, self._keep, self._at = {}, {}, {}, {}
        outcomes = len(domain.outcomes)
        for f in domain.fields:
            size = len(f.values) + ROOM + 1  # the last is missing
            level = domain.contrast * rng.standard_t(4, (outcomes, size)) / np.sqrt(2)
            level[:, len(f.values) :] = 0
            self._level[f.name] = level.clip(-1.2, 1.6)
            # Most values are calm, a few are restless: the spread itself is heavy-tailed.
            spread = 0.05 * np.exp(0.7 * rng.normal(size=level.shape))
            self._spread[f.name] = drift * spread.clip(0.01, 0.35)
            hours = np.exp(rng.uniform(np.log(3), np.log(96), level.shape))
            self._keep[f.name] = np.exp(-0.5 / hours)
            self._at[f.name] = self._spread[f.name] * rng.normal(size=level.shape)
        self._whole = 0.08 * drift
        self._whole_at = np.zeros(outcomes)
        self._pairs = {
            (a, b): 0.2 * rng.normal(size=(outcomes, self._room(a), self._room(b)))
            for a, b in domain.interactions
        }
        self._phase = rng.uniform(0, 2 * np.pi, outcomes)
        assert set(names) >= {n for pair in domain.interactions for n in pair}

    def _room(self, name: str) -> int:
        return self._level[name].shape[1]

    def advance(self, rng: np.random.Generator) -> None:
        """Half an hour later."""
        for name, at in self._at.items():
            keep = self._keep[name]
            push = rng.standard_t(4, at.shape).clip(-6, 6) / np.sqrt(2)
            at *= keep
            at += self._spread[name] * np.sqrt(1 - keep**2) * push
        keep = np.exp(-0.5 / 48)
        push = rng.normal(size=self._whole_at.shape)
        self._whole_at = keep * self._whole_at + self._whole * np.sqrt(1 - keep**2) * push

    def of(self, outcome: int, columns: Columns, slice_: int) -> np.ndarray:
        """(n,) probabilities to fail at this outcome, once it is attempted."""
        day = 2 * np.pi * (slice_ % SLICES) / SLICES
        weekend = 0.08 if slice_ % WEEK >= 5 * SLICES else 0.0
        start = self._base[outcome] + self._whole_at[outcome]
        start += 0.15 * np.sin(day + self._phase[outcome]) + weekend
        log = np.full(len(next(iter(columns.values()))), start)
        for f in self._domain.fields:
            if f.step <= outcome:
                table = self._level[f.name][outcome] + self._at[f.name][outcome]
                log += table[columns[f.name]]
        for (a, b), table in self._pairs.items():
            log += table[outcome][columns[a], columns[b]]
        return np.exp(np.minimum(log, LOG_RATE_LIMIT))


class Domain(ABC):
    """A log: who writes what, how often, and what can go wrong.

    Args:
        seed: of everything that is fixed in it.
        rows_per_day: on a weekday at the start.
    """

    name: str
    tiers: tuple[str, ...]
    outcomes: tuple[str, ...]
    base: tuple[float, ...]
    """Failure rate of each outcome before all multipliers."""
    sequential = True
    """Outcomes are steps: who fails at one does not attempt the next."""
    stays: tuple[float, ...] = ()
    """Share of those who passed the step before that attempt this one; all when left out."""
    contrast = 0.35
    """How much values differ in their rates."""
    growth = 0.003
    """Of the traffic, a day."""
    interactions: tuple[tuple[str, str], ...] = ()
    """Pairs of fields with rates of their own."""
    pairs: tuple[tuple[str, ...], ...]
    """Fields in which an incident of two values is plausible."""
    triples: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[str, str], ...]
    """A value of the first may fail at several values of the second."""
    groups: tuple[str, ...]
    """Fields of which several values may fail together."""
    releases: tuple[tuple[str, str], ...] = ()
    """(application, version): a new version of a value of the first appears in the second."""
    blanks: tuple[str, ...] = ()
    """Fields that a failing system may leave empty."""
    code: Codes | None = None
    code_column = "error_code"

    def __init__(self, seed: int, rows_per_day: float) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.rows_per_day = rows_per_day
        self.fields: list[Field] = []
        self.build(self.rng)
        self.by_name = {f.name: f for f in self.fields}

    @abstractmethod
    def build(self, rng: np.random.Generator) -> None:
        """Fill `fields` and whatever `draw` needs."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, slice_: int, count: int) -> Columns:
        """Values of so many rows of a slice, as if every step were attempted."""

    @abstractmethod
    def written(
        self, rng: np.random.Generator, attempted: np.ndarray, failed: np.ndarray
    ) -> dict[str, object]:
        """Columns that tell the outcomes, from (n, outcomes) booleans; arrays or lists."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """`when` of each outcome."""

    def volume(self, slice_: int) -> float:
        """Rows expected in a slice, counted from a Monday's midnight."""
        hour = (slice_ % SLICES) / 2
        weekday = slice_ // SLICES % 7
        shape = (
            0.25 + np.exp(-(((hour - 10.5) / 3.2) ** 2)) + 0.9 * np.exp(-(((hour - 20) / 2.6) ** 2))
        )
        week = (1.0, 0.98, 0.97, 1.0, 1.08, 0.86, 0.80)[weekday]
        return float(
            self.rows_per_day
            / SLICES
            * shape
            / 0.66
            * week
            * (1 + self.growth) ** (slice_ / SLICES)
        )

    def period(self, slice_: int) -> int:
        """Which mix of traffic: six periods of the day, on weekdays and at the weekend."""
        return slice_ % SLICES // 8 + 6 * int(slice_ % WEEK >= 5 * SLICES)

    def config(self, without: Collection[str] = ()) -> str:
        """The detector's configuration of this log.

        Args:
            without: fields that it does not name, though the log has them.
        """
        lines = ["[source]", 'kind = "files"', 'paths = ["*.parquet"]', "", "[schema]"]
        lines += ['time = "time"', 'zone = "UTC"']
        if self.tiers:
            lines.append(f"tiers = {json.dumps(self.tiers)}")
        lines.append("attributes = [")
        for f in self.fields:
            if f.name in without:
                continue
            tier = f', tier = "{self.tiers[f.tier]}"' if self.tiers else ""
            lines.append(f'  {{ name = "{f.name}"{tier} }},')
        lines.append("]")
        if self.code is not None:
            lines.append(f'error_code = "{self.code_column}"')
        lines.append("outcomes = [")
        for name, when in zip(self.outcomes, self.conditions, strict=True):
            lines.append(f"  {{ name = \"{name}\", when = '{when}' }},")
        return "\n".join([*lines, "]", ""])
