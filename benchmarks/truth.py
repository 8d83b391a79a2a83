"""Detection against truth that the detector's makers did not make.

    python -m benchmarks.truth --kind mixed codes leaks --seed 1 --worlds 2 --json OUT
    python -m benchmarks.truth --kind mixed --compare benchmarks/results/detection.json

Worlds are drawn (`benchmarks.worlds`), replayed by the code of `least-monitor backtest` with one
set of defaults, and scored per kind of incident. Seeds from 100 on are for judging: nothing is
tuned on them. LEAST is left out unless `--graph` asks for it; `excess` finds the same without.
OUT grows: worlds in it are kept, and replaced when they are measured again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from benchmarks._detection_sets import NOW, DataSet, replayed
from benchmarks._report import arguments, machine, publish
from benchmarks.worlds.generation import KINDS, Written, write_world
from monitor.config import load
from monitor.domain import Incident, Method, utc
from monitor.edge.files import FileSource
from monitor.replay import gather
from monitor.scoring import Case, Label, read_labels, score
from monitor.vocabulary import Vocabulary

AFTER = timedelta(days=1)
"""The longest horizon: until then an incident may still be told without being a false alarm."""
LASTING = ("leak", "degradation")
BINS = (25, 50, 100, 300, float("inf"))
"""Nats by the oracle, for the table of how small an incident may be."""
SHOWN = 3


def main() -> None:
    """Run the benchmark."""
    parser = arguments((__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", nargs="+", default=["mixed"], choices=list(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="of the first world of each kind")
    parser.add_argument("--worlds", type=int, default=1, help="of each kind, by seeds in a row")
    parser.add_argument("--days", type=int, help="behind the warm-up, instead of the kind's own")
    parser.add_argument("--rows-per-day", type=float, help="instead of the kind's own")
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="FIELD",
        help="leave it out of the configuration; labels that need it are not asked for",
    )  # fmt: skip
    parser.add_argument("--graph", action="store_true", help="with LEAST at every tick; slow")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="a record to hold against")
    asked = parser.parse_args()
    where = machine()
    keys = [(kind, asked.seed + n) for kind in asked.kind for n in range(asked.worlds)]
    measure = partial(
        measured, days=asked.days, rows_per_day=asked.rows_per_day, graph=asked.graph,
        without=tuple(asked.without),
    )  # fmt: skip
    kept = json.loads(asked.json.read_text("utf-8"))["sets"] if _there(asked.json) else []
    older = json.loads(asked.compare.read_text("utf-8")) if asked.compare else None
    sets = []
    for result in _each(measure, keys, asked.jobs):
        Console(stderr=True).print(
            f"{_name(result)}: {result['rows']} rows, "
            f"drawn in {result['seconds_drawn']:.0f} s, replayed in {result['seconds']:.0f} s",
            style="dim",
        )
        sets.append(result)
        # after each, for a run may be stopped
        kept = [x for x in kept if _key(x) != _key(result)]
        kept.append(result)
        if asked.json is not None:
            asked.json.parent.mkdir(parents=True, exist_ok=True)
            record = {**where, "sets": kept, "rows": table(kept)}
            asked.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    publish("truth: worlds written blind", table(sets), where, None)
    _print_misses(sets)
    if older is not None:
        compare(sets, older)


def _key(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["kind"], one["seed"], *one["without"]


def _name(one: dict[str, Any]) -> str:
    without = f" without {', '.join(one['without'])}" if one["without"] else ""
    return f"{one['kind']} {one['seed']}{without}"


def _there(path: Path | None) -> bool:
    return path is not None and path.exists()


def _each(measure: Any, keys: Sequence[tuple[str, int]], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from (measure(*key) for key in keys)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(measure, *zip(*keys, strict=True))


def measured(
    kind: str, seed: int, days: int | None, rows_per_day: float | None, graph: bool,
    without: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Draw one world, replay it, score it."""
    started = time.perf_counter()
    with TemporaryDirectory(prefix="truth-") as folder:
        world = write_world(kind, seed, Path(folder), days, rows_per_day, without=without)
        drawn = time.perf_counter()
        truth = [json.loads(line) for line in world.labels.read_text("utf-8").splitlines()]
        promotions = [json.loads(x) for x in world.promotions.read_text("utf-8").splitlines()]
        data = opened(kind, seed, world, truth)
        found = replayed(data, lambda monitor, tick: None, graph)[Method.EXCESS]
    done = time.perf_counter()
    return {
        "kind": kind,
        "seed": seed,
        "without": list(without),
        "days": days or KINDS[kind].days,
        "rows": world.rows,
        "sources": _sources(),
        "seconds_drawn": round(drawn - started, 1),
        "seconds": round(done - drawn, 1),
        **scored(data, world, truth, promotions, found),
    }


def _sources() -> str:
    """Which product was measured."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent.parent / "monitor").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def opened(kind: str, seed: int, world: Written, truth: Sequence[dict[str, Any]]) -> DataSet:
    """A written world as the product reads it, with the labels that it can be asked for."""
    config = load(world.config, {})
    settings = config.settings
    vocabulary = Vocabulary(settings.schema)
    inputs = (str(world.folder / "*.parquet"),)
    source = FileSource(config, vocabulary, list(inputs), follow=False)
    data = gather(source.batches(), settings.schema, settings.window, NOW)
    if data.rejected_rows or data.rows != world.rows:
        raise RuntimeError(f"{kind} {seed}: read {data.rows} of {world.rows}; {data.rejected[:3]}")
    known = set(settings.schema.names)
    asked = frozenset(
        raw["id"]
        for raw in truth
        if raw["detectable"] and any(set(selector) <= known for selector in raw["accept"])
    )
    return DataSet(
        name=f"{kind} {seed}", kind=kind, config=config, data=data, vocabulary=vocabulary,
        inputs=inputs, labels=read_labels(world.labels, "UTC"), detectable=asked,
        strong=frozenset(), quiet=(),
    )  # fmt: skip


def scored(
    data: DataSet,
    world: Written,
    truth: Sequence[dict[str, Any]],
    promotions: Sequence[dict[str, Any]],
    found: Sequence[Incident],
) -> dict[str, Any]:
    """What came of every label, and what was told outside of all."""
    length = data.config.settings.window.slice_length
    span = utc(data.data.starts[0]), utc(data.data.starts[-1]) + length
    cases = score(found, data.labels, (), "UTC", length, span).cases
    raws = {raw["id"]: raw for raw in truth}
    judged = [i for i in found if i.opened_at > world.begins]
    false = [i for i in judged if not any(_near(i, label) for label in data.labels)]
    weeks = (span[1] - world.begins) / timedelta(weeks=1)
    return {
        "weeks": round(weeks, 3),
        "cases": [
            _fared(case, raws[case.label.id], found, length)
            for case in cases
            if case.label.id in data.detectable
        ],
        "unasked": sum(case.label.id not in data.detectable for case in cases),
        "told": len(judged),
        "false": [_told(i) for i in false],
        "in_warm_up": [_told(i) for i in found if i.opened_at <= world.begins],
        "promotions": len(promotions),
        "promotions_alarmed": sum(_answers(p, false) for p in promotions),
    }


def _near(incident: Incident, label: Label) -> bool:
    """Began in the time of a label (of any outcome), or within the day that still sees it."""
    return label.start < incident.opened_at <= label.end + AFTER


def _answers(promotion: dict[str, Any], false: Sequence[Incident]) -> bool:
    """An alarm in its time names its value."""
    start, end = (datetime.fromisoformat(promotion[x]) for x in ("start", "end"))
    named = {(n, v) for n, values in promotion["where"].items() for v in values}
    return any(
        start < i.opened_at <= end + AFTER
        and named & {(n, v) for n, values in i.finding.cause.selector for v in values}
        for i in false
    )


def _fared(
    case: Case, raw: dict[str, Any], found: Sequence[Incident], length: timedelta
) -> dict[str, Any]:
    """One label: was it told, first, exactly, when; and what was told instead."""
    label = case.label
    top = case.reported[0].finding.cause if case.reported else None
    partly = {i.finding.cause for i in case.reported} & set(label.partly)
    right = [
        i
        for i in found
        if i.finding.outcome == label.outcome
        and i.finding.cause in label.accept
        and i.opened_at <= label.end
        and (i.resolved_at is None or i.resolved_at > label.start)
    ]
    fared: dict[str, Any] = {
        "id": label.id,
        "kind": raw["kind"],
        "outcome": label.outcome,
        "start": label.start.isoformat(),
        "truth": str(label.accept[0]),
        "event": label.event,
        "nats": raw["nats"],
        "found": case.right_any,
        "first": case.right_first,
        "exact": top is not None and top in label.accept,
        "partly": case.right_any or bool(partly),
        "delay": None if case.delay is None else case.delay / length,
        "told": [_told(i) for i in case.reported[:SHOWN]],
        "beside": sum(i.finding.cause not in label.accept for i in case.reported),
    }
    if raw["kind"].startswith("code"):
        fared["code told"] = bool(case.reported) and _names_code(case.reported[0], label)
    if raw["kind"] in LASTING:
        fared["one"] = len(right) == 1
        fared["open"] = _open_share(label, right, length)
    return fared


def _names_code(incident: Incident, label: Label) -> bool:
    """The cause and a code told with it say together what a right cause says."""
    cause = dict(incident.finding.cause.selector)
    for right in (dict(c.selector) for c in label.accept):
        if cause == right:
            return True
        for name, values in right.items():
            rest = {n: v for n, v in right.items() if n != name}
            if cause == rest and set(values) <= set(incident.finding.codes):
                return True
    return False


def _open_share(label: Label, right: Sequence[Incident], length: timedelta) -> float:
    """Ticks from the first right word to the label's end at which a right incident is open."""
    if not right:
        return 0.0
    at = max(min(i.opened_at for i in right), label.start + length)
    ticks = []
    while at <= label.end:
        ticks.append(
            any(i.opened_at <= at and (i.resolved_at is None or i.resolved_at > at) for i in right)
        )
        at += length
    return sum(ticks) / len(ticks) if ticks else 0.0


def _told(incident: Incident) -> dict[str, Any]:
    finding = incident.finding
    return {
        "outcome": finding.outcome,
        "cause": str(finding.cause),
        "score": round(finding.score, 1),
        "opened": incident.opened_at.isoformat(),
        "resolved": incident.resolved_at.isoformat() if incident.resolved_at else None,
        "codes": list(finding.codes[:3]),
    }


@dataclass(frozen=True, slots=True)
class _Line:
    """Cases that are counted together."""

    name: str
    cases: list[dict[str, Any]]

    def row(self, weeks: float | None = None, false: int | None = None) -> dict[str, Any]:
        n = len(self.cases)

        def share(field: str) -> str:
            return str(sum(c[field] for c in self.cases)) if n else "–"

        delays = [c["delay"] for c in self.cases if c["delay"] is not None]
        coded = [c for c in self.cases if "code told" in c]
        lasting = [c for c in self.cases if "one" in c]
        return {
            "incidents": self.name,
            "n": n,
            "found": share("found"),
            "first": share("first"),
            "exact": share("exact"),
            "partly": share("partly"),
            "delay": f"{median(delays):.1f}" if delays else "–",
            "mean": f"{mean(delays):.1f}" if delays else "–",
            "code told": f"{sum(c['code told'] for c in coded)} of {len(coded)}" if coded else "–",
            "one": f"{sum(c['one'] for c in lasting)} of {len(lasting)}" if lasting else "–",
            "open": f"{mean(c['open'] for c in lasting):.2f}" if lasting else "–",
            "beside": f"{mean(c['beside'] for c in self.cases):.2f}" if n else "–",
            "false/week": "–" if false is None or not weeks else f"{false / weeks:.2f}",
        }


def table(sets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows per kind of world; then of all of them together by kind of incident, and by nats."""
    worlds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in sets:
        worlds[one["kind"] + (" −" + ",".join(one["without"]) if one["without"] else "")].append(
            one
        )
    rows = []
    for kind, mine in worlds.items():
        cases = [c for one in mine for c in one["cases"]]
        weeks = sum(one["weeks"] for one in mine)
        rows.append(_Line(kind, cases).row(weeks, sum(len(one["false"]) for one in mine)))
    every = [c for one in sets for c in one["cases"]]
    for kind in sorted({c["kind"] for c in every}):
        rows.append(_Line(f"· {kind}", [c for c in every if c["kind"] == kind]).row())
    for low, high in pairwise(BINS):
        inside = [c for c in every if low <= c["nats"] < high]
        if inside:
            rows.append(_Line(f"· {low:g} to {high:g} nats", inside).row())
    return rows


def _print_misses(sets: Sequence[dict[str, Any]]) -> None:
    console = Console(width=150, soft_wrap=True, highlight=False)
    for one in sets:
        name = _name(one)
        for case in one["cases"]:
            if not case["exact"]:
                verdict = "wrong first" if case["found"] else "missed"
                told = "; ".join(_answer(t) for t in case["told"])
                console.print(
                    f"{name} {case['id']} {verdict}: {case['outcome']} ← "
                    f"{case['truth']}, {case['nats']:.0f} nats ({case['event']}); told: "
                    f"{told or 'nothing'}",
                    markup=False,
                )
        for t in one["false"]:
            console.print(
                f"{name} false: {t['outcome']} ← {t['cause']} "
                f"({t['score']:.0f}) at {t['opened'][:16]}",
                markup=False,
            )
        if one["promotions"]:
            console.print(
                f"{name}: {one['promotions_alarmed']} of {one['promotions']} promotions alarmed"
            )


def _answer(told: dict[str, Any]) -> str:
    codes = f" with {', '.join(told['codes'])}" if told["codes"] else ""
    return f"{told['cause']} ({told['score']:.0f}){codes}"


def compare(sets: Sequence[dict[str, Any]], old: dict[str, Any]) -> None:
    """Print gains and losses per world against an older record, case by case.

    Args:
        sets: measured now.
        old: what `--json` wrote, or a record of `benchmarks.detection` (then only its totals).
    """
    console = Console(width=150, soft_wrap=True, highlight=False)
    before = {_key(one): one for one in old["sets"] if "cases" in one}
    if not before:
        for one in old["sets"]:
            for method, counts in one["methods"].items():
                if counts is not None:
                    console.print(
                        f"{one['name']} ({method}): any {counts['any']}, first {counts['first']}, "
                        f"exact {counts['exact']} of {counts['cases']}, outside {counts['outside']}"
                    )
        return
    for one in sets:
        was = before.get(_key(one))
        name = _name(one)
        if was is None:
            console.print(f"{name}: not in the older record")
            continue
        if was["days"] != one["days"] or was["rows"] != one["rows"]:
            console.print(f"{name}: the older record is of another world ({was['rows']} rows)")
            continue
        known = {c["id"]: c for c in was["cases"]}
        for field in ("found", "first", "exact"):
            gained = [c["id"] for c in one["cases"] if c[field] and not known[c["id"]][field]]
            lost = [c["id"] for c in one["cases"] if not c[field] and known[c["id"]][field]]
            sums = [sum(c[field] for c in x["cases"]) for x in (was, one)]
            console.print(
                f"{name} {field}: {sums[0]} → {sums[1]} of {len(one['cases'])}; "
                f"gained {gained}, lost {lost}",
                markup=False,
            )
        console.print(f"{name} false alarms: {len(was['false'])} → {len(one['false'])}")


if __name__ == "__main__":
    main()
