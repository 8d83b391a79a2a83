"""Writes tables of the documentation from benchmarks/results: `python -m benchmarks._tables`.

In docs/benchmarks.md and docs/least-starts.md a table stands between `<!-- table NAME -->` and
`<!-- end -->`; everything else is left alone. A test holds the documents to the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
DOCUMENTS = [ROOT.parent / "docs" / name for name in ("benchmarks.md", "least-starts.md")]
Row = dict[str, Any]

METHODS = (
    "LEAST, ordering start", "LEAST, likelihood similar", "LEAST, likelihood any",
    "LEAST, likelihood nongaussian", "LEAST alone", "bare ordering", "sortnregress", "DAGMA",
    "NOTEARS",
)  # fmt: skip


def main() -> None:
    """Rewrite the documents."""
    for document in DOCUMENTS:
        document.write_text(rendered(document.read_text("utf-8")), "utf-8")


def rendered(text: str) -> str:
    """The document with all its tables made anew."""

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def _rows(name: str) -> list[Row]:
    rows: list[Row] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["rows"]
    return rows


def _machine() -> str:
    found = json.loads((RESULTS / "learner.json").read_text("utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{found['processor'].strip()}, {found['cores']} cores; {versions}."


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(_shown, row)) + " |" for row in rows])


def _shown(value: Any) -> str:
    if isinstance(value, float):
        if not np.isfinite(value):
            return "–"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _accuracy(data: str) -> str:
    rows = [row for row in _rows("learner") if row["data"] == data]
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    cells = {(r["graph"], r["noise"], r["d"], r["method"]): r for r in rows}
    settings = sorted({key[:3] for key in cells}, key=lambda k: (k[0], k[2], k[1]))
    lines = []
    for setting in settings:
        line: list[Any] = [setting[0], setting[1], setting[2]]
        for method in methods:
            cell = cells.get((*setting, method))
            line.append("" if cell is None else _f1(cell))
        if data == "raw":
            printed = next((cells[(*setting, m)]["paper's F1"] for m in METHODS
                            if (*setting, m) in cells and m.startswith("LEAST")), "–")  # fmt: skip
            line.append("–" if isinstance(printed, str) else f"{printed:.3f}")
        lines.append(line)
    paper = ["paper's LEAST"] if data == "raw" else []
    return _table(["graph", "noise", "d", *methods, *paper], lines)


def _f1(cell: Row) -> str:
    if isinstance(cell["F1"], str):
        return "stopped"
    return f"{cell['F1']:.3f}" + (f" ({cell['seeds']})" if cell["seeds"] < 10 else "")


def _starts(data: str) -> str:
    """Methods line by line at d = 50, means over the noises they were run on."""
    rows = [row for row in _rows("learner") if row["data"] == data and row["d"] == 50]
    lines = []
    for method in METHODS:
        line: list[Any] = [method]
        for graph in ("ER-2", "SF-4"):
            mine = [r for r in rows if (r["method"], r["graph"]) == (method, graph)]
            done = [row for row in mine if not isinstance(row["F1"], str)]
            if not done:
                line += [""] * 4
                continue
            line += [
                f"{np.mean([row[field] for row in done]):.2f}" for field in ("F1", "skeleton F1")
            ]
            line.append(f"{sum(row['seeds'] for row in done)}, {len(done)} of 3 noises")
            line.append(float(np.mean([row["CPU seconds"] for row in done])))
        if any(line[1:]):
            lines.append(line)
    head = [f"{graph}, {name}" for graph in ("ER-2", "SF-4")
            for name in ("F1", "skeleton F1", "fits", "CPU seconds")]  # fmt: skip
    return _table(["method", *head], lines)


def _times() -> str:
    rows = [r for r in _rows("learner") if r["data"] == "raw" and r["noise"] == "gaussian"]
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    cells = {(r["graph"], r["d"], r["method"]): r["CPU seconds"] for r in rows}
    settings = sorted({key[:2] for key in cells})
    return _table(
        ["graph", "d", *methods],
        [[*s, *(cells.get((*s, m), "") for m in methods)] for s in settings],
    )


def _plain(name: str, columns: tuple[str, ...]) -> Callable[[], str]:
    def render() -> str:
        return _table(list(columns), [[row.get(c, "") for c in columns] for row in _rows(name)])

    return render


def _sparse() -> str:
    columns = ("d", "start", "F1", "CPU seconds", "seconds", "peak GB", "support", "threshold")
    rows = [row for name in ("sparse", "sparse_ordering", "sparse_large") for row in _rows(name)]
    return _table(list(columns), [[row.get(c, "") for c in columns] for row in rows])


def _curves() -> str:
    rows = [r for r in _rows("sparse_large.curves") if r["stage"] % 3 == 1 or r["stage"] == 16]
    lines = [[r["stage"], r["seconds"] / 60, r["η"], r["δ"], r["h"]] for r in rows]
    return _table(["stage", "minutes", "η", "δ", "h"], lines)


def _soak() -> str:
    columns = ("day", "seconds", "ticks", "resident_mb", "store_mb", "incidents_kept", "sent")
    rows = [row for row in _rows("soak") if row["day"] in (1, 5, 10, 15, 20, 25, 30)]
    return _table(
        [c.replace("_", " ") for c in columns], [[row[c] for c in columns] for row in rows]
    )


TRUTH = (
    "incidents", "n", "found", "first", "exact", "partly", "delay", "mean",
    "code told", "one", "open", "beside", "false/week",
)  # fmt: skip

TABLES: dict[str, Callable[[], str]] = {
    "machine": _machine,
    "raw": lambda: _accuracy("raw"),
    "unequal": lambda: _accuracy("unequal"),
    "standardised": lambda: _accuracy("standardised"),
    "starts-standardised": lambda: _starts("standardised"),
    "starts-unequal": lambda: _starts("unequal"),
    "starts-raw": lambda: _starts("raw"),
    "times": _times,
    "ratios": _plain(
        "learner.ratios",
        ("graph", "noise", "data", "d", "peer", "against", "seeds", "median", "least", "most",
         "lower bound"),
    ),
    "correlation": _plain(
        "learner.correlation", ("graph", "noise", "d", "runs", "correlation", "paper's")
    ),
    "sparse": _sparse,
    "curves": _curves,
    "constraint": _plain("sparse.constraint", ("method", "d", "seconds")),
    "genes": _plain(
        "genes",
        ("data", "method", "learned", "true", "right", "reversed", "F1", "skeleton F1", "FDR",
         "TPR", "AUC", "CPU seconds"),
    ),
    "films": _plain(
        "movielens",
        ("columns", "films", "users", "edges", "positive", "in, 50 most rated",
         "out, 50 most rated", "rank correlation of ratings and in − out", "CPU seconds"),
    ),
    "film-edges": _plain("movielens.edges", ("columns", "from", "to", "weight")),
    "kafka": _plain("kafka", ("", "records/s", "of the peer", "records/CPU s", "of the peer, CPU")),
    "resident": _plain(
        "resident",
        ("when", "resident MB", "peak MB", "nodes", "ticks", "seconds", "tick without fit s"),
    ),
    "readers": _plain(
        "readers", ("readers", "requests", "p50 ms", "p99 ms", "max ms", "tick s", "fit s")
    ),
    "explore": _plain("explore", ("question", "asked", "p50 ms", "p99 ms", "max ms")),
    "soak": _soak,
    "truth": _plain("detection", TRUTH),
    "memory": _plain(
        "memory", ("kind", "fits", "MB before", "MB after", "growth %", "CPU ms per fit")
    ),
}  # fmt: skip


if __name__ == "__main__":
    main()
