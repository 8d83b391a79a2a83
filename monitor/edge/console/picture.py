"""What a picture of the learned graph holds; the template only draws it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from monitor.domain import Edge
from monitor.edge.console.layout import BOX_HEIGHT, BOX_WIDTH, Layout, lay_out
from monitor.edge.console.leading import across, cast, upright
from monitor.edge.wording import visible
from monitor.exhibits import Link

MOST_NODES = 40
"""Nodes drawn of the graph around one."""
_CHARACTER = 8.2
"""Pixels across a letter, with some room."""
_THICKEST, _THINNEST = 5.0, 1.2


@dataclass(frozen=True, slots=True)
class Box:
    """A node at its place."""

    name: str
    """In full, for the tooltip and the link."""
    attribute: str
    value: str
    """Cut to the width of the box."""
    x: int
    y: int
    kind: str
    """``root``, ``path``, ``outcome`` or ``other``."""


@dataclass(frozen=True, slots=True)
class Line:
    """An edge from one box to another."""

    source: str
    target: str
    curve: str
    """SVG path data."""
    width: float
    on_path: bool
    learned: bool
    """False: the cause names both ends, the graph does not join them."""
    fresh: bool
    """It appeared within the window."""
    strength: str
    """The weight, or empty."""
    x: int
    y: int
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything the template needs, in user units."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    left_out: int = 0
    """Links that are only in the table."""
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def of_incident(
    path: Sequence[str], roots: Collection[str], links: Sequence[Link | Edge]
) -> tuple[Picture, Picture]:
    """How the cause reaches the outcome: for a wide window, and for a telephone.

    Args:
        path: root … outcome; a single node is drawn alone.
        roots: nodes of the cause.
        links: the learned edges among the nodes to draw; may know nothing of the path.
    """
    steps = dict.fromkeys(itertools.pairwise(path))
    shown = cast(path, roots, links)
    kinds = dict.fromkeys(path, "path") | dict.fromkeys(roots, "root")
    if len(path) > 1 and not roots:
        kinds[path[0]] = "root"
    kinds[path[-1]] = "outcome"
    wide, narrow = (
        _draw(list(shown.steps), kinds, shown.links, steps, layout, shown.left_out)
        for layout in (across(shown), upright(shown))
    )
    return wide, narrow


def around(
    node: str, edges: Sequence[Edge], hops: int, outcomes: Collection[str] = ()
) -> tuple[Picture, list[Edge], bool]:
    """The learned graph near a node.

    Args:
        node: in the middle.
        edges: the whole graph.
        hops: how far to follow edges, whichever way they run.
        outcomes: nodes to be marked as such.

    Returns:
        The picture, its edges with the strongest first, and whether nodes were left out.
    """
    shown, wave, more = {node}, {node}, False
    for _ in range(hops):
        touching = [e for e in edges if (e.source in wave) != (e.target in wave)]
        touching.sort(key=_strongest)
        following: dict[str, None] = {}
        for edge in touching:
            other = edge.target if edge.source in wave else edge.source
            if other not in shown:
                following[other] = None
        room = MOST_NODES - len(shown)
        more |= len(following) > room
        wave = set(list(following)[:room])
        shown |= wave
    inside = [e for e in edges if e.source in shown and e.target in shown]
    inside.sort(key=_strongest)
    kinds = {name: "outcome" for name in shown if name in outcomes} | {node: "root"}
    nodes = [node, *sorted(shown - {node})]
    layout = lay_out(nodes, [(e.source, e.target) for e in inside])
    return _draw(nodes, kinds, inside, {}, layout), inside, more


def _strongest(edge: Edge) -> tuple[float, str, str]:
    return -abs(edge.weight), edge.source, edge.target


def _draw(
    nodes: Sequence[str],
    kinds: Mapping[str, str],
    links: Sequence[Link | Edge],
    steps: Mapping[tuple[str, str], None],
    layout: Layout,
    left_out: int = 0,
) -> Picture:
    known = {(link.source, link.target): link for link in links}
    strongest = max((abs(link.weight) for link in links), default=1.0) or 1.0
    lines = []
    for pair, curve in layout.curves.items():
        link = known.get(pair)
        weight = 0.0 if link is None else link.weight
        since = getattr(link, "since", None)
        x, y = layout.middles[pair]
        told = f"strength {weight:.2f}" if link else "named together, not joined in the graph"
        lines.append(
            Line(
                *pair,
                curve=curve,
                width=round(
                    _THINNEST + (_THICKEST - _THINNEST) * min(abs(weight) / strongest, 1), 1
                ),
                on_path=pair in steps,
                learned=link is not None,
                fresh=since is not None,
                strength=f"{weight:.2f}" if link else "",
                x=round(x),
                y=round(y),
                title=f"{visible(pair[0])} → {visible(pair[1])}, {told}"
                + (f", since {since:%Y-%m-%d %H:%M} UTC" if since else ""),
            )
        )
    lines.sort(key=lambda line: (line.on_path, line.width))  # the path on top
    return Picture(
        width=layout.width,
        height=layout.height,
        boxes=tuple(
            _box(name, *layout.boxes[name], kinds.get(name, "other"), layout.box_width)
            for name in nodes
        ),
        lines=tuple(lines),
        left_out=left_out,
        box_width=layout.box_width,
    )


def _box(name: str, x: float, y: float, kind: str, width: int) -> Box:
    most = round(width / _CHARACTER)
    attribute, equals, value = visible(name).partition("=")
    return Box(
        name=name,
        attribute=_cut(attribute, most) if equals else "",
        value=_cut(value if equals else attribute, most),
        x=round(x),
        y=round(y),
        kind=kind,
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
