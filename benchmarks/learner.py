"""Accuracy and time on the paper's artificial data: `python -m benchmarks.learner --json OUT`.

ER-2 and SF-4 graphs, three noises, n = 10·d rows. Three versions of the same data stand side by
side: raw; standardised columns, which hide the order that raw variances leak; and noise deviations
drawn from U[0.5, 2]. What carries a result is kept apart: LEAST alone, LEAST with an ordering or a
likelihood start, the bare ordering. Peers see the same rows in the same process, back to back.

Seeds begin at 5,000: none of them was looked at while settings were chosen. Set OMP_NUM_THREADS=1
for one thread each (LEAST's TensorFlow takes one by itself). Seconds are whole fits from X, without
imports and without the first, compiling, fit of a kind. With `--json OUT` every finished fit is
kept in OUT's name with the ending .cells.jsonl; the same command goes on from there. Fits of LEAST
are measured again when its sources have changed.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks._cells import Cells, digest_of, time_limit
from benchmarks._figure import panels
from benchmarks._peers import peers
from benchmarks._report import arguments, machine, publish
from least import Least, Options
from least.ordering import conditional_variance_order, regress_along
from least.scores import auc, score
from least.synthetic import random_graph, random_weights, sample

FIGURE = Path(__file__).parent / "figures" / "paper_benchmark.csv"
NOISES = ("gaussian", "exponential", "gumbel")
GRAPHS = {"ER-2": ("ER", 2), "SF-4": ("SF", 4)}
DATA = ("raw", "unequal", "standardised")
THRESHOLDS = {"raw": 0.3, "unequal": 0.3, "standardised": 0.05}
"""Weights of standardised columns are smaller; the same for every method."""
FIRST_SEED = 5_000
SLOW = ("DAGMA", "NOTEARS")
TIMED_BESIDE = ("LEAST, ordering start", "LEAST, likelihood similar", "LEAST alone")
"""Run once more right after a slow peer, on its rows: the ratios come from these pairs."""
SOURCES = (
    "acyclicity", "dense", "estimator", "graphs", "lagrangian", "likelihood", "likelihood_kernels",
    "ordering", "problem", "synthetic",
)  # fmt: skip
Learner = Callable[[np.ndarray, float], np.ndarray]


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--peer-seeds", type=int, default=3, help="of DAGMA and NOTEARS: slow")
    parser.add_argument("--notears-nodes", type=int, default=50, help="no NOTEARS above")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one fit of a peer")
    parser.add_argument("--graphs", nargs="+", choices=sorted(GRAPHS), default=sorted(GRAPHS))
    parser.add_argument("--noises", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", help="only these (default: all)")
    parser.add_argument("--report", action="store_true", help="only what was measured before")
    parser.add_argument("--correlations", action="store_true", help="of δ and h, too")
    parser.add_argument("--svg", type=Path, help="draw the paper's figure with these results")
    asked = parser.parse_args()
    where = machine()
    others, missing = peers()
    if missing:
        print("not measured, because it cannot be imported:", "; ".join(missing))
    learners = {**_ours(), **{name: _plain(learn) for name, learn in others.items()}}
    cells = Cells(asked.json and asked.json.with_suffix(".cells.jsonl"))
    source = digest_of(*SOURCES)
    cases = [
        (graph, noise, data, d, FIRST_SEED + seed)
        for data in asked.data
        for d in asked.nodes
        for graph in asked.graphs
        for noise in asked.noises
        for seed in range(asked.seeds)
    ]
    done: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    warm: set[tuple[str, int]] = set()
    with Progress(transient=True) as progress:
        bar = progress.add_task("", total=len(cases))
        for graph, noise, data, d, seed in cases:
            case: tuple[np.ndarray, np.ndarray] | None = None
            for name, learn in learners.items():
                if (asked.methods and name not in asked.methods) or not _sensible(
                    name, noise, data, d, seed - FIRST_SEED, asked
                ):
                    continue
                key = (graph, noise, data, d, name, seed, "" if name in others else source)
                cell = cells.get(key)
                if cell is None:
                    if asked.report:
                        continue
                    progress.update(bar, description=f"{graph} {noise} {data} d={d} {name}")
                    case = case or _case(GRAPHS[graph], noise, data, d, seed)
                    beside = {n: learners[n] for n in TIMED_BESIDE} if name in SLOW else {}
                    for ours in [n for n in (*beside, name) if n not in others]:
                        if (ours, d) not in warm:  # compiles for this size
                            other = _case(GRAPHS[graph], noise, data, d, 0)[1]
                            learners[ours](other, THRESHOLDS[data])
                            warm.add((ours, d))
                    values = _measure(learn, *case, THRESHOLDS[data], asked.limit)
                    for ours, fast in beside.items():
                        again = _measure(fast, *case, THRESHOLDS[data], asked.limit)
                        values.setdefault("beside", {})[ours] = again["cpu"]
                    cell = cells.add(key, values)
                done.setdefault((graph, noise, data, d, name), []).append(cell)
            progress.advance(bar)
    correlations = _correlations(asked) if asked.correlations else []
    if not done:
        parser.error("nothing measured and nothing kept from before")
    rows = _summary(done)
    publish("Structure learning, n = 10 d", rows, where, asked.json)
    ratios = _ratios(done)
    if ratios:
        out = asked.json and asked.json.with_suffix(".ratios.json")
        publish("CPU seconds of a peer over those of LEAST's start", ratios, where, out)
    if correlations:
        out = asked.json and asked.json.with_suffix(".correlation.json")
        publish("Correlation of δ and h along LEAST alone, raw", correlations, where, out)
    if asked.svg:
        _draw(rows, correlations, asked.svg)


def _ours() -> dict[str, Learner]:
    def least(start: str, noise: str | None = None) -> Learner:
        return lambda rows, tau: (
            Least(start, noise=noise, threshold=tau).fit(rows).weights_  # type: ignore[arg-type]
        )

    return {
        "LEAST, ordering start": least("ordering"),
        "LEAST, likelihood similar": least("likelihood", "similar"),
        "LEAST, likelihood any": least("likelihood", "any"),
        "LEAST, likelihood nongaussian": least("likelihood", "nongaussian"),
        "LEAST alone": least("random"),
        "bare ordering": _plain(_bare),
    }


def _plain(learn: Callable[[np.ndarray], np.ndarray]) -> Learner:
    return lambda rows, tau: learn(rows)


def _bare(rows: np.ndarray) -> np.ndarray:
    gram = rows.T @ rows / len(rows)
    return regress_along(gram, conditional_variance_order(gram)[0])


def _sensible(name: str, noise: str, data: str, d: int, seed: int, asked: Any) -> bool:
    """Not: slow peers on every seed, non-Gaussian likelihood of Gaussian noise."""
    if name in SLOW and seed >= asked.peer_seeds:
        return False
    if name == "NOTEARS" and d > asked.notears_nodes:
        return False
    return not (name.endswith("nongaussian") and noise == "gaussian")


def _measure(
    learn: Learner, true: np.ndarray, rows: np.ndarray, threshold: float, limit: float
) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    try:
        with time_limit(limit):
            weights = learn(rows, threshold)
    except TimeoutError:
        return {"timed_out": True, "seconds": limit, "cpu": time.process_time() - cpu}
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = score(np.abs(weights) > threshold, true)
    return {
        "f1": found.f1, "shd": found.shd, "skeleton_f1": found.skeleton_f1, "fdr": found.fdr,
        "tpr": found.tpr, "fpr": found.fpr, "auc": auc(weights, true),
        "seconds": seconds, "cpu": cpu,
    }  # fmt: skip


def _case(
    graph: tuple[str, int], noise: str, data: str, d: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = random_weights(random_graph(graph[0], d, graph[1], rng), rng)  # type: ignore[arg-type]
    deviations = rng.uniform(0.5, 2, d) if data == "unequal" else 1.0
    rows = sample(weights, 10 * d, rng, noise, deviations)  # type: ignore[arg-type]
    rows = rows - rows.mean(0)
    return weights, rows / rows.std(0) if data == "standardised" else rows


def _summary(done: dict[tuple[Any, ...], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    paper = _paper()
    rows = []
    for (graph, noise, data, d, name), cells in done.items():
        ended = [cell for cell in cells if not cell.get("timed_out")]
        row: dict[str, Any] = {"graph": graph, "noise": noise, "data": data, "d": d, "method": name}
        row |= {"seeds": len(cells), "timed out": len(cells) - len(ended)}
        for title, field in (
            ("F1", "f1"), ("SHD", "shd"), ("skeleton F1", "skeleton_f1"), ("FDR", "fdr"),
            ("TPR", "tpr"), ("FPR", "fpr"), ("AUC", "auc"),
        ):  # fmt: skip
            values = [cell[field] for cell in ended]
            row[title] = float(np.mean(values)) if values else "–"
            if title == "F1":
                row["F1 stdev"] = float(np.std(values)) if values else "–"
        row["seconds"] = float(np.median([cell["seconds"] for cell in cells]))
        row["CPU seconds"] = float(np.median([cell["cpu"] for cell in cells]))
        shown = "LEAST" if name.startswith("LEAST") else name
        printed = paper.get(("f1", graph, noise, d, shown)) if data == "raw" else None
        rows.append({**row, "paper's F1": "–" if printed is None else printed})
    return rows


def _ratios(done: dict[tuple[Any, ...], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Peer over LEAST, seed by seed; a peer that was stopped gives a lower bound."""
    rows = []
    for (graph, noise, data, d, name), cells in done.items():
        for ours in TIMED_BESIDE if name in SLOW else ():
            values = [cell["cpu"] / cell["beside"][ours] for cell in cells]
            stopped = any(cell.get("timed_out") for cell in cells)
            rows.append(
                {
                    "graph": graph, "noise": noise, "data": data, "d": d, "peer": name,
                    "against": ours, "seeds": len(values), "median": float(np.median(values)),
                    "least": min(values), "most": max(values),
                    "lower bound": "yes" if stopped else "",
                }
            )  # fmt: skip
    return rows


def _paper() -> dict[tuple[str, str, str, int, str], float]:
    with FIGURE.open(encoding="utf-8") as file:
        return {
            (row["metric"], row["graph"], row["noise"], int(row["d"]), row["method"]): float(
                row["value"]
            )
            for row in csv.DictReader(file)
        }


def _correlations(asked: Any) -> list[dict[str, Any]]:
    """Pearson correlation of δ and h along runs of LEAST alone, as in the paper's figure."""
    paper, rows = _paper(), []
    options = Options.annealed().but(terminate_on="h", inner_steps=40, outer_steps=40)
    options = options.but(eta_growth=Options.annealed().eta_growth ** 0.2)
    for graph in asked.graphs:
        for noise in asked.noises:
            for d in (d for d in asked.nodes if d <= 100):  # as in the paper
                values = []
                for seed in range(min(3, asked.seeds)):
                    _, x = _case(GRAPHS[graph], noise, "raw", d, FIRST_SEED + seed)
                    history = Least("random", options=options).fit(x).fit_.history
                    pairs = [(s.delta, s.h) for s in history if s.h is not None and s.h < 1e12]
                    deltas, hs = np.array(pairs).T
                    if deltas.std() and hs.std():
                        values.append(float(np.corrcoef(deltas, hs)[0, 1]))
                printed = paper.get(("pearson_delta_h", graph, noise, d, "LEAST"), float("nan"))
                mean = float(np.mean(values)) if values else float("nan")
                rows.append(
                    {
                        "graph": graph, "noise": noise, "d": d, "runs": len(values),
                        "correlation": mean, "paper's": printed,
                    }
                )  # fmt: skip
    return rows


def _draw(rows: list[dict[str, Any]], correlations: list[dict[str, Any]], out: Path) -> None:
    """The paper's figure: metrics by settings, its points beside these."""
    series: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}

    def put(metric: str, setting: str, name: str, d: int, value: Any) -> None:
        if isinstance(value, int | float) and np.isfinite(value):
            lines = series.setdefault((metric, setting), {})
            lines.setdefault(name, []).append((d, float(value)))

    for row in rows:
        if row["data"] == "raw":
            setting = f"{row['graph']} {row['noise']}"
            for metric, field in (("F1", "F1"), ("SHD", "SHD"), ("seconds", "seconds")):
                if row["d"] <= 100:
                    put(metric, setting, row["method"], row["d"], row[field])
    for row in correlations:
        setting = f"{row['graph']} {row['noise']}"
        put("correlation δ, h", setting, "LEAST alone", row["d"], row["correlation"])
    titles = {
        "f1": "F1", "shd": "SHD", "seconds": "seconds", "pearson_delta_h": "correlation δ, h",
    }  # fmt: skip
    for (metric, graph, noise, d, method), value in _paper().items():
        if d <= 100:
            put(titles[metric], f"{graph} {noise}", f"paper's {method}", d, value)
    settings = [f"{graph} {noise}" for graph in GRAPHS for noise in NOISES]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        panels(series, list(titles.values()), settings, logarithmic=("SHD", "seconds")), "utf-8"
    )


if __name__ == "__main__":
    main()
