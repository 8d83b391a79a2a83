"""Gene networks, real and simulated: `python -m benchmarks.genes --data FOLDER --json OUT`.

The folder holds `sachs/` (7,466 cells × 11 proteins; the 17-edge graph of bnlearn) and `gnw/`
(GeneNetWeaver: five DREAM4 networks of 100 genes; E. coli with 1,565 genes; the yeast network of
4,441 genes, without expression). Expression columns are standardised, because their scales mean
nothing; so the ordering start has little to go by, and rows without it stand beside it. On the
yeast network data are drawn from a linear model along it, cycles cut, so that row shows scale and
no biology. Everything is computed from counts, beside the paper's counts where it prints some (its
gene table's F1 contradict them). A random graph with as many edges as the first row is the floor.
"""

from __future__ import annotations

import csv
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks._peers import peers
from benchmarks._report import arguments, machine, publish
from least import Least
from least.graphs import cut_cycles
from least.scores import auc, score
from least.synthetic import random_weights, sample

THRESHOLD = 0.1


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, default=Path("data/structure"))
    parser.add_argument("--ecoli", action="store_true", help="also the 1,565 genes (minutes)")
    parser.add_argument("--yeast", action="store_true", help="also the yeast network (minutes)")
    parser.add_argument("--dagma-nets", type=int, nargs="*", default=[1], help="it is slow")
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
    if asked.yeast:
        cases.append(("yeast network, linear model", *_yeast(asked.data / "gnw")))
    rows = []
    for name, x, true in cases:
        simulated = name.startswith("yeast")
        threshold = 0.3 if simulated else THRESHOLD
        x = x - x.mean(0) if simulated else (x - x.mean(0)) / x.std(0)
        methods = _methods(len(true), threshold, not simulated)
        nets = ["Sachs, 853 cells", *(f"DREAM4 net {i}" for i in asked.dagma_nets)]
        if "DAGMA" in found and name in nets:
            methods["DAGMA"] = found["DAGMA"]
        for method, learn in methods.items():
            if method.startswith("LEAST"):
                learn(x[:60, :60])  # imports and compiles
            began = time.process_time()
            weights = learn(x)
            seconds = time.process_time() - began
            rows.append(_row(name, method, weights, true, seconds, threshold))
        edges = rows[-len(methods)]["learned"]
        rng = np.random.default_rng(0)
        blind = np.zeros(true.shape)
        pairs = np.flatnonzero(~np.eye(len(true), dtype=bool))
        blind.flat[rng.choice(pairs, edges, replace=False)] = 1
        rows.append(_row(name, "random graph", blind, true, 0.0, threshold))
        rows += [_printed(name, len(true), counts) for case, counts in PAPER if case == name]
    publish("Gene networks", rows, where, asked.json)


PAPER = (
    ("Sachs, 853 cells", (17, 15, 7)),
    ("E. coli", (3648, 234, 99)),
    ("yeast network, linear model", (12873, 794, 411)),
)
"""The paper's LEAST: true, learned and right edges; its data are others than these."""


def _methods(
    d: int, threshold: float, standardised: bool
) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    def least(start: Any, **settings: Any) -> Callable[[np.ndarray], np.ndarray]:
        def learn(x: np.ndarray) -> np.ndarray:
            weights = Least(start, threshold=threshold, **settings).fit(x).weights_
            return weights.toarray() if "backend" in settings else weights

        return learn

    if d > 500:
        alone = {"LEAST-SP alone": least("random", backend="sparse")}
        if standardised:
            return alone
        return {**alone, "LEAST-SP, ordering start": least("ordering", backend="sparse")}
    return {
        "LEAST, ordering start": least("ordering"),
        "LEAST alone": least("random"),
        "LEAST, likelihood any": least("likelihood", noise="any"),
        "LEAST, likelihood nongaussian": least("likelihood", noise="nongaussian"),
    }


def _printed(name: str, d: int, counts: tuple[int, int, int]) -> dict[str, object]:
    true, learned, right = counts
    return {
        "data": name, "method": "paper's LEAST, from its counts", "learned": learned, "true": true,
        "right": right, "reversed": "–", "F1": 2 * right / (learned + true), "skeleton F1": "–",
        "FDR": (learned - right) / learned, "TPR": right / true,
        "FPR": (learned - right) / (d * (d - 1) / 2 - true), "SHD": "–", "AUC": "–",
        "CPU seconds": "–",
    }  # fmt: skip


def _row(
    name: str,
    method: str,
    weights: np.ndarray,
    true: np.ndarray,
    seconds: float,
    threshold: float,
) -> dict[str, object]:
    counts = score(np.abs(weights) > threshold, true)
    return {
        "data": name, "method": method, "learned": counts.learned, "true": counts.true,
        "right": counts.right, "reversed": counts.reversed, "F1": counts.f1,
        "skeleton F1": counts.skeleton_f1, "FDR": counts.fdr, "TPR": counts.tpr,
        "FPR": counts.fpr, "SHD": counts.shd, "AUC": auc(weights, true), "CPU seconds": seconds,
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


def _yeast(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """As many rows as genes, from X = XW + E with |W| from U[0.5, 2] over √(parents)."""
    with gzip.open(folder / "yeast_balaji2006_edges.csv.gz", "rt") as file:
        edges = [(row["regulator"], row["target"]) for row in csv.DictReader(file)]
    names = sorted({name for edge in edges for name in edge})
    rng = np.random.default_rng(0)
    weights = random_weights(_graph(names, edges), rng)
    weights = cut_cycles(sp.csr_array(weights)).toarray()
    weights /= np.sqrt(np.maximum((weights != 0).sum(0), 1))
    return sample(weights, len(names), rng), weights != 0


def _matrix(table: object) -> np.ndarray:
    columns = table.columns  # type: ignore[attr-defined]
    return np.column_stack([column.to_numpy().astype(float) for column in columns])


if __name__ == "__main__":
    main()
