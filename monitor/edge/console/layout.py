"""Boxes and arrows placed in layers, causes on the left: grandalf's Sugiyama layout does it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from grandalf.graphs import Edge, Graph, Vertex
from grandalf.layouts import SugiyamaLayout, VertexViewer

BOX_WIDTH, BOX_HEIGHT = 176, 46
_GAP_ALONG, _GAP_ACROSS = 64, 14
_MARGIN = 6
_ROUNDS = 6
_ARROW = 8

_one_at_a_time = threading.Lock()

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything goes, in user units."""

    width: int
    height: int
    boxes: dict[str, Place]
    """Node → upper left corner."""
    curves: dict[tuple[str, str], str]
    """Edge → SVG path data, with room for the arrow's head."""
    middles: dict[tuple[str, str], Place]
    """Edge → where its strength can be written."""
    box_width: int = BOX_WIDTH


class _Route:
    """Takes the points that grandalf leads an edge through."""

    def __init__(self) -> None:
        self.points: list[Place] = []

    def setpath(self, points: list[Place]) -> None:
        self.points = points


def lay_out(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place nodes in layers so that few edges cross; equal graphs give equal pictures.

    Args:
        nodes: in the order that decides ties.
        edges: (from, to); ends that are no nodes, loops and repetitions are left out.
    """
    # Pages are drawn in several threads, and grandalf keeps its place in a class.
    with _one_at_a_time:
        return _lay_out(tuple(nodes), tuple(edges))


@lru_cache(maxsize=128)
def _lay_out(nodes: tuple[str, ...], edges: tuple[tuple[str, str], ...]) -> Layout:
    vertices = {name: Vertex(name) for name in dict.fromkeys(nodes)}
    for vertex in vertices.values():
        # Grandalf's layers run downwards, ours to the right: its width is our height.
        vertex.view = VertexViewer(w=BOX_HEIGHT, h=BOX_WIDTH)
    links = {}
    for pair in dict.fromkeys(edges):
        if pair[0] in vertices and pair[1] in vertices and pair[0] != pair[1]:
            links[pair] = Edge(vertices[pair[0]], vertices[pair[1]])
            links[pair].view = _Route()
    graph = Graph(list(vertices.values()), list(links.values()))
    boxes: dict[str, Place] = {}
    routes: dict[tuple[str, str], list[Place]] = {}
    below = float(_MARGIN)
    for part in graph.C:
        layout = SugiyamaLayout(part)
        layout.xspace, layout.yspace = _GAP_ACROSS, _GAP_ALONG
        layout.init_all()
        layout.draw(_ROUNDS)
        mine = list(part.sV)
        top = min(v.view.xy[0] for v in mine) - BOX_HEIGHT / 2
        left = min(v.view.xy[1] for v in mine) - BOX_WIDTH / 2

        def at(place: Place, top: float = top, left: float = left, below: float = below) -> Place:
            return place[1] - left + _MARGIN, place[0] - top + below

        for vertex in mine:
            x, y = at(vertex.view.xy)
            boxes[vertex.data] = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
        for edge in part.sE:
            pair = edge.v[0].data, edge.v[1].data
            routes[pair] = [at(point) for point in edge.view.points]
        below = max(boxes[v.data][1] for v in mine) + BOX_HEIGHT + 2 * _GAP_ACROSS
    curves = {pair: _curve(points) for pair, points in routes.items()}
    return Layout(
        width=round(max(x for x, _ in boxes.values()) + BOX_WIDTH) + _MARGIN,
        height=round(max(y for _, y in boxes.values()) + BOX_HEIGHT) + _MARGIN,
        boxes=boxes,
        curves={pair: curve for pair, (curve, _) in curves.items()},
        middles={pair: middle for pair, (_, middle) in curves.items()},
    )


def _curve(points: Sequence[Place]) -> tuple[str, Place]:
    """From the right side of the first box to the left side of the last, and its middle."""
    forward = points[0][0] <= points[-1][0]
    out, into = (
        (BOX_WIDTH / 2, -BOX_WIDTH / 2 - _ARROW)
        if forward
        else (
            -BOX_WIDTH / 2,
            BOX_WIDTH / 2 + _ARROW,
        )
    )
    stops = [
        (points[0][0] + out, points[0][1]),
        *points[1:-1],
        (points[-1][0] + into, points[-1][1]),
    ]
    text = f"M{stops[0][0]:.0f},{stops[0][1]:.0f}"
    for (x0, y0), (x1, y1) in pairwise(stops):
        bend = (x0 + x1) / 2
        text += f" C{bend:.0f},{y0:.0f} {bend:.0f},{y1:.0f} {x1:.0f},{y1:.0f}"
    first, second = stops[(len(stops) - 1) // 2], stops[(len(stops) - 1) // 2 + 1]
    return text, ((first[0] + second[0]) / 2, (first[1] + second[1]) / 2)
