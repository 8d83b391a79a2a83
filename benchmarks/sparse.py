"""Large sparse graphs, and the price of the constraint: `python -m benchmarks.sparse --json OUT`.

ER-2 graphs, n = 1,000 rows of standard Gaussian noise: the ordering start by residual-screened
peeling, and LEAST-SP alone on a screened support, whose δ and h are written stage by stage. Then δ
with its gradient, against the matrix exponential that it replaces, on the same dense matrix. Set
OMP_NUM_THREADS=1 for one core. With `--json OUT` finished rows are kept in OUT's name with the
ending .cells.jsonl, and the same command goes on from there.
"""

from __future__ import annotations

import csv
import resource
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.linalg
from rich.progress import Progress, TaskID

from benchmarks._cells import Cells, digest_of
from benchmarks._figure import panels
from benchmarks._report import arguments, machine, publish
from least import sparse
from least.acyclicity import bound_gradient, printed_bound

PAPER = Path(__file__).parent / "figures" / "paper_scalability.csv"


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--starts", nargs="+", default=["ordering", "random"])
    parser.add_argument("--sweeps", type=int, default=2, help="screenings of leftovers; LEAST-SP")
    parser.add_argument("--svg", type=Path, help="draw δ and h beside the paper's curves")
    parser.add_argument("--dense-nodes", type=int, default=2_000, help="for the constraint alone")
    asked = parser.parse_args()
    where = machine()
    cells = Cells(asked.json and asked.json.with_suffix(".cells.jsonl"))
    source = digest_of(
        "graphs", "lagrangian", "peeling", "problem", "screening", "sparse", "sparse_kernels",
        "sparse_problem",
    )  # fmt: skip
    rows, curves, ready = [], [], set()
    with Progress(transient=True) as progress:
        bar = progress.add_task("")
        for d in asked.nodes:
            for start in asked.starts:
                key = (d, asked.rows, start, asked.sweeps if start == "random" else 0, source)
                cell = cells.get(key)
                if cell is None:
                    if start not in ready:
                        sparse.fit(_case(100, 200, 1)[0], start=start)  # numba compiles
                        ready.add(start)
                    cell = cells.add(key, _measure(d, asked, start, progress, bar))
                rows.append(cell["row"])
                curves += [{"d": d, **point} for point in cell["curve"]]
    publish(f"Sparse learning, n = {asked.rows}", rows, where, asked.json)
    if curves:
        out = asked.json and asked.json.with_suffix(".curves.json")
        publish("LEAST-SP by stage; h of large components is a lower bound", curves, where, out)
        if asked.svg:
            asked.svg.parent.mkdir(parents=True, exist_ok=True)
            asked.svg.write_text(_drawn(curves), "utf-8")
    if asked.dense_nodes:
        constraint = _constraint(asked.dense_nodes)
        out = asked.json and asked.json.with_suffix(".constraint.json")
        publish(
            f"The constraint with its gradient, d = {asked.dense_nodes}", constraint, where, out
        )


def _measure(d: int, asked: Any, start: str, progress: Progress, bar: TaskID) -> dict[str, object]:
    x, sources, targets = _case(d, asked.rows, 0)
    stages: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()

    def show(stage: str, done: int, of: int) -> None:
        progress.update(bar, description=f"d={d} {stage}", completed=done, total=of)
        if stage == "LEAST-SP":
            stages.append(time.perf_counter() - began)

    options = sparse.ANNEALED.but(terminate_on="h") if start == "random" else None
    fit = sparse.fit(x, start=start, sweeps=asked.sweeps, options=options, progress=show)  # type: ignore[arg-type]
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    f1, wrong_way = _score(fit.weights, sources, targets, d)
    row = {
        "d": d, "start": start, "F1": f1, "reversed": wrong_way, "seconds": seconds,
        "CPU seconds": cpu, "support": fit.support, "learned": int(fit.weights.nnz),
        "true": len(sources), "threshold": fit.threshold, "status": fit.status.value,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip
    curve = [
        {"stage": i, "seconds": ended, "η": step.eta, "δ": step.delta, "h": step.h}
        for i, (step, ended) in enumerate(
            zip(fit.history, [*stages[1:], seconds], strict=True), start=1
        )
        if start == "random"
    ]
    return {"row": row, "curve": curve}


def _drawn(curves: list[dict[str, Any]]) -> str:
    series: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    sizes = sorted({point["d"] for point in curves})
    for point in curves:
        for name in ("δ", "h"):
            if point[name] and point[name] > 0:
                lines = series.setdefault(("measure", f"d = {point['d']:,}, minutes"), {})
                lines.setdefault(name, []).append((point["seconds"] / 60, point[name]))
    with PAPER.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["hours"]) > 0 and float(row["value"]) > 0:
                lines = series.setdefault(("measure", f"paper: {row['dataset']}, hours"), {})
                name = {"delta": "δ", "h": "h"}[row["constraint"]]
                lines.setdefault(name, []).append((float(row["hours"]), float(row["value"])))
    columns = [f"d = {d:,}, minutes" for d in sizes]
    columns += sorted({column for _, column in series} - set(columns))
    return panels(series, ["measure"], columns, logarithmic=("measure",))


def _case(d: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X and the edges of a random acyclic graph with 2·d edges, without a (d, d) matrix."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, d, (3 * d, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    ends = ends[np.sort(rng.permutation(len(ends))[: 2 * d])]
    ends = ends[np.lexsort((ends[:, 0], ends[:, 1]))]
    weights = rng.uniform(0.5, 2, len(ends)) * rng.choice([-1.0, 1.0], len(ends))
    x = rng.standard_normal((d, rows), dtype=np.float32)
    _propagate(x, ends, weights.astype(np.float32))
    label = rng.permutation(d)
    shuffled = np.empty_like(x)
    shuffled[label] = x
    return shuffled.T, label[ends[:, 0]], label[ends[:, 1]]


@numba.njit
def _propagate(x: np.ndarray, ends: np.ndarray, weights: np.ndarray) -> None:
    for e in range(len(ends)):
        cause, effect = ends[e]
        for i in range(x.shape[1]):
            x[effect, i] += weights[e] * x[cause, i]


def _score(weights: object, sources: np.ndarray, targets: np.ndarray, d: int) -> tuple[float, int]:
    learned = weights.tocoo()  # type: ignore[attr-defined]
    found = learned.row.astype(np.int64) * d + learned.col
    true, opposite = sources * np.int64(d) + targets, targets * np.int64(d) + sources
    right = np.isin(found, true).sum()
    return float(2 * right / (len(found) + len(true))), int(np.isin(found, opposite).sum())


def _constraint(d: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(d, d)) / d
    np.fill_diagonal(w, 0)

    def factored() -> None:
        bound_gradient(w * w, 5, 0.9).by_weight(w)

    def exponential() -> None:
        e = scipy.linalg.expm(w * w)  # value Tr e − d and gradient eᵀ ∘ 2W
        np.trace(e), e.T * 2 * w

    methods = {
        "δ, factored": factored,
        "δ, as printed": lambda: printed_bound(w, 5, 0.9),
        "h, matrix exponential": exponential,
    }
    rows: list[dict[str, object]] = []
    for name, run in methods.items():
        times = []
        for _ in range(3):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        rows.append({"method": name, "d": d, "seconds": min(times)})
    return rows


if __name__ == "__main__":
    main()
