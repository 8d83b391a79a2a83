"""The booking world: any half hour of it, on demand.

Everything is a function of (seed, time): a slice can be generated alone, in any order,
on any machine, and equals the same slice generated in sequence. Incidents and promotions
draw from streams of their own, so adding one leaves all other rows as they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

import numpy as np
import pyarrow as pa

from monitor.domain import Cause, datetime64
from monitor.simulation.drift import SLICES_PER_DAY, Drift
from monitor.simulation.plan import Planned, Promotion
from monitor.simulation.structure import (
    AIRLINE,
    ARRIVAL,
    ATTRIBUTES,
    BASE_RATES,
    DEPARTURE,
    OFFICE,
    SOURCE,
    STEPS,
    Choice,
    Sizes,
    Structure,
    build,
)

SLICE = timedelta(minutes=30)
COLUMNS = ("time", *ATTRIBUTES, "failed_step", "error_code")
_SLICE_US = 1_800_000_000
_SUCCESS = len(STEPS)
_TRAFFIC, _PROMOTION, _INCIDENT = 10, 11, 12  # random streams


@dataclass(frozen=True, slots=True)
class _Rows:
    """Bookings before it is known how they end."""

    at: np.ndarray  # (n,) int64 microseconds since the epoch
    values: tuple[np.ndarray, ...]  # per attribute (n,) value index
    luck: np.ndarray  # (n,) uniform; decides the step that fails
    code_luck: np.ndarray  # (n,) uniform; decides the error code


class World:
    """Booking attempts of an online travel platform.

    Args:
        seed: of everything.
        rows_per_day: expected bookings on a working day without promotions.
        sizes: numbers of airlines, fare sources, cities, offices and codes.
        incidents, promotions: what happens in it; see `monitor.simulation.plan`.
    """

    def __init__(
        self,
        seed: int,
        rows_per_day: float = 400_000,
        sizes: Sizes = Sizes(),  # noqa: B008  (frozen)
        incidents: Iterable[Planned] = (),
        promotions: Iterable[Promotion] = (),
    ) -> None:
        if seed < 0:
            raise ValueError(f"seed = {seed}: must not be negative")
        if not rows_per_day > 0:
            raise ValueError(f"rows_per_day = {rows_per_day}: must be positive")
        self.seed = seed
        self.rows_per_day = rows_per_day
        self.structure: Structure = build(sizes, seed)
        self.drift = Drift(seed, sum(len(n) for n in self.structure.names), len(STEPS))
        self._index = tuple({t: i for i, t in enumerate(n)} for n in self.structure.names)
        airline = self.structure.office_airline.sum(axis=0)
        by_airline = self.structure.office_airline.T
        # Reverse tables: who books, given the one value that a promotion holds fixed.
        self._office_of_airline = Choice.of(by_airline)
        self._offices = Choice.of(self.structure.offices[None, :])
        self._airline_of_departure = Choice.of(
            _never_empty((airline[:, None] * self.structure.departure_of_airline.probability).T)
        )
        self._airline_of_arrival = Choice.of(
            _never_empty((airline[:, None] * self.structure.arrival.copy()).T)
        )
        self._set_events(tuple(incidents), tuple(promotions))

    def _set_events(
        self, incidents: tuple[Planned, ...], promotions: tuple[Promotion, ...]
    ) -> None:
        self.incidents = incidents
        self.promotions = promotions
        new = dict.fromkeys(
            code for i in incidents for code in i.codes if code not in self.structure.codes
        )
        self._codes = (*self.structure.codes, *new)
        self._dictionaries = (*self.structure.names, STEPS, self._codes)

    def having(
        self, incidents: Iterable[Planned] = (), promotions: Iterable[Promotion] = ()
    ) -> World:
        """The same world in which other things happen."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        other._set_events(tuple(incidents), tuple(promotions))
        return other

    # -- what to expect ---------------------------------------------------------------

    def expected_rows(self, start: datetime, cause: Cause = Cause()) -> float:  # noqa: B008
        """Bookings matching `cause` in the slice that begins at `start`, promotions apart."""
        return self._volume(_slice_index(start)) * self.share(cause)

    def share(self, cause: Cause) -> float:
        """Share of the traffic that matches `cause`; an error code in it is disregarded."""
        return self._mass(cause, None)

    def shares(self, attribute: str) -> np.ndarray:
        """Share of the traffic of every value of an attribute, (values,)."""
        s, a = self.structure, ATTRIBUTES.index(attribute)
        if a == OFFICE:
            return s.offices
        airline = s.office_airline.sum(axis=0)
        given_airline = {
            AIRLINE: np.eye(len(airline)),
            DEPARTURE: s.departure_of_airline.probability,
            ARRIVAL: s.arrival,
            SOURCE: s.source_of_airline.probability,
        }
        return np.asarray(airline @ given_airline[a])

    def texts(self, attribute: str) -> tuple[str, ...]:
        """The values of an attribute, in the order of `shares`."""
        return self.structure.names[ATTRIBUTES.index(attribute)]

    def rare_code(self, step: int, rng: np.random.Generator) -> tuple[str, float]:
        """An error code that a step knows but seldom uses, and its share of the step's failures."""
        tables = self.structure.code_of_failure.probability
        by_source = tables.reshape(len(STEPS), -1, len(self.structure.codes))
        usage = self.shares("fare_source") @ by_source[step]
        known = np.flatnonzero(usage)
        seldom = known[np.argsort(usage[known])][: max(1, len(known) // 2)]
        code = int(rng.choice(seldom))
        return self.structure.codes[code], float(usage[code])

    def expected_failures(self, start: datetime, cause: Cause, outcome: str) -> float:
        """Failures at step `outcome` among the rows of `cause` in one slice, incidents apart."""
        step = STEPS.index(outcome)
        return self._volume(_slice_index(start)) * self._mass(cause, step) * BASE_RATES[step]

    def _mass(self, cause: Cause, step: int | None) -> float:
        """Σ over matching rows of probability × lasting rate multipliers of `step`."""
        weight = []
        for attribute, chosen in enumerate(self._chosen(cause)):
            factor = 1.0 if step is None else self.structure.rate_multiplier[attribute][step]
            weight.append(chosen * factor)
        given_airline = (
            (self.structure.departure_of_airline.probability @ weight[DEPARTURE])
            * (self.structure.arrival @ weight[ARRIVAL])
            * (self.structure.source_of_airline.probability @ weight[SOURCE])
            * weight[AIRLINE]
        )
        return float((weight[OFFICE] @ self.structure.office_airline) @ given_airline)

    def _chosen(self, cause: Cause) -> list[np.ndarray]:
        """Per attribute, (values,) bool: which values match the cause."""
        selector = cause.to_json()
        unknown = selector.keys() - {*ATTRIBUTES, "error_code"}
        if unknown:
            raise ValueError(f"no such attribute in this world: {', '.join(sorted(unknown))}")
        chosen = []
        for attribute, name in enumerate(ATTRIBUTES):
            mask = np.full(len(self.structure.names[attribute]), name not in selector)
            for text in selector.get(name, ()):
                mask[self._index[attribute][text]] = True
            chosen.append(mask)
        return chosen

    def _volume(self, index: int) -> float:
        """Expected rows of a slice: day and week rhythm, and the drift of the day."""
        hour = index % SLICES_PER_DAY / 2 + 0.25
        day = index // SLICES_PER_DAY
        shape = 1 + 0.55 * np.cos(2 * np.pi * (hour - 14.5) / 24)
        shape += 0.2 * np.cos(4 * np.pi * (hour - 9.5) / 24)  # before noon and in the evening
        weekend = (0.85, 0.8)[(day + 3) % 7 - 5] if (day + 3) % 7 >= 5 else 1.0
        drift = self.drift.volume(day)[index % SLICES_PER_DAY]
        return float(self.rows_per_day / SLICES_PER_DAY * shape * weekend * drift)

    # -- what happens -----------------------------------------------------------------

    def slice(self, start: datetime) -> pa.Table:
        """The bookings of the half hour from `start` (aware, on a half hour), sorted by time.

        Columns: time (timestamp[us, UTC]), the five attributes, failed_step, error_code;
        texts are dictionary-encoded; the last two are null where the booking succeeded.
        """
        index = _slice_index(start)
        rows = self._traffic(index)
        failed = self._usual_failures(index, rows)
        codes = self._usual_codes(rows, failed)
        for incident in self.incidents:
            self._strike(incident, index, rows, failed, codes)
        return self._table(rows, failed, codes)

    def _traffic(self, index: int) -> _Rows:
        rng = self._generator(_TRAFFIC, index)
        begin = index * _SLICE_US
        count = int(rng.poisson(self._volume(index)))
        parts = [self._rows(begin, begin + _SLICE_US, count, None, 0, rng)]
        for promotion in self.promotions:
            first, last = _overlap(promotion.start, promotion.end, begin)
            if first >= last:
                continue
            rng = self._generator(_PROMOTION, crc32(promotion.id.encode()), index)
            usual = self._volume(index) * self.share(promotion.cause) * (last - first) / _SLICE_US
            count = int(rng.poisson(usual * (promotion.factor - 1)))
            ((name, (text,)),) = promotion.cause.selector
            attribute = ATTRIBUTES.index(name)
            value = self._index[attribute][text]
            parts.append(self._rows(first, last, count, attribute, value, rng))
        if len(parts) == 1:
            return parts[0]
        at = np.concatenate([p.at for p in parts])
        order = np.argsort(at, kind="stable")
        return _Rows(
            at[order],
            tuple(np.concatenate(v)[order] for v in zip(*(p.values for p in parts), strict=True)),
            np.concatenate([p.luck for p in parts])[order],
            np.concatenate([p.code_luck for p in parts])[order],
        )

    def _rows(
        self,
        first: int,
        last: int,
        count: int,
        fixed: int | None,
        value: int,
        rng: np.random.Generator,
    ) -> _Rows:
        """`count` bookings between two times; attribute `fixed`, if any, always has `value`."""
        s = self.structure
        at = np.sort(rng.integers(first, last, count))
        held = np.full(count, value)
        if fixed in (None, OFFICE):
            nobody = np.zeros(count, np.int64)
            office = held if fixed == OFFICE else self._offices.draw(nobody, rng.random(count))
            airline = s.airline_of_office.draw(office, rng.random(count))
        else:
            if fixed == AIRLINE:
                airline = held
            elif fixed == DEPARTURE:
                airline = self._airline_of_departure.draw(held, rng.random(count))
            else:
                assert fixed == ARRIVAL, "fare sources hold no promotions"
                airline = self._airline_of_arrival.draw(held, rng.random(count))
            office = self._office_of_airline.draw(airline, rng.random(count))
        source = s.source_of_airline.draw(airline, rng.random(count))
        departure = (
            held if fixed == DEPARTURE else s.departure_of_airline.draw(airline, rng.random(count))
        )
        arrival = (
            held if fixed == ARRIVAL else s.arrival_of_airline.draw(airline, rng.random(count))
        )
        again = np.flatnonzero(departure == arrival)
        while len(again):
            if fixed == ARRIVAL:
                drawn = s.departure_of_airline.draw(airline[again], rng.random(len(again)))
                departure[again] = drawn
            else:
                drawn = s.arrival_of_airline.draw(airline[again], rng.random(len(again)))
                arrival[again] = drawn
            again = again[departure[again] == arrival[again]]
        values = (office, departure, arrival, airline, source)
        return _Rows(at, values, rng.random(count), rng.random(count))

    def _usual_failures(self, index: int, rows: _Rows) -> np.ndarray:
        """(n,) the step at which each booking fails by itself; `_SUCCESS` if at none."""
        day, within = divmod(index, SLICES_PER_DAY)
        drift = self.drift.rates(day)[within].T  # (steps, values + 1)
        rhythm = 1 + 0.12 * np.cos(2 * np.pi * (within - 4) / SLICES_PER_DAY)
        failed = np.full(len(rows.at), _SUCCESS)
        below = np.zeros(len(rows.at))  # probability of having failed at an earlier step
        for step, base in enumerate(BASE_RATES):
            rate = np.full(len(rows.at), base * rhythm * drift[step, -1])
            offset = 0
            for attribute, value in enumerate(rows.values):
                lasting = self.structure.rate_multiplier[attribute][step]
                rate *= (lasting * drift[step, offset : offset + len(lasting)])[value]
                offset += len(lasting)
            above = below + (1 - below) * np.minimum(rate, 0.5)
            failed[(rows.luck >= below) & (rows.luck < above)] = step
            below = above
        return failed

    def _usual_codes(self, rows: _Rows, failed: np.ndarray) -> np.ndarray:
        """(n,) index into the codes; -1 where the booking succeeded."""
        codes = np.full(len(failed), -1)
        hit = np.flatnonzero(failed != _SUCCESS)
        codes[hit] = self._code(failed[hit], rows.values[SOURCE][hit], rows.code_luck[hit])
        return codes

    def _code(self, step: np.ndarray, source: np.ndarray, luck: np.ndarray) -> np.ndarray:
        group = step * self.structure.sizes.fare_sources + source
        return self.structure.code_of_failure.draw(group, luck)

    def _strike(
        self,
        incident: Planned,
        index: int,
        rows: _Rows,
        failed: np.ndarray,
        codes: np.ndarray,
    ) -> None:
        """Let an incident fail its rows: changes `failed` and `codes` in place."""
        first, last = _overlap(incident.start, incident.end, index * _SLICE_US)
        if first >= last:
            return
        touched = (rows.at >= first) & (rows.at < last)
        for value, chosen in zip(rows.values, self._chosen(incident.strikes), strict=True):
            if not chosen.all():
                touched &= chosen[value]
        touched_rows = np.flatnonzero(touched)
        rng = self._generator(_INCIDENT, crc32(incident.id.encode()), index)
        luck = rng.random((3, len(touched_rows)))
        step = STEPS.index(incident.outcome)
        # A booking that failed at an earlier step never reaches this one.
        hit = (luck[0] < incident.strength) & (failed[touched_rows] >= step)
        struck = touched_rows[hit]
        failed[struck] = step
        usual = self._code(failed[struck], rows.values[SOURCE][struck], luck[1, hit])
        own = np.array([self._codes.index(code) for code in incident.codes], np.int64)
        if len(own):
            telling = luck[2, hit] < incident.code_share
            pick = (luck[1, hit] * len(own)).astype(np.int64)
            usual = np.where(telling, own[pick], usual)
        codes[struck] = usual

    def _table(self, rows: _Rows, failed: np.ndarray, codes: np.ndarray) -> pa.Table:
        indices = (*rows.values, failed, codes)
        absent = (None,) * len(rows.values) + (failed == _SUCCESS, codes < 0)
        arrays = [pa.array(rows.at, pa.timestamp("us", tz="UTC"))]
        for index, null, texts in zip(indices, absent, self._dictionaries, strict=True):
            encoded = pa.array(index.astype(np.int32), mask=null)
            arrays.append(pa.DictionaryArray.from_arrays(encoded, pa.array(texts, pa.string())))
        return pa.table(arrays, names=list(COLUMNS))

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence((self.seed, *stream)))


def _never_empty(weights: np.ndarray) -> np.ndarray:
    """Cities that nobody flies get all airlines: they are never drawn, and never promoted."""
    return np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)


def _slice_index(start: datetime) -> int:
    """Slices since the epoch."""
    if start.tzinfo is None:
        raise ValueError(f"{start}: a time without time zone; write for instance {start}Z")
    index, rest = divmod(int(datetime64(start).astype(np.int64)), _SLICE_US)
    if rest:
        raise ValueError(f"{start}: slices begin on the half hour")
    return index


def _overlap(start: datetime, end: datetime, begin: int) -> tuple[int, int]:
    """The part of a slice, in microseconds, in which something that lasts happens."""
    first = max(int(datetime64(start).astype(np.int64)), begin)
    last = min(int(datetime64(end).astype(np.int64)), begin + _SLICE_US)
    return first, last
