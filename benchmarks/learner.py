"""Accuracy and time on the paper's artificial data: `python -m benchmarks.learner --json OUT`.

ER-2 and SF-4 graphs, three noises, n = 10·d rows. Three versions of the same data stand side by
side: raw; standardised columns, which hide the order that raw variances leak; and noise deviations
drawn from U[0.5, 2]. LEAST alone, LEAST with an ordering start and the bare ordering are rows of
their own. Peers see the same rows in the same process; set OMP_NUM_THREADS=1 for one thread each
(LEAST's TensorFlow takes one by itself). Seconds are whole fits from
X, without imports and without the first, compiling, fit of a kind.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import Progress

from benchmarks._peers import peers
from benchmarks._report import arguments, machine, publish
from least import Least, Options
from least.ordering import conditional_variance_order, regress_along
from least.scores import auc, score
from least.synthetic import random_graph, random_weights, sample

FIGURE = Path(__file__).parent / "figures" / "paper_benchmark.csv"
NOISES = ("gaussian", "exponential", "gumbel")
GRAPHS = {"ER-2": ("ER", 2), "SF-4": ("SF", 4)}
THRESHOLD = 0.3


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--peer-seeds", type=int, default=3, help="of DAGMA and NOTEARS: slow")
    parser.add_argument("--notears-nodes", type=int, default=50, help="no NOTEARS above")
    parser.add_argument("--graphs", nargs="+", choices=sorted(GRAPHS), default=sorted(GRAPHS))
    parser.add_argument("--noises", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument(
        "--data", nargs="+", choices=("raw", "standardised", "unequal"),
        default=["raw", "standardised", "unequal"],
    )  # fmt: skip
    asked = parser.parse_args()
    where = machine()
    others, missing = peers()
    if missing:
        print("not measured, because it cannot be imported:", "; ".join(missing))
    paper = _paper()
    learners: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "LEAST, ordering start": _with_ordering,
        "LEAST alone": _alone,
        "bare ordering": _bare,
        **others,
    }
    rows = []
    cases = [
        (graph, noise, data, d)
        for graph in asked.graphs
        for noise in asked.noises
        for data in asked.data
        for d in asked.nodes
    ]
    with Progress(transient=True) as progress:
        bar = progress.add_task("", total=len(cases) * len(learners))
        for graph, noise, data, d in cases:
            for name, learn in learners.items():
                progress.update(bar, description=f"{graph} {noise} {data} d={d} {name}")
                seeds = asked.peer_seeds if name in ("DAGMA", "NOTEARS") else asked.seeds
                if name != "NOTEARS" or d <= asked.notears_nodes:
                    measured = _measure(learn, GRAPHS[graph], noise, data, d, seeds)
                    row = {"graph": graph, "noise": noise, "data": data, "d": d, "method": name}
                    printed = paper.get((graph, noise, d), "–") if data == "raw" else "–"
                    rows.append({**row, **measured, "paper's LEAST F1": printed})
                progress.advance(bar)
    publish("Structure learning, n = 10 d", rows, where, asked.json)
    _correlation()


def _measure(
    learn: Callable[[np.ndarray], np.ndarray],
    graph: tuple[str, int],
    noise: str,
    data: str,
    d: int,
    seeds: int,
) -> dict[str, float]:
    results, seconds = [], []
    if learn.__module__ != "benchmarks._peers":
        learn(_case(graph, noise, data, d, 10_000)[1])  # compiles for this size
    for seed in range(seeds):
        true, rows = _case(graph, noise, data, d, seed)
        began = time.perf_counter()
        weights = learn(rows)
        seconds.append(time.perf_counter() - began)
        found = score(np.abs(weights) > _threshold(rows), true)
        results.append((found.f1, found.shd, auc(weights, true)))
    f1, shd, area = np.array(results).T
    return {
        "seeds": seeds, "F1": float(f1.mean()), "F1 stdev": float(f1.std()),
        "SHD": float(shd.mean()), "AUC": float(area.mean()), "seconds": float(np.median(seconds)),
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


def _with_ordering(rows: np.ndarray) -> np.ndarray:
    return Least(threshold=_threshold(rows)).fit(rows).weights_


def _alone(rows: np.ndarray) -> np.ndarray:
    return Least("random", threshold=_threshold(rows)).fit(rows).weights_


def _threshold(rows: np.ndarray) -> float:
    """Weights of standardised columns are smaller."""
    return 0.1 if np.allclose(rows.std(0), 1) else THRESHOLD


def _bare(rows: np.ndarray) -> np.ndarray:
    gram = rows.T @ rows / len(rows)
    return regress_along(gram, conditional_variance_order(gram)[0])


def _paper() -> dict[tuple[str, str, int], float]:
    with FIGURE.open(encoding="utf-8") as file:
        return {
            (row["graph"], row["noise"], int(row["d"])): float(row["value"])
            for row in csv.DictReader(file)
            if row["metric"] == "f1" and row["method"] == "LEAST"
        }


def _correlation() -> None:
    """Pearson correlation of δ and h along one run, as in the paper's figure."""
    _, rows = _case(("ER", 2), "gaussian", "raw", 50, 0)
    options = Options.annealed().but(terminate_on="h")
    history = Least("random", options=options).fit(rows).fit_.history
    pairs = [(step.delta, step.h) for step in history if step.h is not None and step.h < 1e12]
    deltas, hs = np.array(pairs).T
    print(
        f"correlation of δ and h over {len(pairs)} outer steps: {np.corrcoef(deltas, hs)[0, 1]:.3f}"
    )


if __name__ == "__main__":
    main()
