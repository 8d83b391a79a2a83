"""What goes wrong in the booking world, and what only looks as if.

The kinds follow the anomalies that the LEAST paper lists from production (its table of
identified anomalies), plus single fare sources, whole-platform trouble, and deployments
that hit everything thinly. Effects are spread on purpose from clear to hopeless; every
planned incident says how many more failures it causes than usual, so that a test can ask
only for those that anyone could see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from monitor.domain import Cause

if TYPE_CHECKING:
    from monitor.simulation.world import World

DETECTABLE_NATS = 25.0
"""Log-likelihood ratio from which an incident counts as detectable.

A search over some thousand cells, five horizons and four outcomes costs 10-16 nats, and a
threshold against false alarms some six more.
"""

_OVER_DISPERSION = 0.18
_HORIZONS = (1, 2, 4, 12, 48)  # in slices
_SLICE = timedelta(minutes=30)
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Promotion:
    """More traffic with one value of one attribute, failing as usual: not an incident."""

    id: str
    start: datetime
    end: datetime
    cause: Cause
    factor: float
    """Traffic during the promotion over traffic without it, > 1."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One incident and what a good diagnosis of it would say."""

    id: str
    kind: str
    start: datetime
    end: datetime
    outcome: str
    strikes: Cause
    """Rows of this selector fail at `outcome` …"""
    strength: float
    """… with this probability, beyond what they did anyway."""
    accept: tuple[Cause, ...]
    """Right answers."""
    partly: tuple[Cause, ...] = ()
    """Answers that point at a part of it."""
    codes: tuple[str, ...] = ()
    """Error codes that show it; without them its failures carry the usual ones."""
    code_share: float = 0.0
    """Share of its failures that carry one of `codes`."""
    event: str = ""
    """What happened, for people."""
    expected_excess: float = 0.0
    """Failures beyond the usual over its whole duration."""
    expected_usual: float = 0.0
    """Failures that the same rows would have had without it."""
    nats: float = 0.0
    """Log-likelihood ratio of the expected excess at the best horizon, before any penalty."""

    @property
    def detectable(self) -> bool:
        """Whether a sound detector should find it."""
        return self.nats >= DETECTABLE_NATS

    def label(self) -> dict[str, object]:
        """One line of a labels file; `end` is exclusive."""
        return {
            "id": self.id,
            "dataset": "simulated",
            "kind": self.kind,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "outcome": self.outcome,
            "accept": [cause.to_json() for cause in self.accept],
            "partly": [cause.to_json() for cause in self.partly],
            "event": self.event,
            "strength": round(self.strength, 4),
            "codes": list(self.codes),
            "expected_excess": round(self.expected_excess, 1),
            "expected_usual": round(self.expected_usual, 1),
            "nats": round(self.nats, 1),
            "detectable": self.detectable,
        }


@dataclass(frozen=True, slots=True)
class _Draft:
    """An incident before its time and strength are known."""

    kind: str
    outcome: str
    strikes: Cause
    accept: tuple[Cause, ...]
    partly: tuple[Cause, ...]
    event: str
    codes: tuple[str, ...] = ()
    code_share: float = 0.0
    hours: tuple[float, float] = (1.5, 8.0)
    telling: float = 1.0
    """Share of the usual failures among which this incident's must stand out."""
    ratios: tuple[float, float] | None = None
    """Range of the effect over the usual failures, where counts would say nothing."""


def plan_incidents(
    world: World,
    start: datetime,
    days: float,
    count: int,
    seed: int,
    *,
    quiet_days: float = 0.0,
    effects: tuple[float, float] = (8.0, 400.0),
    kinds: Sequence[str] | None = None,
) -> tuple[Planned, ...]:
    """Incidents of every kind in turn, spread over the time after the quiet beginning.

    Args:
        world: where they happen; its structure decides which selectors have traffic.
        start: of the simulated period, aware.
        days: its length.
        count: how many incidents.
        seed: of the plan; the world's own seed stays out of it.
        quiet_days: nothing happens in these first days, so that a baseline can be learned.
        effects: range, log-uniform, of the failures beyond the usual in the first two hours;
            trouble of the whole platform has ranges of its own, relative to the usual.
        kinds: some of `ALL_KINDS`, taken in turn; by default `KINDS`, in random order.

    Returns:
        `count` incidents by time of start. No two of the same outcome touch the same value
        at the same time.
    """
    rng = np.random.default_rng(np.random.SeedSequence((seed, 20)))
    room = (days - quiet_days) * 24
    if count and room < 2:
        raise ValueError(f"{room:.1f} hours after the quiet days hold no incident; need 2")
    order = kinds or rng.permutation(KINDS).tolist()
    planned: list[Planned] = []
    for i in range(count):
        # One incident per stretch of equal length: spread out, yet neighbours may overlap.
        stretch = room / count
        begin_hours = quiet_days * 24 + stretch * (i + 0.5 * rng.random())
        begin = start + timedelta(minutes=round(begin_hours * 60))
        size = float(rng.random())
        for attempt in range(_ATTEMPTS):
            draft = _KINDS[order[i % len(order)]](world, rng)
            hours = min(rng.uniform(*draft.hours), days * 24 - begin_hours)
            end = begin + timedelta(minutes=round(hours * 60))
            name = f"incident-{seed}-{i + 1:02d}"
            # Rarely does a large effect find no traffic to hit; then it shrinks a little.
            smaller = size * (1 - attempt / _ATTEMPTS)
            found = _settle(world, draft, name, begin, end, smaller, effects)
            if found and not any(_collide(found, other) for other in planned):
                planned.append(found)
                break
        else:
            raise ValueError(
                f"no {order[i % len(order)]} of that size fits into a world of "
                f"{world.rows_per_day:.0f} rows a day; ask for more rows or fewer incidents"
            )
    return tuple(planned)


def plan_promotions(
    world: World, start: datetime, days: float, count: int, seed: int
) -> tuple[Promotion, ...]:
    """Traffic promotions (× 2-5 for 3-12 hours) of an airline, a city or an agent office."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, 21)))
    promotions = []
    for i in range(count):
        attribute = ("airline", "departure_city", "arrival_city", "agent_office")[rng.integers(4)]
        cause = _with_traffic(world, rng, attribute, least=0.002, most=0.06)
        begin = start + timedelta(hours=days * 24 * (i + 0.7 * rng.random()) / count)
        end = min(begin + timedelta(hours=rng.uniform(3, 12)), start + timedelta(days=days))
        factor = float(rng.uniform(2, 5))
        promotions.append(Promotion(f"promotion-{seed}-{i + 1:02d}", begin, end, cause, factor))
    return tuple(promotions)


def evidence(observed: float, expected: float) -> float:
    """Negative-binomial log-likelihood ratio of `observed` failures against `expected`, in nats.

    The over-dispersion is the one built into the world (`monitor.simulation.drift`).

    >>> round(evidence(40, 10), 1)
    16.4
    >>> evidence(9, 10)
    0.0
    """
    if observed <= expected:
        return 0.0
    k = _OVER_DISPERSION**-2
    return observed * math.log(observed / expected) - (observed + k) * math.log(
        (observed + k) / (expected + k)
    )


def _slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, float]]:
    """The slices that a period touches, with the share of each that it covers."""
    at = start - (start - start.replace(hour=0, minute=0, second=0, microsecond=0)) % _SLICE
    while at < end:
        yield at, (min(end, at + _SLICE) - max(start, at)) / _SLICE
        at += _SLICE


def _settle(
    world: World,
    draft: _Draft,
    name: str,
    start: datetime,
    end: datetime,
    size: float,
    effects: tuple[float, float],
) -> Planned | None:
    """Give a draft its strength: `size` in [0, 1] places it in the range of effects.

    Returns None where even failing nearly every row would not reach that effect.
    """
    covered = list(_slices(start, end))
    part = np.array([share for _, share in covered])
    rows = part * [world.expected_rows(at, draft.strikes) for at, _ in covered]
    usual = np.array(
        [world.expected_failures(at, draft.strikes, draft.outcome) for at, _ in covered]
    )
    beginning = np.array([at < start + timedelta(hours=2) for at, _ in covered])
    low, high = effects
    if draft.ratios:
        low, high = np.array(draft.ratios) * draft.telling * usual[beginning].sum()
    strength = float(low ** (1 - size) * high**size / max(rows[beginning].sum(), 1e-9))
    if strength > 0.95:
        return None
    excess = rows * strength
    nats = 0.0
    for horizon in _HORIZONS:
        hit = np.convolve(excess, np.ones(horizon)).max()
        expected = draft.telling * usual.mean() * horizon
        nats = max(nats, evidence(float(hit + expected), float(expected)))
    return Planned(
        id=name,
        kind=draft.kind,
        start=start,
        end=end,
        outcome=draft.outcome,
        strikes=draft.strikes,
        strength=strength,
        accept=draft.accept,
        partly=draft.partly,
        codes=draft.codes,
        code_share=draft.code_share,
        event=draft.event,
        expected_excess=float(excess.sum()),
        expected_usual=float(usual @ part),
        nats=nats,
    )


def _collide(one: Planned, other: Planned) -> bool:
    """Whether two incidents would be indistinguishable: same time, outcome and a shared value."""
    pause = timedelta(hours=2)
    apart = one.end + pause <= other.start or other.end + pause <= one.start
    if apart or one.outcome != other.outcome:
        return False
    mine, theirs = one.strikes.to_json(), other.strikes.to_json()
    if not mine or not theirs:
        return True
    return any(set(mine[a]) & set(theirs[a]) for a in mine.keys() & theirs.keys())


# -- the kinds ---------------------------------------------------------------------------


def _with_traffic(
    world: World, rng: np.random.Generator, attribute: str, least: float, most: float = 1.0
) -> Cause:
    """A value of an attribute whose share of the traffic lies between two bounds."""
    shares = world.shares(attribute)
    fitting = np.flatnonzero((shares >= least) & (shares <= most))
    # A small world may have none of that size: the nearest then has to do.
    pick = (
        int(rng.choice(fitting))
        if len(fitting)
        else int(np.abs(np.log(shares + 1e-12) - math.log(least)).argmin())
    )
    return Cause.of(**{attribute: world.texts(attribute)[pick]})


def _partner(world: World, rng: np.random.Generator, cause: Cause, attribute: str) -> Cause:
    """A value that occurs together with `cause`, the more often the likelier."""
    texts = world.texts(attribute)
    shares = np.array([world.share(_and(cause, Cause.of(**{attribute: t}))) for t in texts])
    return Cause.of(**{attribute: str(rng.choice(texts, p=shares / shares.sum()))})


def _and(*causes: Cause) -> Cause:
    return Cause.from_json({k: v for cause in causes for k, v in cause.to_json().items()})


def _airline_maintenance(world: World, rng: np.random.Generator) -> _Draft:
    """Table of anomalies, 2019-11-19: Step 3 ← fare sources 3, 9, 16 ← airline AC."""
    airline = _with_traffic(world, rng, "airline", 0.005, 0.15)
    shares = np.array(
        [
            world.share(_and(airline, Cause.of(fare_source=text)))
            for text in world.texts("fare_source")
        ]
    )
    used = np.argsort(-shares)[: max(2, min(3, int((shares > 0).sum())))]
    sources = [world.texts("fare_source")[i] for i in used]
    strikes = _and(airline, Cause.of(fare_source=sources))
    return _Draft(
        "airline_maintenance",
        "reserve",
        strikes,
        (airline, strikes),
        tuple(_and(airline, Cause.of(fare_source=s)) for s in sources),
        f"Booking system of {airline} under maintenance; sold through {', '.join(sources)}",
        hours=(2.0, 8.0),
    )


def _airline_at_office(world: World, rng: np.random.Generator) -> _Draft:
    """2019-12-05: Step 3 ← airline SL ← agent office BKKOK275Q."""
    airline = _with_traffic(world, rng, "airline", 0.02)
    office = _partner(world, rng, airline, "agent_office")
    both = _and(airline, office)
    event = f"Inaccurate data of {airline} at {office}"
    return _Draft("airline_at_office", "reserve", both, (both,), (airline, office), event)


def _deployment(world: World, rng: np.random.Generator) -> _Draft:
    """2019-12-09: Step 3 ← error code P-1005-16-001:-41203, through one fare source."""
    source = _with_traffic(world, rng, "fare_source", 0.01)
    step = int(rng.integers(1, 4))
    code = f"P-{1001 + step}-16-001:-{rng.integers(40_000, 50_000)}"
    coded = Cause.of(error_code=code)
    return _Draft(
        "deployment",
        ("query_seat", "query_price", "reserve", "pay")[step],
        source,
        (source, coded, _and(source, coded)),
        (),
        f"New release breaks {source}",
        (code,),
        0.9,
    )


def _deployment_everywhere(world: World, rng: np.random.Generator) -> _Draft:
    """A release that fails a small share of all bookings, with an error code known before."""
    step = int(rng.integers(2, 4))
    code, share = world.rare_code(step, rng)
    coded = Cause.of(error_code=code)
    event = f"New release fails a share of all bookings with {coded}"
    outcome = ("query_seat", "query_price", "reserve", "pay")[step]
    return _Draft(
        "deployment_everywhere",
        outcome,
        Cause(),
        (coded, Cause()),
        (),
        event,
        (code,),
        1.0,
        telling=share,
        ratios=(2.0, 60.0),
    )


def _arrival_lockdown(world: World, rng: np.random.Generator) -> _Draft:
    """2020-01-23: Step 1 ← arrival city WUH."""
    city = _with_traffic(world, rng, "arrival_city", 0.002, 0.05)
    event = f"Lock-down of {city}: flights cancelled, no seats found"
    return _Draft("arrival_lockdown", "query_seat", city, (city,), (), event, hours=(8.0, 30.0))


def _departure_airline(world: World, rng: np.random.Generator) -> _Draft:
    """2020-02-24: Step 1 ← departure city SEL, Step 1 ← airline MU."""
    airline = _with_traffic(world, rng, "airline", 0.02)
    city = _partner(world, rng, airline, "departure_city")
    both = _and(airline, city)
    event = f"{airline} cancels its flights out of {city}"
    return _Draft(
        "departure_airline", "query_seat", both, (both,), (airline, city), event, hours=(4.0, 16.0)
    )


def _fare_source_outage(world: World, rng: np.random.Generator) -> _Draft:
    """One fare source answers no price queries."""
    source = _with_traffic(world, rng, "fare_source", 0.004)
    event = f"{source} times out"
    return _Draft("fare_source_outage", "query_price", source, (source,), (), event)


def _three_way(world: World, rng: np.random.Generator) -> _Draft:
    """One airline, at one office, through one fare source: nothing else fails."""
    airline = _with_traffic(world, rng, "airline", 0.05)
    office = _partner(world, rng, airline, "agent_office")
    both = _and(airline, office)
    all_three = _and(both, _partner(world, rng, both, "fare_source"))
    event = f"Wrong contract of {all_three}"
    parts = tuple(
        Cause.from_json({k: v for k, v in all_three.to_json().items() if k != left})
        for left in all_three.to_json()
    )
    return _Draft("three_way", "reserve", all_three, (all_three,), parts, event)


def _platform(world: World, rng: np.random.Generator) -> _Draft:
    """Payment fails for everybody: the right answer is "everything"."""
    event = "The payment provider fails a share of all payments"
    return _Draft(
        "platform", "pay", Cause(), (Cause(),), (), event, hours=(1.0, 4.0), ratios=(0.5, 8.0)
    )


_KINDS: dict[str, Callable[[World, np.random.Generator], _Draft]] = {
    "airline_maintenance": _airline_maintenance,
    "airline_at_office": _airline_at_office,
    "deployment": _deployment,
    "deployment_everywhere": _deployment_everywhere,
    "arrival_lockdown": _arrival_lockdown,
    "departure_airline": _departure_airline,
    "fare_source_outage": _fare_source_outage,
    "platform": _platform,
    "three_way": _three_way,
}
KINDS = tuple(kind for kind in _KINDS if kind != "three_way")
"""What happens unless it is said otherwise."""
ALL_KINDS = tuple(_KINDS)
