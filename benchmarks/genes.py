"""Real and simulated gene expression with known networks: `python -m benchmarks.genes --json OUT`.

Data folder (`--data`): `sachs/` (7,466 cells × 11 proteins; the 17-edge graph of bnlearn) and
`gnw/` (GeneNetWeaver: five DREAM4 networks of 100 genes, E. coli with 1,565). Expression columns
are standardised, because their scales mean nothing; so the ordering start has little to go by, and
a row without it stands beside it. Everything is computed from counts. A random graph with as many
edges as the first row found is the floor.
"""

from __future__ import annotations

import csv
import gzip
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks._peers import peers
from benchmarks._report import arguments, machine, publish
from least import Least
from least.scores import auc, score

THRESHOLD = 0.1


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, default=Path("data/structure"))
    parser.add_argument("--ecoli", action="store_true", help="also the 1,565 genes (minutes)")
    parser.add_argument("--dream4", type=int, nargs="*", default=[1, 2, 3, 4, 5], help="nets")
    asked = parser.parse_args()
    where = machine()
    if not asked.data.is_dir():
        parser.error(f"{asked.data} is not there: name the folder with --data")
    found, missing = peers()
    print("not measured, because it cannot be imported:", "; ".join(missing) or "nothing")
    cases = [("Sachs, 853 cells", *_sachs(asked.data / "sachs"))]
    cases += [(f"DREAM4 net {i}", *_dream4(asked.data / "gnw", i)) for i in asked.dream4]
    if asked.ecoli:
        cases.append(("E. coli", *_ecoli(asked.data / "gnw")))
    rows = []
    for name, x, true in cases:
        x = (x - x.mean(0)) / x.std(0)
        methods = {
            "LEAST, ordering start": lambda x: Least(threshold=THRESHOLD).fit(x).weights_,
            "LEAST alone": lambda x: Least("random", threshold=THRESHOLD).fit(x).weights_,
        }
        if len(true) > 500:
            methods = {
                f"LEAST-SP, {start}": lambda x, start=start: Least(
                    start, threshold=THRESHOLD, backend="sparse"
                ).fit(x).weights_.toarray()
                for start in ("ordering", "random")
            }  # fmt: skip
        elif "DAGMA" in found:
            methods["DAGMA"] = found["DAGMA"]
        for method, learn in methods.items():
            if method.startswith("LEAST"):
                learn(x[:60])  # imports, and compiles for this size
            began = time.perf_counter()
            weights = learn(x)
            rows.append(_row(name, method, weights, true, time.perf_counter() - began))
        edges = rows[-len(methods)]["learned"]
        rng = np.random.default_rng(0)
        blind = np.zeros(true.size)
        blind[rng.choice(true.size, edges, replace=False)] = 1
        rows.append(_row(name, "random graph", blind.reshape(true.shape), true, 0.0))
    publish(f"Gene networks, standardised, threshold {THRESHOLD}", rows, where, asked.json)


def _row(
    name: str, method: str, weights: np.ndarray, true: np.ndarray, seconds: float
) -> dict[str, object]:
    counts = score(np.abs(weights) > THRESHOLD, true)
    return {
        "data": name, "method": method, "learned": counts.learned, "true": counts.true,
        "right": counts.right, "reversed": counts.reversed, "F1": counts.f1,
        "skeleton F1": counts.skeleton_f1, "FDR": counts.fdr, "TPR": counts.tpr,
        "FPR": counts.fpr, "SHD": counts.shd, "AUC": auc(weights, true), "seconds": seconds,
    }  # fmt: skip


def _graph(names: list[str], edges: list[tuple[str, str]]) -> np.ndarray:
    index = {name: i for i, name in enumerate(names)}
    true = np.zeros((len(names), len(names)), bool)
    for cause, effect in edges:
        if cause != effect and cause in index and effect in index:
            true[index[cause], index[effect]] = True
    return true


def _sachs(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    graphs = json.loads((folder / "graphs.json").read_text())
    table = pq.read_table(folder / "sachs_continuous_7466.parquet")
    x = np.column_stack([table[name].to_numpy() for name in graphs["nodes"]])
    kept = table["cd3cd28_only"].to_numpy() == 1
    return np.log(x[kept] + 1), _graph(graphs["nodes"], graphs["bnlearn_17"])


def _dream4(folder: Path, net: int) -> tuple[np.ndarray, np.ndarray]:
    table = pq.read_table(folder / f"dream4_size100/net{net}_multifactorial_1000.parquet")
    with (folder / "dream4_size100/goldstandard_edges.csv").open() as file:
        edges = [
            (row["regulator"], row["target"])
            for row in csv.DictReader(file)
            if int(row["net"]) == net
        ]
    return _matrix(table), _graph(table.column_names, edges)


def _ecoli(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pq.read_table(folder / "ecoli_multifactorial_1565_int1e4.parquet")
    with gzip.open(folder / "ecoli_regulondb67_edges.csv.gz", "rt") as file:
        edges = [(row["regulator"], row["target"]) for row in csv.DictReader(file)]
    return _matrix(table), _graph(table.column_names, edges)


def _matrix(table: object) -> np.ndarray:
    columns = table.columns  # type: ignore[attr-defined]
    return np.column_stack([column.to_numpy().astype(float) for column in columns])


if __name__ == "__main__":
    main()
