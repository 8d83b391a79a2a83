"""The picture of one incident: its path in a straight line, other mediators behind it.

Laid out by hand, because a layout that only saves crossings puts the strongest rivals in front.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.domain import Edge
from monitor.edge.console.layout import Layout, Place
from monitor.exhibits import Link

MOST_BEHIND = 6
"""Mediators drawn beside the path."""
_HEIGHT, _MARGIN, _ARROW = 46, 6, 8
_WIDE, _WIDE_ALONG, _WIDE_ACROSS = 176, 64, 14
_NARROW, _NARROW_ALONG, _GUTTER = 146, 34, 34


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is in the picture, and on which step of the way."""

    steps: Mapping[str, int]
    """Node → step; the root is 0."""
    path: tuple[str, ...]
    links: tuple[Link | Edge, ...]
    """Those to draw."""
    left_out: int
    """Links that are only in the table."""


def cast(path: Sequence[str], roots: Collection[str], links: Sequence[Link | Edge]) -> Cast:
    """The path, and what the cause reaches the outcome through beside it.

    What is against it (a negative weight), as one value of an attribute is against the next by
    nature, tells nothing of how failures come about.
    """
    towards = [link for link in links if link.weight > 0 and link.source != path[-1]]
    starts = dict.fromkeys([*([path[0]] if len(path) > 1 else ()), *sorted(roots)])
    depth, wave = dict.fromkeys(starts, 0), set(starts)
    while wave:
        step = max(depth[name] for name in wave) + 1
        wave = {link.target for link in towards if link.source in wave} - depth.keys()
        depth |= dict.fromkeys(wave, step)
    arriving, wave = {path[-1]}, {path[-1]}
    while wave:
        wave = {link.source for link in towards if link.target in wave} - arriving
        arriving |= wave
    strength: dict[str, float] = {}
    for link in towards:
        for end in (link.source, link.target):
            strength[end] = max(strength.get(end, 0.0), link.weight)
    behind = [n for n in depth if n in arriving and n not in path and n not in starts]
    behind = sorted(behind, key=lambda n: (-strength[n], n))[:MOST_BEHIND]
    last = max([len(path) - 1, 1, *(depth[name] + 1 for name in behind)])
    whole = max(len(path) - 1, 1)
    steps = dict.fromkeys(starts, 0)
    steps |= {name: round(i * last / whole) for i, name in enumerate(path)}
    steps |= {name: min(max(depth[name], 1), last - 1) for name in behind}
    if len(path) == 1 and starts and path[0] not in starts:
        steps[path[0]] = last
    on_path = set(pairwise(path))
    shown = tuple(
        link
        for link in links
        if link.source in steps
        and link.target in steps
        and (link.weight > 0 or (link.source, link.target) in on_path)
    )
    return Cast(steps, tuple(path), shown, len(links) - len(shown))


def across(shown: Cast) -> Layout:
    """From left to right, for a wide window."""
    rows = _rows(shown)
    boxes: dict[str, Place] = {
        name: (
            float(_MARGIN + step * (_WIDE + _WIDE_ALONG)),
            float(_MARGIN + rows[name] * (_HEIGHT + _WIDE_ACROSS)),
        )
        for name, step in shown.steps.items()
    }
    curves: dict[tuple[str, str], str] = {}
    middles: dict[tuple[str, str], Place] = {}
    for pair in _pairs(shown):
        (x0, y0), (x1, y1) = boxes[pair[0]], boxes[pair[1]]
        x0, y0, y1 = x0 + _WIDE, y0 + _HEIGHT / 2, y1 + _HEIGHT / 2
        if x1 <= x0 - _WIDE:  # back, or to the same step: from below
            x0, x1 = x0 - _WIDE / 2, x1 + _WIDE / 2
            y0, y1 = y0 + _HEIGHT / 2, y1 + _HEIGHT / 2 + _ARROW
            low = max(y0, y1) + 20
            curves[pair] = (
                f"M{x0:.0f},{y0:.0f} C{x0:.0f},{low:.0f} {x1:.0f},{low:.0f} {x1:.0f},{y1:.0f}"
            )
            middles[pair] = (x0 + x1) / 2, low
            continue
        curves[pair], middles[pair] = _bent(x0, y0, x1 - _ARROW, y1)
        if rows[pair[1]]:  # beside the mediator, where no other edge runs
            middles[pair] = x1 - 24, y1
        elif rows[pair[0]]:
            middles[pair] = x0 + 18, y0
    return _whole(boxes, curves, middles, _WIDE)


def upright(shown: Cast) -> Layout:
    """From the top down, for a telephone: the path on the left, the others to its right."""
    rows = _rows(shown)
    last = max(shown.steps.values())
    deep = [
        max([0, *(rows[n] for n, s in shown.steps.items() if s == step)]) or 1
        for step in range(last + 1)
    ]
    tops = [_MARGIN + sum(deep[:step]) * (_HEIGHT + _NARROW_ALONG) for step in range(last + 1)]
    boxes = {
        name: (float(_MARGIN), float(tops[step]))
        if not rows[name]
        else (
            float(_MARGIN + _NARROW + _GUTTER),
            float(tops[step] + (rows[name] - 1) * (_HEIGHT + _NARROW_ALONG)),
        )
        for name, step in shown.steps.items()
    }
    curves: dict[tuple[str, str], str] = {}
    middles: dict[tuple[str, str], Place] = {}
    for pair in _pairs(shown):
        (x0, y0), (x1, y1) = boxes[pair[0]], boxes[pair[1]]
        if x0 == x1 == _MARGIN and y1 > y0:
            x, down = x0 + _NARROW / 2, y1 - _ARROW
            curves[pair] = f"M{x:.0f},{y0 + _HEIGHT:.0f} L{x:.0f},{down:.0f}"
            middles[pair] = x + 20, (y0 + _HEIGHT + y1) / 2 + 6
            continue
        # Everything else keeps to the gutter: it comes in above the middle and leaves below it.
        y0, y1 = y0 + _HEIGHT / 2 + 7, y1 + _HEIGHT / 2 - 7
        out = x0 + _NARROW if x0 == _MARGIN else x0
        into = x1 + _NARROW + _ARROW if x1 == _MARGIN else x1 - _ARROW
        curves[pair], middles[pair] = _bent(out, y0, into, y1)
    return _whole(boxes, curves, middles, _NARROW)


def _rows(shown: Cast) -> dict[str, int]:
    """The path in row 0, the others of a step below one another."""
    used = dict.fromkeys(shown.steps.values(), 0)
    rows = dict.fromkeys(shown.path, 0)
    for name, step in shown.steps.items():
        if name not in rows:
            used[step] += 1
            rows[name] = used[step]
    return rows


def _pairs(shown: Cast) -> list[tuple[str, str]]:
    return list(
        dict.fromkeys(
            [*pairwise(shown.path), *((link.source, link.target) for link in shown.links)]
        )
    )


def _bent(x0: float, y0: float, x1: float, y1: float) -> tuple[str, Place]:
    bend = (x0 + x1) / 2
    text = f"M{x0:.0f},{y0:.0f} C{bend:.0f},{y0:.0f} {bend:.0f},{y1:.0f} {x1:.0f},{y1:.0f}"
    return text, (bend, (y0 + y1) / 2)


def _whole(
    boxes: dict[str, Place],
    curves: dict[tuple[str, str], str],
    middles: dict[tuple[str, str], Place],
    width: int,
) -> Layout:
    return Layout(
        width=round(max(x for x, _ in boxes.values()) + width) + _MARGIN,
        height=round(max(y for _, y in boxes.values()) + _HEIGHT) + _MARGIN,
        boxes=boxes,
        curves=curves,
        middles=middles,
        box_width=width,
    )
