"""Draws a world: rows to Parquet, a day a file; labels, promotions and the configuration.

python -m benchmarks.worlds.generation mixed FOLDER --seed 1
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.worlds.bookings import Bookings
from benchmarks.worlds.domain import SLICES, WEEK, Columns, Domain, Rates, Where
from benchmarks.worlds.funnel import Funnel
from benchmarks.worlds.incidents import CODE, Incident, equivalents, mask
from benchmarks.worlds.planning import CODES, LEAKS, MIXED, Plan, Planner
from benchmarks.worlds.web import Web
from benchmarks.worlds.wide import Wide

START = datetime(2027, 3, 1, tzinfo=UTC)
"""A Monday."""
HALF_HOUR = timedelta(minutes=30)
DOMAINS: dict[str, type[Domain]] = {d.name: d for d in (Bookings, Funnel, Web, Wide)}
UNVERSIONED = tuple(k for k in MIXED if k not in (*CODES, "release", "unsent"))


@dataclass(frozen=True, slots=True)
class Kind:
    """What a world is drawn for."""

    days: int
    """Behind the warm-up."""
    rows_per_day: float
    cycle: tuple[str, ...] = ()
    """Kinds of incidents, in turn, in an order of the seed."""
    incidents: int = 0
    drift: float = 1.0
    promotions: int = 0
    releases_every: float = 5.0
    """Days between new versions that do no harm."""
    habits: int = 0
    warm_up: int = 7
    domain: str = "bookings"


KINDS = {
    "mixed": Kind(14, 200_000, MIXED, 16, promotions=4),
    "codes": Kind(20, 150_000, CODES, 40),
    "leaks": Kind(20, 150_000, LEAKS, 40),
    "quiet": Kind(28, 150_000),
    "drift2": Kind(28, 150_000, drift=2.0),
    "drift3": Kind(28, 150_000, drift=3.0),
    "promotions": Kind(28, 120_000, promotions=100),
    "sundays": Kind(28, 150_000, habits=4, warm_up=15),
    "funnel": Kind(14, 200_000, tuple(k for k in MIXED if k not in CODES), 20, domain="funnel"),
    "web": Kind(14, 250_000, MIXED, 20, domain="web"),
    "wide": Kind(14, 100_000, UNVERSIONED, 20, domain="wide"),
}


@dataclass(frozen=True, slots=True)
class Written:
    """A world on disk."""

    folder: Path
    config: Path
    labels: Path
    promotions: Path
    begins: datetime
    """End of the warm-up."""
    ends: datetime
    rows: int


def write_world(
    kind: str, seed: int, folder: Path, days: int | None = None,
    rows_per_day: float | None = None, warm_up: int | None = None, without: Collection[str] = (),
) -> Written:  # fmt: skip
    """Draw a world and write it.

    Args:
        kind: of `KINDS`.
        seed: the same one gives the same files.
        folder: is filled.
        days: behind the warm-up; incidents and promotions are reduced in proportion.
        rows_per_day: traffic at the start; by default that of the kind.
        warm_up: days in which nothing happens.
        without: fields that the configuration does not name.

    Raises:
        ImpossibleError: an incident finds no place under so little traffic, or in so short a time.
    """
    chosen = KINDS[kind]
    domain = DOMAINS[chosen.domain](seed, rows_per_day or chosen.rows_per_day)
    rates = Rates(domain, np.random.default_rng([seed, 2]), chosen.drift)
    days = days or chosen.days
    begin = (chosen.warm_up if warm_up is None else warm_up) * SLICES
    end = begin + days * SLICES
    planner = Planner(domain, rates, np.random.default_rng([seed, 3]), (begin, end))
    order = np.random.default_rng([seed, 4])
    count = round(chosen.incidents * days / chosen.days)
    cycle: list[str] = []
    while len(cycle) < count:
        cycle += order.permutation(np.array(chosen.cycle, dtype=object)).tolist()
    plan = planner.incidents(cycle[:count])
    plan.promotions = planner.promotions(round(chosen.promotions * days / chosen.days))
    every = chosen.releases_every * SLICES
    plan.changes += planner.benign_releases(SLICES, every)
    plan.habits = planner.habits(chosen.habits)
    writer = _Writer(domain, rates, plan, np.random.default_rng([seed, 5]), folder)
    folder.mkdir(parents=True, exist_ok=True)
    for slice_ in range(end):
        writer.slice(slice_)
    writer.close()
    config = folder / "monitor.toml"
    config.write_text(domain.config(without), "utf-8")
    labels = folder / "labels.jsonl"
    lines = [json.dumps(label(domain, i)) + "\n" for i in plan.incidents]
    labels.write_text("".join(lines), "utf-8")
    promotions = folder / "promotions.jsonl"
    lines = [
        json.dumps({"start": _at(p.start), "end": _at(p.end), "factor": round(p.factor, 2)}
                   | {"where": _texts(domain, p.where)}) + "\n"
        for p in plan.promotions
    ]  # fmt: skip
    promotions.write_text("".join(lines), "utf-8")
    moment = START + begin * HALF_HOUR
    return Written(folder, config, labels, promotions, moment, START + end * HALF_HOUR, writer.rows)


def label(domain: Domain, incident: Incident) -> dict[str, Any]:
    """What `monitor.scoring` reads, and what the oracle says."""
    where: dict[str, tuple[int, ...]] = dict(incident.where)
    if incident.code >= 0:
        where[CODE] = (incident.code,)
    accept = equivalents(where, incident.seen)
    incident.seen.clear()
    parts: list[Where] = []
    if any(len(values) > 1 for values in where.values()):
        (name, several), *_ = [x for x in where.items() if len(x[1]) > 1]
        parts += [{**where, name: (value,)} for value in several]
    if len(where) > 1:
        parts += [{n: v for n, v in where.items() if n != left} for left in where]
    return {
        "id": incident.id,
        "kind": incident.kind,
        "start": _at(incident.start),
        "end": _at(incident.end + incident.lag),
        "outcome": domain.outcomes[incident.outcome],
        "accept": [_texts(domain, w) for w in accept],
        "partly": [_texts(domain, w) for w in parts if w not in accept],
        "event": _story(incident),
        "nats": round(incident.nats, 1),
        "added": round(incident.excess, 1),
        "expected": round(incident.expected, 1),
        "rows": incident.rows,
        "detectable": incident.detectable,
    }


def _story(incident: Incident) -> str:
    before = incident.expected / max(incident.rows, 1)
    now = incident.happens / max(incident.rows, 1)
    hours = (incident.end - incident.start) / 2
    return f"{incident.kind}: {before:.2%} → {now:.2%} of {incident.rows} rows for {hours:g} h"


def _at(slice_: int) -> str:
    return (START + slice_ * HALF_HOUR).isoformat()


def _texts(domain: Domain, where: Where) -> dict[str, list[str]]:
    out = {}
    for name, values in where.items():
        if name == CODE:
            assert domain.code is not None
            out[domain.code_column] = [domain.code.texts[v] for v in values]
        else:
            known = domain.by_name[name].values
            out[name] = ["(missing)" if v < 0 else known[v] for v in values]
    return out


class _Writer:
    """Draws slice by slice; a day is a file."""

    def __init__(
        self, domain: Domain, rates: Rates, plan: Plan, rng: np.random.Generator, folder: Path
    ) -> None:
        self._domain, self._rates, self._plan = domain, rates, plan
        self._rng, self._folder = rng, folder
        self._day: list[pa.Table] = []
        self._late: dict[int, list[pa.Table]] = {}
        self.rows = 0

    def slice(self, slice_: int) -> None:
        """The next half hour."""
        rng, domain = self._rng, self._domain
        self._rates.advance(rng)
        columns, count = self._traffic(slice_)
        # behind its end an incident adds nothing, but what is written late stands there
        active = [i for i in self._plan.incidents if i.start <= slice_ < i.end + i.lag]
        outcomes = len(domain.outcomes)
        attempted = np.zeros((count, outcomes), bool)
        failed = np.zeros((count, outcomes), bool)
        code = np.full(count, -1, np.int32)
        lag = np.zeros(count, np.int32)
        hits: dict[str, np.ndarray] = {}
        blanked: list[tuple[str, np.ndarray]] = []
        reach = np.ones(count, bool)
        for o in range(outcomes):
            if domain.stays:
                reach = reach & (rng.random(count) < domain.stays[o])
            attempted[:, o] = reach
            usual = self._usual(o, columns, slice_)
            now, chance = usual.copy(), rng.random(count)
            layers: list[tuple[Incident, np.ndarray]] = []
            for incident in active:
                if incident.outcome != o:
                    continue
                rows = np.flatnonzero(mask(columns, incident.where, count))
                before = now.copy()
                part, here = before[rows], {n: c[rows] for n, c in columns.items()}
                of_code: np.ndarray | float = 1.0
                if incident.code >= 0 and domain.code is not None:
                    of_code = domain.code.share(o, incident.code, here)
                now[rows] = incident.raised(part, slice_, of_code)
                asked = reach[rows]
                incident.expected += float((part * of_code)[asked].sum())
                incident.happens += float((now[rows] - part + part * of_code)[asked].sum())
                incident.rows += len(rows)
                layers.append((incident, reach & (before <= chance) & (chance < now)))
                hit = np.zeros(count, bool)
                hit[rows] = True
                hits[incident.id] = hit
            failed[:, o] = reach & (chance < now)
            if domain.code is not None and o in domain.code.outcomes:
                fails = np.flatnonzero(failed[:, o])
                parents = columns[domain.code.of][fails].astype(np.int64)
                code[fails] = domain.code.choices[o].draw(rng, parents)
            for incident, mine in layers:
                if incident.code >= 0:
                    code[mine] = incident.code
                    hits[incident.id] &= failed[:, o] & (code == incident.code)
                if incident.symptom >= 0:
                    code[mine & (rng.random(count) < 0.5)] = incident.symptom
                if incident.blank:
                    blanked.append((incident.blank, mine))
                if incident.lag:
                    lag[mine] = rng.integers(1, incident.lag + 1, int(mine.sum()))
            if domain.sequential:
                reach = reach & ~failed[:, o]
        for f in domain.fields:
            if f.step >= 0:
                columns[f.name] = np.where(attempted[:, f.step], columns[f.name], -1)
        for name, rows in blanked:
            columns[name] = np.where(rows, -1, columns[name])
        for incident in active:
            small = {n: c.astype(np.int16) for n, c in columns.items()}
            if domain.code is not None:
                small[CODE] = code.astype(np.int16)
            incident.seen.append((small, hits[incident.id]))
        self._keep(slice_, columns, code, attempted, failed, lag)

    def _traffic(self, slice_: int) -> tuple[Columns, int]:
        rng, domain = self._rng, self._domain
        count = int(rng.poisson(domain.volume(slice_)))
        columns = domain.draw(rng, slice_, count)
        for promotion in self._plan.promotions:
            if promotion.start <= slice_ < promotion.end:
                more = domain.draw(rng, slice_, round(2 * count * (promotion.factor - 1)))
                drawn = len(next(iter(more.values())))
                chosen = mask(more, promotion.where, drawn) & (rng.random(drawn) < 0.5)
                columns = {n: np.concatenate([c, more[n][chosen]]) for n, c in columns.items()}
        count = len(next(iter(columns.values())))
        for change in self._plan.changes:
            share = change.share(slice_)
            if share:
                rows = mask(columns, change.where, count) & (columns[change.field] >= 0)
                rows &= rng.random(count) < share
                columns[change.field] = np.where(
                    rows, np.int32(change.value), columns[change.field]
                )
        return columns, count

    def _usual(self, outcome: int, columns: Columns, slice_: int) -> np.ndarray:
        usual = self._rates.of(outcome, columns, slice_)
        for habit in self._plan.habits:
            if habit.outcome == outcome and habit.slices[0] <= slice_ % WEEK < habit.slices[1]:
                rows = mask(columns, habit.where, len(usual))
                usual[rows] = np.minimum(usual[rows] * habit.ratio, 0.9)
        return usual

    def _keep(
        self, slice_: int, columns: Columns, code: np.ndarray, attempted: np.ndarray,
        failed: np.ndarray, lag: np.ndarray,
    ) -> None:  # fmt: skip
        domain, rng = self._domain, self._rng
        begin = np.datetime64((START + slice_ * HALF_HOUR).replace(tzinfo=None), "us")
        within = rng.integers(0, 30 * 60 * 1_000_000, len(code))
        at = begin + within.astype("timedelta64[us]")
        at += lag * np.timedelta64(30, "m")
        table: dict[str, pa.Array] = {"time": pa.array(at, pa.timestamp("us", "UTC"))}
        for f in domain.fields:
            table[f.name] = _dictionary(columns[f.name], f.values)
        if domain.code is not None:
            table[domain.code_column] = _dictionary(code, domain.code.texts)
        for name, told in domain.written(rng, attempted, failed).items():
            table[name] = _dictionary(*told) if isinstance(told, tuple) else pa.array(told)
        rows = pa.table(table)
        for later in np.unique(lag[lag > 0]):
            self._late.setdefault(slice_ + int(later), []).append(
                rows.filter(pa.array(lag == later))
            )
        self._day.append(rows.filter(pa.array(lag == 0)) if lag.any() else rows)
        self._day += self._late.pop(slice_, [])
        if (slice_ + 1) % SLICES == 0:
            self._flush(slice_)

    def _flush(self, slice_: int) -> None:
        if self._day:
            day = pa.concat_tables(self._day).unify_dictionaries()
            self.rows += len(day)
            pq.write_table(day, self._folder / f"{START + slice_ * HALF_HOUR:%Y-%m-%d}.parquet")
        self._day = []

    def close(self) -> None:
        """What was written late behind the end is lost, as in any log that is cut off."""
        self._late.clear()


def _dictionary(codes: np.ndarray, texts: list[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def main() -> None:
    """Write one world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int)
    parser.add_argument("--rows-per-day", type=float)
    asked = parser.parse_args()
    started = time.perf_counter()
    done = write_world(asked.kind, asked.seed, asked.folder, asked.days, asked.rows_per_day)
    print(f"{done.rows} rows in {time.perf_counter() - started:.0f} s; {done.labels}")


if __name__ == "__main__":
    main()
