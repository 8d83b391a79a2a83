"""Where the boxes and arrows of a root-cause picture go; the template only draws them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.domain import Edge

_BOX_WIDTH = 168
_BOX_HEIGHT = 48
_GAP_ACROSS = 16
_GAP_DOWN = 40
_MARGIN = 4
_WIDEST = 3
_CHARACTERS = 22


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
    """The root at the top, the outcome at the bottom, and between them how the one reaches
    the other: the reported path, with the strongest other mediators beside it.

    Args:
        path: root … outcome; a single node is drawn alone.
        edges: the learned graph of now; may know nothing of the path any more.
    """
    weights = {(e.source, e.target): e.weight for e in edges}
    steps = list(itertools.pairwise(path))
    layers = _layers(path, _mediators(path, edges))
    width = max(len(layer) for layer in layers)
    full = width * (_BOX_WIDTH + _GAP_ACROSS) - _GAP_ACROSS
    boxes: dict[str, Box] = {}
    for depth, layer in enumerate(layers):
        used = len(layer) * (_BOX_WIDTH + _GAP_ACROSS) - _GAP_ACROSS
        for i, name in enumerate(layer):
            x = _MARGIN + (full - used) // 2 + i * (_BOX_WIDTH + _GAP_ACROSS)
            y = _MARGIN + depth * (_BOX_HEIGHT + _GAP_DOWN)
            attribute, equals, value = name.partition("=")
            boxes[name] = Box(
                name=name,
                attribute=_cut(attribute) if equals else "",
                value=_cut(value if equals else name),
                x=x,
                y=y,
                on_path=name in path,
            )
    shown = dict.fromkeys(steps)
    shown.update(dict.fromkeys(s for s in weights if s[0] in boxes and s[1] in boxes))
    return Picture(
        width=full + 2 * _MARGIN,
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


def _layers(path: Sequence[str], mediators: Sequence[str]) -> list[list[str]]:
    if not mediators:
        return [[name] for name in path]
    if len(path) == 2:
        return [[path[0]], list(mediators), [path[1]]]
    layers = [[name] for name in path]
    layers[1] += mediators
    return layers


def _line(start: Box, end: Box, on_path: bool, weight: float | None) -> Line:
    x0, y0 = start.x + _BOX_WIDTH // 2, start.y + _BOX_HEIGHT
    x1, y1 = end.x + _BOX_WIDTH // 2, end.y - 7  # room for the arrow's head
    if y1 - y0 > _GAP_DOWN and x0 == x1:
        # It would run through the box between: bend around it.
        side = x0 - _BOX_WIDTH // 2 - _GAP_ACROSS
        curve = f"M{x0},{y0} C{side},{y0 + 50} {side},{y1 - 50} {x1},{y1}"
    else:
        middle = (y0 + y1) // 2
        curve = f"M{x0},{y0} C{x0},{middle} {x1},{middle} {x1},{y1}"
    strength = "" if weight is None else f", weight {weight:.2f}"
    return Line(curve, on_path, f"{start.name} → {end.name}{strength}")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
