"""Where the boxes and arrows of a root-cause picture go; the template only draws them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.domain import Edge

_BOX_WIDTH = 140
_BOX_HEIGHT = 48
_GAP_ACROSS = 14
_GAP_DOWN = 40
_MARGIN = 4
_BEND = 26
"""Room on the left for edges of the path's own nodes that jump over one."""
_WIDEST = 3
_CHARACTERS = 18


@dataclass(frozen=True, slots=True)
class Box:
    """A node at its place."""

    name: str
    """In full, for the tooltip."""
    attribute: str
    value: str
    """Cut to the width of the box."""
    x: int
    y: int
    on_path: bool


@dataclass(frozen=True, slots=True)
class Line:
    """An edge from the bottom of one box to the top of another."""

    curve: str
    """SVG path data."""
    on_path: bool
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything the template needs, in user units."""

    width: int
    height: int
    box_width: int
    box_height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def draw(path: Sequence[str], edges: Sequence[Edge]) -> Picture:
    """How the root reaches the outcome: the reported path runs straight down on the left,
    the strongest other mediators stand beside it.

    Args:
        path: root … outcome; a single node is drawn alone.
        edges: the learned graph of now; may know nothing of the path any more.
    """
    weights = {(e.source, e.target): e.weight for e in edges}
    steps = list(itertools.pairwise(path))
    layers = _layers(path, _mediators(path, edges))
    boxes: dict[str, Box] = {}
    for depth, layer in enumerate(layers):
        for column, name in layer:
            attribute, equals, value = name.partition("=")
            boxes[name] = Box(
                name=name,
                attribute=_cut(attribute) if equals else "",
                value=_cut(value if equals else name),
                x=_BEND + column * (_BOX_WIDTH + _GAP_ACROSS),
                y=_MARGIN + depth * (_BOX_HEIGHT + _GAP_DOWN),
                on_path=name in path,
            )
    shown = dict.fromkeys(steps)
    shown.update(dict.fromkeys(s for s in weights if s[0] in boxes and s[1] in boxes))
    return Picture(
        width=max(box.x for box in boxes.values()) + _BOX_WIDTH + _MARGIN,
        height=len(layers) * (_BOX_HEIGHT + _GAP_DOWN) - _GAP_DOWN + 2 * _MARGIN,
        box_width=_BOX_WIDTH,
        box_height=_BOX_HEIGHT,
        boxes=tuple(boxes.values()),
        lines=tuple(
            _line(boxes[a], boxes[b], (a, b) in steps, weights.get((a, b)))
            for a, b in shown
            if boxes[a].y < boxes[b].y
        ),
    )


def _mediators(path: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    """Nodes off the path with an edge from its root and one into its outcome."""
    if len(path) < 2:
        return []
    from_root = {e.target: abs(e.weight) for e in edges if e.source == path[0]}
    into_outcome = {e.source: abs(e.weight) for e in edges if e.target == path[-1]}
    between = (from_root.keys() & into_outcome.keys()) - set(path)
    strength = {name: min(from_root[name], into_outcome[name]) for name in between}
    return sorted(strength, key=lambda name: (-strength[name], name))[: _WIDEST - 1]


def _layers(path: Sequence[str], mediators: Sequence[str]) -> list[list[tuple[int, str]]]:
    """Per layer from the top: (column, node); the path has column 0 for itself."""
    layers = [[(0, name)] for name in path]
    beside = list(enumerate(mediators, start=1))
    if len(path) == 2 and beside:
        layers.insert(1, beside)
    elif beside:
        layers[1] += beside
    return layers


def _line(start: Box, end: Box, on_path: bool, weight: float | None) -> Line:
    x0, y0 = start.x + _BOX_WIDTH // 2, start.y + _BOX_HEIGHT
    x1, y1 = end.x + _BOX_WIDTH // 2, end.y - 7  # room for the arrow's head
    if x0 == x1 and y1 - y0 > _GAP_DOWN and not on_path:
        # Straight down it would run through the boxes between: go around them on the left.
        x0, y0 = start.x, start.y + _BOX_HEIGHT // 2
        x1, y1 = end.x - 7, end.y + _BOX_HEIGHT // 2
        curve = f"M{x0},{y0} C{x0 - _BEND},{y0} {x1 - _BEND + 7},{y1} {x1},{y1}"
    elif x0 > x1 and y1 - y0 > _GAP_DOWN:
        # Into the outcome from the right, clear of the path.
        x1, y1 = end.x + _BOX_WIDTH + 7, end.y + _BOX_HEIGHT // 2
        curve = f"M{x0},{y0} C{x0},{y1} {x0},{y1} {x1},{y1}"
    else:
        middle = (y0 + y1) // 2
        curve = f"M{x0},{y0} C{x0},{middle} {x1},{middle} {x1},{y1}"
    strength = "" if weight is None else f", weight {weight:.2f}"
    return Line(curve, on_path, f"{start.name} → {end.name}{strength}")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
