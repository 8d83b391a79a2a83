"""Who sells what through whom: the fixed part of the booking world.

A booking begins at an agent office, which lies in a region. The region decides which
airlines are popular there; the airline decides the cities it flies and the fare sources it
sells through. Given the airline, cities and fare source are independent, so the share of
traffic of any selector is a short product (`World.share`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from string import ascii_uppercase

import numpy as np

STEPS = ("query_seat", "query_price", "reserve", "pay")
ATTRIBUTES = ("agent_office", "departure_city", "arrival_city", "airline", "fare_source")
OFFICE, DEPARTURE, ARRIVAL, AIRLINE, SOURCE = range(5)

BASE_RATES = (0.011, 0.006, 0.009, 0.004)
"""Failure probability of each step for an average booking."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many values each attribute has; the defaults give some 760 one-hot nodes."""

    airlines: int = 60
    fare_sources: int = 30
    cities: int = 150
    offices: int = 250
    codes: int = 120
    regions: int = 6

    def __post_init__(self) -> None:
        least = {"airlines": 2, "fare_sources": 4, "cities": 12, "offices": 2, "codes": 8}
        for field in fields(self):
            value, bound = getattr(self, field.name), least.get(field.name, 1)
            if value < bound:
                raise ValueError(f"{field.name} = {value}: the world needs at least {bound}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Draws a value given a group by inverting one long cumulative table."""

    probability: np.ndarray  # (groups, values), rows sum to 1
    cumulative: np.ndarray  # (groups * values,), group index + cumulative probability

    @staticmethod
    def of(weights: np.ndarray) -> Choice:
        """From non-negative weights, (groups, values); a row without weight is an error."""
        total = weights.sum(axis=1, keepdims=True)
        assert (total > 0).all(), "a group without any value"
        probability = weights / total
        within = probability.cumsum(axis=1)
        within /= within[:, -1:]
        return Choice(probability, (within + np.arange(len(weights))[:, None]).ravel())

    def draw(self, group: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Values for `group`, (n,) int, from uniform numbers in [0, 1), (n,)."""
        values = self.probability.shape[1]
        found: np.ndarray = np.searchsorted(self.cumulative, group + uniform, side="right")
        # group + uniform may round up to the next group; the last value then is the right one.
        return np.asarray(np.minimum(found - group * values, values - 1))


@dataclass(frozen=True, slots=True)
class Structure:
    """The fixed tables of a world, drawn once from its seed."""

    sizes: Sizes
    names: tuple[tuple[str, ...], ...]
    """Per attribute of `ATTRIBUTES`, the texts of its values."""
    codes: tuple[str, ...]
    offices: np.ndarray  # (offices,) probability of each office
    airline_of_office: Choice  # (offices, airlines)
    departure_of_airline: Choice  # (airlines, cities)
    arrival_of_airline: Choice  # (airlines, cities), before departure = arrival is redrawn
    source_of_airline: Choice  # (airlines, fare sources); most are 0
    code_of_failure: Choice  # (steps * fare sources, codes)
    rate_multiplier: tuple[np.ndarray, ...]  # per attribute (steps, values), mean near 1
    office_airline: np.ndarray  # (offices, airlines) joint probability
    arrival: np.ndarray  # (airlines, cities) arrival given airline, departure ≠ arrival


def _zipf(values: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    """Popularities that fall like 1 / rank^exponent, in random order, summing to 1."""
    weights = 1.0 / np.arange(1, values + 1) ** exponent
    return rng.permutation(weights / weights.sum())


def _words(count: int, letters: int, rng: np.random.Generator) -> list[str]:
    """`count` distinct upper-case words of at least `letters` letters."""
    while 26**letters < 2 * count:
        letters += 1
    picked = rng.choice(26**letters, size=count, replace=False)
    if letters <= 2:
        alphabet = ["".join(word) for word in product(ascii_uppercase, repeat=letters)]
        return [alphabet[i] for i in picked]
    return ["".join(ascii_uppercase[i // 26**k % 26] for k in range(letters)) for i in picked]


def _networks(
    sizes: Sizes, home: np.ndarray, city_region: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Weights (airlines, cities): each airline flies 8-60 % of the cities, mostly near home."""
    popularity = _zipf(sizes.cities, 0.8, rng)
    weights = popularity * np.where(home[:, None] == city_region, 6.0, 1.0)
    share = rng.uniform(0.08, 0.6, sizes.airlines)
    for airline in range(sizes.airlines):
        flown = max(8, round(share[airline] * sizes.cities))
        order = np.argsort(-weights[airline] * rng.exponential(size=sizes.cities))
        weights[airline, order[flown:]] = 0.0
    return weights


def _sources(sizes: Sizes, rng: np.random.Generator) -> np.ndarray:
    """Weights (airlines, fare sources): each airline sells through 2-8 of them."""
    popularity = _zipf(sizes.fare_sources, 0.7, rng)
    weights = np.zeros((sizes.airlines, sizes.fare_sources))
    for airline in range(sizes.airlines):
        count = min(sizes.fare_sources, int(rng.integers(2, 9)))
        chosen = rng.choice(sizes.fare_sources, count, replace=False, p=popularity)
        weights[airline, chosen] = rng.dirichlet(np.full(count, 2.0))
    return weights


def _codes_of_failures(sizes: Sizes, rng: np.random.Generator) -> np.ndarray:
    """Weights (steps * fare sources, codes): a step has its codes, a source its favourites."""
    step_of_code = np.arange(sizes.codes) % len(STEPS)
    weights = np.zeros((len(STEPS), sizes.fare_sources, sizes.codes))
    for step in range(len(STEPS)):
        own = np.flatnonzero(step_of_code == step)
        usual = _zipf(len(own), 1.1, rng)
        weights[step][:, own] = usual * rng.gamma(0.7, size=(sizes.fare_sources, len(own)))
    return weights.reshape(-1, sizes.codes) + 1e-12 * (weights.reshape(-1, sizes.codes) > 0)


def _multipliers(values: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Lasting differences between values: (steps, values), log-normal with mean 1."""
    return np.exp(spread * rng.standard_normal((len(STEPS), values)) - spread**2 / 2)


def build(sizes: Sizes, seed: int) -> Structure:
    """Draw the structure of a world; equal arguments give an equal structure."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, 0)))
    city_region = rng.integers(sizes.regions, size=sizes.cities)
    home = rng.integers(sizes.regions, size=sizes.airlines)
    office_region = rng.integers(sizes.regions, size=sizes.offices)

    cities = _words(sizes.cities, 3, rng)
    tails = _words(sizes.offices, 2, rng)
    offices = tuple(
        f"{cities[rng.integers(sizes.cities)]}{tail}{rng.integers(100, 1000)}" for tail in tails
    )
    codes = tuple(f"P-{1001 + i % len(STEPS)}-{i // len(STEPS):02d}" for i in range(sizes.codes))
    sources = tuple(f"FS{i + 1:02d}" for i in range(sizes.fare_sources))
    names = (offices, tuple(cities), tuple(cities), tuple(_words(sizes.airlines, 2, rng)), sources)

    airline_popularity = _zipf(sizes.airlines, 0.9, rng)
    local = airline_popularity * np.where(office_region[:, None] == home, 5.0, 1.0)
    office_share = _zipf(sizes.offices, 0.9, rng)
    airline_of_office = Choice.of(local)
    departure = Choice.of(_networks(sizes, home, city_region, rng))
    arrival = Choice.of(_networks(sizes, home, city_region, rng))

    d, r = departure.probability, arrival.probability
    # Arrivals equal to the departure are drawn again: P(j) = Σ_{i≠j} d_i r_j / (1 − r_i).
    ratio = d / (1.0 - np.minimum(r, 1 - 1e-9))
    effective = r * (ratio.sum(axis=1, keepdims=True) - ratio)

    spreads = {OFFICE: 0.3, DEPARTURE: 0.25, ARRIVAL: 0.25, AIRLINE: 0.5, SOURCE: 0.4}
    return Structure(
        sizes=sizes,
        names=names,
        codes=codes,
        offices=office_share,
        airline_of_office=airline_of_office,
        departure_of_airline=departure,
        arrival_of_airline=arrival,
        source_of_airline=Choice.of(_sources(sizes, rng)),
        code_of_failure=Choice.of(_codes_of_failures(sizes, rng)),
        rate_multiplier=tuple(
            _multipliers(len(names[a]), spreads[a], rng) for a in range(len(ATTRIBUTES))
        ),
        office_airline=office_share[:, None] * airline_of_office.probability,
        arrival=effective / effective.sum(axis=1, keepdims=True),
    )
