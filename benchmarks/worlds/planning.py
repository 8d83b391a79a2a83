"""Chooses what goes wrong, when, where, and how badly, so that the oracle can tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.worlds.domain import SLICES, WEEK, Columns, Domain, Rates, Where
from benchmarks.worlds.incidents import Change, Habit, Incident, Promotion, mask, nats

MIXED = (
    "single", "pair", "triple", "cell set", "values", "leak", "degradation", "everything",
    "late", "code new here", "code new everywhere", "code usual here", "code usual everywhere",
    "release", "unsent", "blank",
)  # fmt: skip
CODES = ("code new here", "code new everywhere", "code usual here", "code usual everywhere")
LEAKS = ("leak", "degradation")
NATS = 35.0, 1500.0
"""Asked of an incident when it is planned; what is true is counted when it is drawn."""
ADDED = 20.0
APART = 6
"""Slices between two incidents of an outcome."""
SAMPLE = 200_000


@dataclass
class Plan:
    """All that happens in a world."""

    incidents: list[Incident] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    habits: list[Habit] = field(default_factory=list)


class ImpossibleError(Exception):
    """A kind finds no place in this domain under this traffic."""


class Planner:
    """Knows the true rates of an average week.

    Args:
        domain: where.
        rates: its true rates at the start.
        rng: of the choices.
        span: first slice at which something may happen, and the slice behind the last.
    """

    def __init__(
        self, domain: Domain, rates: Rates, rng: np.random.Generator, span: tuple[int, int]
    ) -> None:
        self._domain, self._rng, self._span = domain, rng, span
        each = SAMPLE // (WEEK // 4)
        parts = [domain.draw(rng, s, each) for s in range(0, WEEK, 4)]
        self._columns: Columns = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        self._count = each * len(parts)
        self._usual = np.column_stack(
            [rates.of(o, self._columns, 2 * SLICES) for o in range(len(domain.outcomes))]
        )
        reach = np.ones(self._count)
        self._reach = np.empty_like(self._usual)
        for o in range(len(domain.outcomes)):
            reach = reach * (domain.stays[o] if domain.stays else 1.0)
            self._reach[:, o] = reach
            if domain.sequential:
                reach = reach * (1 - self._usual[:, o])
        self._taken: list[list[tuple[int, int]]] = [[] for _ in domain.outcomes]
        self._changed: dict[tuple[str, int], list[tuple[int, int]]] = {}

    def incidents(self, kinds: Sequence[str]) -> Plan:
        """One incident of each kind given, spread over the time.

        Raises:
            ImpossibleError: for one of them no place was found.
        """
        plan = Plan()
        first, last = self._span
        step = (last - first) / max(len(kinds), 1)
        for n, kind in enumerate(kinds):
            around = first + step * n, first + step * (n + 1)
            for tried in range(600):
                # a kind that finds no place at its time moves further and further
                room = tried // 60 * SLICES
                low = max(first, int(around[0] - room))
                start = int(self._rng.integers(low, max(low + 1, int(around[1] + room))))
                if self._add(plan, kind, start, f"{n + 1:03d}"):
                    break
            else:
                raise ImpossibleError(
                    f"{self._domain.name}: no place for “{kind}”; give it more rows"
                )
        plan.incidents.sort(key=lambda i: (i.start, i.id))
        return plan

    def promotions(self, count: int) -> list[Promotion]:
        """Values whose traffic doubles or triples for 6 to 48 hours."""
        out: list[Promotion] = []
        first, last = self._span
        for n in range(count):
            length = int(self._rng.integers(12, 96))
            low = first + (last - first) * n // count
            start = int(min(low + self._rng.integers(0, SLICES), last - length))
            names = [f.name for f in self._domain.fields if f.step < 0]
            where, _ = self._single([self._rng.choice(names)], 0.004, 0.2)
            out.append(Promotion(where, max(first, start), start + length, self._rng.uniform(2, 3)))
        return out

    def benign_releases(self, begin: int, every: float) -> list[Change]:
        """New versions that fail no more than the old ones."""
        out = []
        for at in np.arange(begin, self._span[1], every):
            if not self._domain.releases:
                break
            start = int(at + self._rng.integers(0, max(1, int(every))))
            change = self._change("release", start, 10**9, self._rng.uniform(12, 60))
            if change is not None:
                out.append(self._made(change))
        return out

    def habits(self, count: int) -> list[Habit]:
        """Values that fail every Sunday night."""
        out = []
        for _ in range(count):
            outcome = int(self._rng.integers(len(self._domain.outcomes)))
            where, _ = self._single(self._visible(outcome), 0.02, 0.25)
            start = 6 * SLICES + int(self._rng.integers(40, 44))
            out.append(Habit(where, outcome, self._rng.uniform(3, 5), (start, start + 6)))
        return out

    # Where

    def _visible(self, outcome: int) -> list[str]:
        return [f.name for f in self._domain.fields if f.step <= outcome]

    def _single(self, names: Sequence[str], least: float, most: float) -> tuple[Where, np.ndarray]:
        for _ in range(200):
            name = str(self._rng.choice(names))
            value = int(self._columns[name][self._rng.integers(self._count)])
            where = {name: (value,)}
            rows = mask(self._columns, where, self._count)
            if value >= 0 and least <= rows.mean() <= most:
                return where, rows
        raise ImpossibleError(f"{self._domain.name}: no value of {names} has that share")

    def _where(self, kind: str, outcome: int) -> Where | None:
        """A selector of the kind, none if the draw has hit nothing of use."""
        domain, rng, columns = self._domain, self._rng, self._columns
        visible = set(self._visible(outcome))

        def rows(where: Where) -> np.ndarray:
            return mask(columns, where, self._count)

        if kind == "everything":
            return {}
        if kind in ("single", "late", "blank"):
            return self._single(sorted(visible), 0.004, 0.3)[0]
        if kind in LEAKS:
            if rng.random() < 0.35:
                return self._where("pair", outcome)
            return self._single(sorted(visible), 0.004, 0.3)[0]
        if kind in ("pair", "triple"):
            options = domain.pairs if kind == "pair" else domain.triples
            names = options[rng.integers(len(options))]
            row = rng.integers(self._count)
            where = {n: (int(columns[n][row]),) for n in names}
            if not set(names) <= visible or any(v[0] < 0 for v in where.values()):
                return None
            whole = rows(where).mean()
            wider = [
                rows({m: v for m, v in where.items() if m != n}).mean() for n in names
            ]  # what is left when one is not named
            return where if 0.0007 < whole < 0.6 * min(wider) else None
        if kind == "cell set":
            outer, inner = domain.cells[rng.integers(len(domain.cells))]
            if not {outer, inner} <= visible:
                return None
            where, own = self._single([outer], 0.008, 0.4)
            values, counts = np.unique(columns[inner][own], return_counts=True)
            share = counts / counts.sum()
            large = [int(v) for v, s in zip(values, share, strict=True) if s > 0.1 and v >= 0]
            if len(large) < 3:
                return None
            chosen = rng.choice(large, int(rng.integers(2, len(large))), replace=False)
            part = share[np.isin(values, chosen)]
            if part.sum() > 0.75 or part.min() < 0.2 * part.sum():
                return None
            return {**where, inner: tuple(int(v) for v in sorted(chosen))}
        if kind == "values":
            name = str(rng.choice([n for n in domain.groups if n in visible]))
            values, counts = np.unique(columns[name], return_counts=True)
            share = counts / counts.sum()
            large = [int(v) for v, s in zip(values, share, strict=True) if s > 0.004 and v >= 0]
            many = int(rng.integers(2, 5))
            if len(large) < 2 * many:
                return None
            chosen = rng.choice(large, many, replace=False)
            part = share[np.isin(values, chosen)]
            if part.sum() > 0.3 or part.min() < 0.15 * part.sum():
                return None
            return {name: tuple(int(v) for v in sorted(chosen))}
        raise ValueError(kind)

    # When and how badly

    def _free(self, outcome: int, start: int, end: int) -> bool:
        return end <= self._span[1] - 4 and all(
            end + APART <= a or b + APART <= start for a, b in self._taken[outcome]
        )

    def _add(self, plan: Plan, kind: str, start: int, number: str) -> bool:
        """Try once."""
        domain, rng = self._domain, self._rng
        outcome = int(rng.integers(len(domain.outcomes)))
        lengths = {
            "leak": (12, 72), "degradation": (12, 72), "release": (12, 48), "unsent": (4, 24),
            "everything": (2, 12), "late": (6, 18),
        }  # fmt: skip
        low, high = lengths.get(kind, (4, 24) if kind.startswith("code") else (2, 17))
        end = start + int(rng.integers(low, high + 1))
        if not self._free(outcome, start, end):
            return False
        name = f"{number}-{kind.replace(' ', '-')}"
        incident = Incident(name, kind, outcome, start, end, {})
        change: Change | None = None
        share = 1.0
        if kind in ("release", "unsent"):
            if not domain.releases:
                raise ImpossibleError(f"{domain.name} has no versions")
            change = self._change(kind, start, end)
            if change is None:
                return False
            share = float(np.mean([change.share(s) for s in range(start, end)]))
            incident.where = {change.field: (change.value,)}
            if kind == "unsent":
                incident.where = {**change.where, change.field: (-1,)}
            hit = mask(self._columns, change.where, self._count)
        elif kind.startswith("code"):
            if not self._choose_code(incident):
                return False
            hit = mask(self._columns, incident.where, self._count)
        else:
            where = self._where(kind, outcome)
            if where is None:
                return False
            incident.where = where
            hit = mask(self._columns, where, self._count)
        if not self._strengthen(incident, hit, share):
            return False
        plan.incidents.append(incident)
        if change is not None:
            plan.changes.append(self._made(change))
        if domain.code is not None and incident.code == len(domain.code.texts):
            domain.code.texts.append(f"NEW-{number}-{rng.integers(10_000, 99_999)}")
        self._taken[outcome].append((start, end))
        return True

    def _strengthen(self, incident: Incident, hit: np.ndarray, share: float) -> bool:
        """Choose how badly it fails; False when it would be nothing, or a catastrophe."""
        rng, domain, o = self._rng, self._domain, incident.outcome
        volume = share * sum(domain.volume(s) for s in range(incident.start, incident.end))
        reach = self._reach[hit, o]
        rows = volume * reach.sum() / self._count
        usual = self._usual[hit, o]
        failures = volume * (reach * usual).sum() / self._count
        expected = failures
        if incident.code >= 0 and domain.code is not None:
            here = {n: c[hit] for n, c in self._columns.items()}
            of_code = domain.code.share(o, incident.code, here)
            expected = volume * (reach * usual * of_code).sum() / self._count
        if incident.kind in LEAKS:
            incident.ratio = float(np.exp(rng.uniform(np.log(2), np.log(6))))
            incident.ramp = (incident.end - incident.start) // 3 if incident.kind == "leak" else 0
            mean = np.mean([incident.strength(s) for s in range(incident.start, incident.end)])
            happens = expected * (1 + (incident.ratio - 1) * mean)
            return happens - expected >= ADDED and NATS[0] <= nats(expected, happens) <= 3 * NATS[1]
        aim = float(np.exp(rng.uniform(np.log(NATS[0]), np.log(NATS[1]))))
        excess = np.geomspace(ADDED, max(ADDED + 1, 0.9 * (rows - failures)), 200)
        reached = [nats(expected, expected + e) >= aim for e in excess]
        if not any(reached):
            return False
        added = float(excess[int(np.argmax(reached))])
        incident.added = added / max(rows - failures, 1)
        if incident.kind in ("blank", "single", "pair") and rng.random() < 0.5:
            self._symptom(incident)
        if incident.kind == "blank":
            outside = [b for b in domain.blanks if b not in incident.where]
            incident.blank = str(rng.choice(outside))
        if incident.kind == "late":
            incident.lag = int(rng.integers(1, 5))
        # an airline with half a percent more failures is no incident, whatever its traffic
        return incident.added < 0.9 and (
            incident.code >= 0 or added >= 0.5 * expected or incident.kind == "everything"
        )

    def _symptom(self, incident: Incident) -> None:
        code = self._domain.code
        if code is not None and incident.outcome in code.outcomes:
            shares = code.shares[incident.outcome].sum(axis=0)
            incident.symptom = int(np.argsort(shares)[-1 - self._rng.integers(2)])

    def _choose_code(self, incident: Incident) -> bool:
        """A code of one system or of all, known or never seen."""
        domain, rng = self._domain, self._rng
        if domain.code is None:
            raise ImpossibleError(f"{domain.name} has no error codes")
        code, o = domain.code, incident.outcome
        if o not in code.outcomes:
            return False
        here = incident.kind.endswith(" here")
        incident.where = self._single([code.of], 0.01, 0.3)[0] if here else {}
        if "new" in incident.kind:
            incident.code = len(code.texts)
            return True
        shares = code.choices[o].shares
        # a code that is known everywhere is one that every system writes
        usual = shares[incident.where[code.of][0]] if here else shares.min(axis=0)
        options = np.flatnonzero(usual > 0.002)
        if not len(options):
            return False
        incident.code = int(rng.choice(options))
        return True

    # Versions

    def _change(self, kind: str, start: int, end: int, slices: float = 0.0) -> Change | None:
        """A new version or one that is not sent; None while something else changes there."""
        rng = self._rng
        app, version = self._domain.releases[rng.integers(len(self._domain.releases))]
        sends = np.flatnonzero(self._columns[version] >= 0)
        value = int(self._columns[app][rng.choice(sends)])
        taken = self._changed.get((app, value), [])
        if any(start < b and a < min(end, start + WEEK) for a, b in taken):
            return None
        where = {app: (value,)}
        if kind == "unsent":
            most = 1.0 if rng.random() < 0.4 else float(rng.uniform(0.3, 0.8))
            return Change(where, version, -1, start, end, most, 0)
        most = float(rng.uniform(0.5, 0.9))
        new = len(self._domain.by_name[version].values)
        return Change(where, version, new, start, end, most, slices or rng.uniform(4, 16))

    def _made(self, change: Change) -> Change:
        """Nothing else changes there for a week, or until it ends; a new version has a name."""
        ((app, (value,)),) = change.where.items()
        taken = self._changed.setdefault((app, value), [])
        taken.append((change.start, min(change.end, change.start + WEEK)))
        if change.value >= 0:
            text = f"{self._domain.by_name[app].values[value]} 10.{len(taken)}"
            self._domain.by_name[change.field].add(text)
        return change
