"""The command line: `least fit TABLE -o GRAPH`.

Exit codes: 0 success, 1 the data cannot be fitted, 2 wrong usage.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import numpy as np
import typer

from least.problem import Fit, ProblemError

app = typer.Typer(
    name="least",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learns the structure of a linear Bayesian network from a table.",
)


STARTS = ("ordering", "likelihood", "random")
NOISES = ("similar", "any", "nongaussian")


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


@app.callback()
def _main() -> None:
    pass


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help="Parquet or CSV, one column per variable.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Graph as .json, .graphml or .csv.")
    ],
    columns: Annotated[
        str, typer.Option(help="Comma-separated columns; all numeric ones by default.")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            help="ordering (assumes equal noise variances), likelihood (see --noise) or random "
            "(LEAST alone)."
        ),
    ] = "ordering",
    noise: Annotated[
        str,
        typer.Option(
            help="For --start likelihood: similar (variances about one another), any (columns of "
            "unlike scales) or nongaussian."
        ),
    ] = "similar",
    threshold: Annotated[float, typer.Option(help="Weights up to this are no edge.")] = 0.3,
    backend: Annotated[
        str, typer.Option(help="tf, dense; or sparse, for thousands of columns.")
    ] = "tf",
    standardise: Annotated[bool, typer.Option(help="Divide columns by their deviations.")] = False,
    forbid: Annotated[
        list[str] | None, typer.Option(help="An edge CAUSE:EFFECT that cannot exist; repeatable.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="An edge CAUSE:EFFECT that must exist; repeatable.")
    ] = None,
) -> None:
    """Fit TABLE and write the learned graph; a summary goes to standard output."""
    if output.suffix not in _WRITERS:
        raise typer.BadParameter(f"{output}: choose .json, .graphml or .csv", param_hint="-o")
    if start not in STARTS:
        raise typer.BadParameter(f"{start}: choose {_either(STARTS)}", param_hint="--start")
    if backend not in ("tf", "sparse"):
        raise typer.BadParameter(f"{backend}: choose tf or sparse", param_hint="--backend")
    if noise not in NOISES:
        raise typer.BadParameter(f"{noise}: choose {_either(NOISES)}", param_hint="--noise")
    try:
        names, values = read_table(table, [c for c in columns.split(",") if c])
        from least.estimator import Least  # TensorFlow only starts inside fit

        model = Least(
            start,  # type: ignore[arg-type]
            noise=noise if start == "likelihood" else None,  # type: ignore[arg-type]
            threshold=threshold,
            standardise=standardise,
            backend=backend,  # type: ignore[arg-type]
            allowed=~_edges(forbid, names) if forbid else None,
            required=_edges(require, names) if require else None,
        ).fit(values)
    except (ProblemError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    _WRITERS[output.suffix](output, names, model.fit_)
    result = model.fit_
    typer.echo(
        f"{len(names)} nodes, {len(_edge_list(names, result.weights))} edges, "
        f"{len(values)} rows; {result.status.value} after {result.steps} steps, "
        f"threshold {result.threshold:.3g} → {output}"
    )


def read_table(path: Path, columns: list[str]) -> tuple[list[str], np.ndarray]:
    """Column names and (n, d) float values of a Parquet or CSV file.

    Without `columns`, every numeric or boolean column.

    Raises:
        ProblemError: unknown suffix or column, a column that is not numeric, missing values.
    """
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            data = pq.read_table(path)
        elif path.name.endswith((".csv", ".csv.gz")):
            import pyarrow.csv

            data = pyarrow.csv.read_csv(path)
        else:
            raise ProblemError(f"{path}: a table must be .parquet, .csv or .csv.gz")
    except pa.ArrowInvalid as error:
        raise ProblemError(f"{path}: {error}") from None
    unknown = [name for name in columns if name not in data.column_names]
    if unknown:
        raise ProblemError(f"no column {unknown[0]!r} in {path}: {', '.join(data.column_names)}")
    if not columns:
        columns = [field.name for field in data.schema if _is_number(field.type)]
    if not columns:
        raise ProblemError(f"{path} has no numeric column")
    arrays = []
    for name in columns:
        column = data[name]
        if not _is_number(column.type):
            raise ProblemError(f"column {name!r} is {column.type}: encode it as numbers first")
        if column.null_count:
            raise ProblemError(f"column {name!r} misses {column.null_count} values: fill or drop")
        arrays.append(np.asarray(column.to_numpy(), float))
    return columns, np.column_stack(arrays)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _edges(pairs: list[str], names: list[str]) -> np.ndarray:
    mask = np.zeros((len(names), len(names)), bool)
    for pair in pairs:
        cause, colon, effect = pair.partition(":")
        if not colon or cause not in names or effect not in names:
            raise ProblemError(f"{pair!r} is not CAUSE:EFFECT with two column names")
        mask[names.index(cause), names.index(effect)] = True
    return mask


def _edge_list(names: list[str], weights: Any) -> list[tuple[str, str, float]]:
    """Strongest first; `weights` dense or scipy.sparse."""
    if isinstance(weights, np.ndarray):
        sources, targets = np.nonzero(weights)
        sizes = weights[sources, targets]
    else:
        coordinates = weights.tocoo()
        sources, targets, sizes = coordinates.row, coordinates.col, coordinates.data
    return [
        (names[sources[e]], names[targets[e]], float(sizes[e]))
        for e in np.argsort(-np.abs(sizes), kind="stable")
    ]


def _write_json(path: Path, names: list[str], fit: Fit) -> None:
    document = {
        "nodes": names,
        "edges": [
            {"source": s, "target": t, "weight": w} for s, t, w in _edge_list(names, fit.weights)
        ],
        "fit": {
            "status": fit.status.value,
            "start": fit.start,
            "steps": fit.steps,
            "delta": fit.delta,
            "threshold": fit.threshold,
            "changed": fit.changed,
        },
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _write_csv(path: Path, names: list[str], fit: Fit) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target", "weight"])
        writer.writerows(_edge_list(names, fit.weights))


def _write_graphml(path: Path, names: list[str], fit: Fit) -> None:
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for key, target, kind in (("name", "node", "string"), ("weight", "edge", "double")):
        attributes = {"id": key, "for": target, "attr.name": key, "attr.type": kind}
        ElementTree.SubElement(root, "key", attributes)
    graph = ElementTree.SubElement(root, "graph", edgedefault="directed")
    for i, name in enumerate(names):
        node = ElementTree.SubElement(graph, "node", id=f"n{i}")
        ElementTree.SubElement(node, "data", key="name").text = name
    index = {name: i for i, name in enumerate(names)}
    for source, target, weight in _edge_list(names, fit.weights):
        ends = {"source": f"n{index[source]}", "target": f"n{index[target]}"}
        edge = ElementTree.SubElement(graph, "edge", ends)
        ElementTree.SubElement(edge, "data", key="weight").text = repr(weight)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


_WRITERS = {".json": _write_json, ".csv": _write_csv, ".graphml": _write_graphml}


def main() -> None:
    """Entry point of the installed command."""
    app()
