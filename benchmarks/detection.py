"""Detection against the truth: `python -m benchmarks.detection --json OUT`.

Every data set, for the product's two methods and for simple peers, scored by the same code. All
run with one set of defaults; a peer's threshold is the smallest at which it raises a new incident
on at most 2 % of the quiet days of the three cities. Finished cells are kept under `out/`, so a
long run goes on where it was stopped; a cell counts for the sources it was measured with.
"""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import _detectors as peers
from benchmarks._calibration import Calibration, joined, picture
from benchmarks._cells import Cells
from benchmarks._detection_sets import CITIES, DataSet, city, hotel, replayed, simulated
from benchmarks._report import arguments, machine, publish
from monitor.domain import Cause, Incident, Method, utc
from monitor.localization import labels, leaves, localize
from monitor.scoring import Label, Scores, score

ROOT = Path(__file__).parent.parent
CORE = ("*.py", "attribution/*.py", "localization/*.py", "simulation/*.py")
TARGET = 0.02
"""Share of quiet days on which a peer may raise a new incident."""
SIMULATED = ("week", "quiet", "drift", "promotions")
METHODS = (Method.EXCESS.value, Method.PAPER.value, *peers.PEERS)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--cities", nargs="*", default=list(CITIES), choices=list(CITIES))
    parser.add_argument("--hotel", action=_flag(), default=True)
    parser.add_argument("--weeks", type=int, default=5, help="simulated worlds with incidents")
    parser.add_argument("--quiet", type=int, default=2, help="simulated worlds without")
    parser.add_argument("--drift", type=int, default=1, help="… in which rates wander doubly")
    parser.add_argument("--promotions", type=int, default=1, help="… with promotions")
    parser.add_argument("--paper", action=_flag(), default=True, help="LEAST, and the paper's test")
    parser.add_argument("--peers", action=_flag(), default=True, help="and tables of leaves")
    parser.add_argument("--seed", type=int, default=7001, help="first seed of the worlds")
    parser.add_argument("--rows-per-day", type=float, default=400_000)
    parser.add_argument("--slice", type=int, default=30, help="minutes of a simulated slice")
    parser.add_argument("--days", type=int, default=28, help="that a world is watched")
    parser.add_argument("--cells", type=Path, default=Path("out/detection.jsonl"))
    parser.add_argument("--plot", type=Path, help="calibration plot; default: beside --json")
    parser.add_argument("--any-sources", action="store_true", help="reuse cells of older sources")
    asked = parser.parse_args()
    where = machine()
    bench = _Bench(Cells(asked.cells), asked.any_sources, asked.paper)
    chosen = list(_sets(asked))
    results = [bench.product(*one) for one in chosen]
    thresholds = bench.thresholds(asked.data) if asked.peers else {}
    against = [bench.peers(*one, thresholds) for one in chosen] if asked.peers else []
    tables = bench.tables(asked.data / "rca") if asked.peers else {}
    methods = METHODS if asked.peers else [m.value for m in Method]
    rows = [_row(method, results, against, tables) for method in methods]
    where |= {
        "sources": bench.sources,
        "thresholds": thresholds,
        "sets": [_public(cell) for cell in results],
        "peers": against,
        "rca": tables,
    }
    publish("detection: found, named, false alarms", rows, where, asked.json)
    _draw(results, asked.plot or (asked.json.with_suffix(".svg") if asked.json else None))


def _flag() -> Any:
    from argparse import BooleanOptionalAction

    return BooleanOptionalAction


Chosen = tuple[tuple[Any, ...], str, Any]
"""Key, kind, and a function that opens the data set."""


def _sets(asked: Any) -> Iterator[Chosen]:
    for name in asked.cities:
        yield (name,), "city", lambda name=name: city(name, asked.data)
    if asked.hotel:
        yield ("hotel",), "hotel", lambda: hotel(asked.data)
    seed = asked.seed
    for kind in ("week", "quiet", "drift", "promotions"):
        for _ in range(getattr(asked, kind if kind != "week" else "weeks")):
            key = (kind, seed, asked.days, asked.rows_per_day)
            key += (asked.slice,) if asked.slice != 30 else ()
            yield key, kind, lambda key=key: simulated(*key)
            seed += 1


class _Bench:
    """Measures what is not there yet."""

    def __init__(self, cells: Cells, any_sources: bool, graph: bool) -> None:
        self._cells, self._console, self._graph = cells, Console(stderr=True), graph
        self.sources = _digest(ROOT / "monitor", CORE) + _digest(ROOT / "least", ("*.py",))
        self._peers = _digest(ROOT / "benchmarks", ("_detectors.py", "detection.py"))
        self._any = any_sources

    def product(self, key: tuple[Any, ...], kind: str, opened: Any) -> dict[str, Any]:
        """Both methods on one data set."""
        name = ("product", *key) if self._graph else ("excess", *key)
        known = self._cells.get((*name, self.sources))
        if known is None and self._any:
            known = self._cells.get((*name, "latest"))
        if known is not None:
            return known
        started = time.perf_counter()
        with _open(opened) as data:
            zone = data.config.settings.window.zone
            days = data.quiet if kind == "city" else None
            watched = kind in ("city", "quiet")
            calibration = Calibration(days, zone)
            ticks = 0

            def on_tick(monitor: Any, tick: Any) -> None:
                nonlocal ticks
                ticks += 1
                if watched:
                    calibration(monitor, tick)

            found = replayed(data, on_tick, self._graph)
            values = {
                "name": data.name,
                "kind": kind,
                "sources": self.sources,
                "seconds": round(time.perf_counter() - started, 1),
                "ticks": ticks,
                "p": calibration.document() if watched else None,
                "weeks": key[2] / 7 if kind in SIMULATED else None,
                "methods": {m.value: _scored(data, incidents) for m, incidents in found.items()},
            }
        self._console.print(f"{data.name}: {values['seconds']:.0f} s, {ticks} ticks", style="dim")
        self._cells.add((*name, "latest"), values)
        return self._cells.add((*name, self.sources), values)

    def thresholds(self, folder: Path) -> dict[str, float]:
        """Per peer: what keeps its share of quiet days with a new incident at the target.

        Of all three cities, whichever are asked for: one threshold serves everywhere.
        """
        key = ("thresholds", self._peers)
        known = self._cells.get(key)
        if known is not None:
            return dict(known["thresholds"])
        best: dict[str, list[tuple[float, int, int]]] = {name: [] for name in peers.PEERS}
        for city_name in CITIES:
            with city(city_name, folder) as data:
                for name, detect in peers.PEERS.items():
                    alarms = detect(_orders(data))
                    for threshold in _grid():
                        scores = _scores(data, _incidents(data, alarms, threshold))
                        best[name].append((threshold, scores.quiet_days_alarmed, scores.quiet_days))
        thresholds = {}
        for name, tried in best.items():
            for threshold in _grid():
                alarmed = sum(a for t, a, _ in tried if t == threshold)
                days = sum(d for t, _, d in tried if t == threshold)
                thresholds[name] = threshold
                if alarmed <= TARGET * days:
                    break
        return dict(self._cells.add(key, {"thresholds": thresholds})["thresholds"])

    def peers(
        self, key: tuple[Any, ...], kind: str, opened: Any, thresholds: dict[str, float]
    ) -> dict[str, Any]:
        """Every peer on one data set."""
        name = ("peers", *key, *thresholds.values(), self._peers)
        known = self._cells.get(name)
        if known is not None:
            return known
        with _open(opened) as data:
            orders = _orders(data)
            methods = {
                peer: _scored(data, _incidents(data, detect(orders), thresholds[peer]))
                for peer, detect in peers.PEERS.items()
            }
            return self._cells.add(name, {"name": data.name, "kind": kind, "methods": methods})

    def tables(self, folder: Path) -> dict[str, Any]:
        """Tables of leaves through `localize`, and Adtributor's elements on them."""
        out: dict[str, Any] = {}
        for truth in sorted(folder.glob("*/injection_info.csv")):
            counts = {name: np.zeros(3, int) for name in ("excess", "Adtributor", "null")}
            seconds = []
            for case, causes in _cases(truth):
                columns, observed, expected = case
                table = leaves({k: labels(v) for k, v in columns.items()}, observed, expected)
                started = time.perf_counter()
                found = {c.cause for c in localize(table).causes}
                seconds.append(time.perf_counter() - started)
                for name, said in (
                    ("excess", found),
                    ("Adtributor", _adtributor(*case)),
                    ("null", set()),
                ):
                    hits = len(said & causes)
                    counts[name] += (hits, len(said) - hits, len(causes) - hits)
            out[truth.parent.name] = {
                "f1": {n: _f1(c) for n, c in counts.items()},
                "cases": len(seconds),
                "median_seconds": float(np.median(seconds)),
            }
        return out


def _open(opened: Any) -> AbstractContextManager[DataSet]:
    return opened()  # type: ignore[no-any-return]


def _digest(folder: Path, patterns: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _grid() -> list[float]:
    return [round(float(t), 2) for t in np.geomspace(peers.FLOOR, 2000, 60)]


def _orders(data: DataSet) -> list[list[peers.Cells]]:
    settings = data.config.settings
    return [peers.cells_of(data.data, settings, data.vocabulary, order) for order in range(3)]


def _incidents(data: DataSet, alarms: Sequence[peers.Alarm], threshold: float) -> list[Incident]:
    settings = data.config.settings
    return peers.incidents(alarms, threshold, data.data, settings.schema, settings.window)


def _scores(data: DataSet, found: Sequence[Incident]) -> Scores:
    window = data.config.settings.window
    span = utc(data.data.starts[0]), utc(data.data.starts[-1]) + window.slice_length
    return score(found, data.labels, data.quiet, window.zone, window.slice_length, span)


def _scored(data: DataSet, found: Sequence[Incident]) -> dict[str, Any]:
    """What is counted of one method on one data set."""
    scores, length = _scores(data, found), data.config.settings.window.slice_length
    cases = [case for case in scores.cases if case.label.id in data.detectable]
    outside = [i for i in found if not any(_near(i, label) for label in data.labels)]
    return {
        "cases": len(cases),
        "any": sum(c.right_any for c in cases),
        "first": sum(c.right_first for c in cases),
        "exact": sum(_exact_soon(c.label, c.reported, length) for c in cases),
        "delays": [c.delay / length for c in cases if c.delay is not None],
        "minutes": {c.label.id: _minutes(c.delay) for c in cases},
        "strong": sorted(data.strong),
        "missed": [c.label.id for c in cases if not c.right_any],
        "wrong_first": [c.label.id for c in cases if c.right_any and not c.right_first],
        "quiet_days": scores.quiet_days,
        "quiet_days_alarmed": scores.quiet_days_alarmed,
        "outside": len(outside),
        "incidents": len(found),
    }


def _minutes(delay: timedelta | None) -> float | None:
    return None if delay is None else delay / timedelta(minutes=1)


def _near(incident: Incident, label: Label) -> bool:
    """Began in the time of a label (of any outcome), or within the day that still sees it."""
    return label.start < incident.opened_at <= label.end + timedelta(days=1)


def _exact_soon(label: Label, reported: Sequence[Incident], length: timedelta) -> bool:
    """Within two ticks of the first alarm, the highest of its incidents named a right cause."""
    opened = [i for i in reported if i.opened_at > label.start]
    if not opened:
        return False
    first = min(i.opened_at for i in opened)
    soon = [i for i in opened if i.opened_at <= first + 2 * length]
    top = max(soon, key=lambda i: (i.finding.score, i.id))
    return top.finding.cause in label.accept


def _row(
    method: str,
    results: Sequence[dict[str, Any]],
    against: Sequence[dict[str, Any]],
    tables: dict[str, Any],
) -> dict[str, Any]:
    mine = results if method in ("excess", "paper") else against

    def total(kind: str, field: str) -> float | None:
        cells = [c["methods"].get(method) for c in mine if c["kind"] == kind]
        return sum(c[field] for c in cells) if cells and all(cells) else None

    def of(kind: str, field: str, whole: str = "cases") -> str:
        part = total(kind, field)
        return "–" if part is None else f"{part} of {total(kind, whole)}"

    def weekly(kind: str) -> str:
        weeks = sum(c["weeks"] for c in results if c["kind"] == kind)
        outside = total(kind, "outside")
        return "–" if outside is None else f"{outside / weeks:.2f}"

    weeks = [c["methods"].get(method) for c in mine if c["kind"] == "week"]
    delays = [d for scored in weeks if scored for d in scored["delays"]]
    minutes = [
        (np.inf if taken is None else taken, label in scored["strong"])
        for scored in weeks
        if scored
        for label, taken in scored.get("minutes", {}).items()
    ]
    f1 = [t["f1"].get(method) for t in tables.values()]
    return {
        "method": method,
        "cities any": of("city", "any"),
        "first": of("city", "first"),
        "quiet days": of("city", "quiet_days_alarmed", "quiet_days"),
        "hotel": of("hotel", "any"),
        "weeks": of("week", "any"),
        "first w": of("week", "first"),
        "exact": of("week", "exact"),
        "delay": f"{np.mean(delays):.1f}" if delays else "–",
        "minutes": _median([taken for taken, _ in minutes]),
        "strong": _median([taken for taken, strong in minutes if strong]),
        "false/week": weekly("quiet"),
        "drift": weekly("drift"),
        "promo": weekly("promotions"),
        "rca F1": "–" if not f1 or f1[0] is None else f"{f1[0]:.3f}",
    }


def _median(minutes: Sequence[float]) -> str:
    """From the beginning to the first right alarm; what was missed never came."""
    return f"{np.median(minutes):.0f} ({len(minutes)})" if minutes else "–"


def _public(cell: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cell.items() if name != "key"}


def _draw(results: Sequence[dict[str, Any]], path: Path | None) -> None:
    sets = {}
    for title, kind in (("quiet days of flights", "city"), ("quiet simulated weeks", "quiet")):
        documents = [c["p"] for c in results if c["kind"] == kind and c["p"]]
        counts = joined(documents)
        if counts:
            sets[title] = counts
    if path is not None and sets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(picture(sets), "utf-8")
        Console().print(f"calibration: {path}")


Case = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


def _cases(truth: Path) -> Iterator[tuple[Case, set[Cause]]]:
    with truth.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            causes = {
                Cause.of(**dict(part.split("=", 1) for part in element.split("&")))
                for element in row["set"].split(";")
            }
            with (truth.parent / f"{row['timestamp']}.csv").open(newline="") as leaf:
                rows = list(csv.DictReader(leaf))
            columns = {
                name: np.array([r[name] for r in rows])
                for name in rows[0]
                if name not in ("real", "predict")
            }
            amounts = [np.array([float(r[c]) for r in rows]) for c in ("real", "predict")]
            yield (columns, amounts[0], amounts[1]), causes


def _adtributor(
    columns: dict[str, np.ndarray], observed: np.ndarray, expected: np.ndarray
) -> set[Cause]:
    best: tuple[float, set[Cause]] = (0.0, set())
    for name, values in columns.items():
        found, code = np.unique(values, return_inverse=True)
        chosen = peers.elements(
            np.bincount(code, observed), np.bincount(code, expected),
            observed.sum(), expected.sum(),
        )  # fmt: skip
        surprise = sum(s for _, s in chosen)
        if surprise > best[0]:
            best = surprise, {Cause.of(**{name: str(found[i])}) for i, _ in chosen}
    return best[1]


def _f1(counts: np.ndarray) -> float:
    right, wrong, missed = (int(c) for c in counts)
    return 2 * right / max(2 * right + wrong + missed, 1)


if __name__ == "__main__":
    main()
