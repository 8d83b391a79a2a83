"""A learned graph in the forms that other programs read: edges, DOT, GraphML, JSON, networkx."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from least.problem import Fit, MissingExtraError, Status


class Edge(NamedTuple):
    """One edge of a graph, by the names of its ends (their numbers where there are no names)."""

    source: Any
    target: Any
    weight: float


def edges_of(weights: Any, names: Sequence[Any]) -> list[Edge]:
    """All edges, strongest first.

    Args:
        weights: (d, d), dense or scipy.sparse.
        names: (d,).

    >>> edges_of(np.array([[0, 1.2], [0, 0]]), ["rain", "wet"])
    [Edge(source='rain', target='wet', weight=1.2)]
    """
    if isinstance(weights, np.ndarray):
        sources, targets = np.nonzero(weights)
        sizes = weights[sources, targets]
    else:
        coordinates = weights.tocoo()
        sources, targets, sizes = coordinates.row, coordinates.col, coordinates.data
    return [
        Edge(names[sources[e]], names[targets[e]], float(sizes[e]))
        for e in np.argsort(-np.abs(sizes), kind="stable")
    ]


def as_dot(edges: Sequence[Edge], names: Sequence[Any]) -> str:
    """Graphviz: weights are labels, and what is stronger is drawn thicker.

    >>> print(as_dot([Edge("rain", "wet", 1.234)], ["rain", "wet"]), end="")
    digraph least {
      "rain";
      "wet";
      "rain" -> "wet" [label="1.23", weight=1.234, penwidth=3];
    }
    """
    top = max((abs(edge.weight) for edge in edges), default=1.0)
    lines = [f"  {_quoted(name)};" for name in names]
    for source, target, weight in edges:
        width = 0.5 + 2.5 * abs(weight) / top
        lines.append(
            f"  {_quoted(source)} -> {_quoted(target)} "
            f'[label="{weight:.3g}", weight={abs(weight):.6g}, penwidth={width:.2g}];'
        )
    return "\n".join(["digraph least {", *lines, "}"]) + "\n"


def _quoted(name: Any) -> str:
    text = str(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def as_graphml(edges: Sequence[Edge], names: Sequence[Any]) -> str:
    """GraphML with the attributes `name` and `weight`: Gephi, yEd, networkx."""
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for key, target, kind in (("name", "node", "string"), ("weight", "edge", "double")):
        attributes = {"id": key, "for": target, "attr.name": key, "attr.type": kind}
        ElementTree.SubElement(root, "key", attributes)
    graph = ElementTree.SubElement(root, "graph", edgedefault="directed")
    for i, name in enumerate(names):
        node = ElementTree.SubElement(graph, "node", id=f"n{i}")
        ElementTree.SubElement(node, "data", key="name").text = str(name)
    index = {name: i for i, name in enumerate(names)}
    for source, target, weight in edges:
        ends = {"source": f"n{index[source]}", "target": f"n{index[target]}"}
        edge = ElementTree.SubElement(graph, "edge", ends)
        ElementTree.SubElement(edge, "data", key="weight").text = repr(weight)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode")


def as_csv(edges: Sequence[Edge], names: Sequence[Any]) -> str:
    """The list of edges, strongest first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Edge._fields)
    writer.writerows(edges)
    return text.getvalue()


def as_json(edges: Sequence[Edge], names: Sequence[Any], fit: Fit) -> str:
    """Nodes, edges and how the fit went."""
    document = {
        "nodes": list(names),
        "edges": [edge._asdict() for edge in edges],
        "fit": {
            "status": fit.status.value,
            "start": fit.start,
            "steps": fit.steps,
            "delta": fit.delta,
            "threshold": fit.threshold,
            "changed": fit.changed,
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Edge], Sequence[Any]], str]] = {
    ".csv": as_csv,
    ".dot": as_dot,
    ".graphml": as_graphml,
    ".gv": as_dot,
}
"""By the ending of a file; `.json` also tells of the fit, see `as_json`."""


def as_networkx(edges: Sequence[Edge], names: Sequence[Any]) -> Any:
    """A networkx.DiGraph; edges have `weight`."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError("to_networkx()", "networkx", None, error) from None
    graph = networkx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_weighted_edges_from(edges)
    return graph


def as_pandas(edges: Sequence[Edge]) -> Any:
    """A pandas.DataFrame with the columns source, target, weight; strongest first."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("to_pandas()", "pandas", None, error) from None
    return pandas.DataFrame(edges, columns=list(Edge._fields))


def meaning(fit: Any) -> str:
    """What a fit's status says about its graph, in a sentence.

    Args:
        fit: `Fit` or `SparseFit`, as the estimator returns it.
    """
    steps = f"{fit.steps} step{'s' * (fit.steps != 1)}"
    if fit.status is Status.NONFINITE:
        return (
            "not solved: weights left the reals; this is cut from the last finite ones. Rescale "
            "the columns, or fit with standardise"
        )
    changed = f"{fit.changed} edge{'s' * (fit.changed != 1)}"
    if fit.start in ("ordering", "likelihood"):
        rests = " that rests on equal noise variances" if fit.start == "ordering" else ""
        usual = " (they stop at a limit, as is usual)" if fit.status is Status.MAX_STEPS else ""
        return (
            f"solved: acyclic, and the {fit.start} start is a full solution by itself{rests}; "
            f"LEAST's {steps} on top changed {changed}{usual}"
        )
    if fit.status is Status.CONVERGED:
        return f"solved: acyclic, and LEAST converged after {steps}"
    return (
        f"acyclic, by the threshold {fit.threshold:.3g}; LEAST ran its whole schedule of {steps}, "
        "and more might still move weights"
    )


__all__ = [
    "FORMATS",
    "Edge",
    "as_csv",
    "as_dot",
    "as_graphml",
    "as_json",
    "as_networkx",
    "as_pandas",
    "edges_of",
    "meaning",
]
