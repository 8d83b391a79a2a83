"""Small multiples and graphs as SVG, drawn by hand: no plotting library to install."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

Lines = dict[str, list[tuple[float, float]]]
WIDTH, HEIGHT, LEFT, TOP, GAP = 190, 130, 62, 44, 34
COLOURS = (
    "#c0392b", "#1f77b4", "#2ca02c", "#e67e22", "#8e44ad", "#16a085", "#7f8c8d", "#34495e",
    "#d4ac0d", "#a93226", "#5d6d7e",
)  # fmt: skip


def panels(
    series: dict[tuple[str, str], Lines],
    rows: Sequence[str],
    columns: Sequence[str],
    logarithmic: Sequence[str] = (),
) -> str:
    """One panel per (row, column) with a line per name over a logarithmic x axis; SVG text."""
    names = list(dict.fromkeys(name for lines in series.values() for name in lines))
    width = LEFT + len(columns) * (WIDTH + 14)
    height = TOP + len(rows) * (HEIGHT + GAP) + 18 * math.ceil(len(names) / 4) + 10
    parts = [_open(width, height)]
    for c, column in enumerate(columns):
        parts.append(_text(LEFT + c * (WIDTH + 14) + WIDTH / 2, TOP - 16, column, "middle", 12))
    for r, row in enumerate(rows):
        values = [v for c in columns for line in series.get((row, c), {}).values() for _, v in line]
        if not values:
            continue
        log = row in logarithmic
        low, high = _limits(values, log)
        top = TOP + r * (HEIGHT + GAP)
        parts.append(_text(12, top + HEIGHT / 2, row, "middle", 12, turn=-90))

        def y_of(value: float, log: bool = log, low: float = low, high: float = high) -> float:
            value = math.log10(max(value, 10**low)) if log else value
            return HEIGHT * (1 - (value - low) / (high - low))

        for c, column in enumerate(columns):
            xs = sorted({x for line in series.get((row, column), {}).values() for x, _ in line})
            if not xs:
                continue
            first, last = math.log(xs[0]), math.log(xs[-1])
            left = LEFT + c * (WIDTH + 14)
            parts.append(
                f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>'
            )
            for tick in _ticks(low, high, log):
                y = top + y_of(tick)
                parts.append(f'<path d="M{left} {y:.1f}h{WIDTH}" class="grid"/>')
                if c == 0:
                    parts.append(_text(left - 5, y + 4, f"{tick:g}", "end", 10))
            for x in xs if len(xs) <= 6 else (xs[0], xs[-1]):
                at = left + 8 + (WIDTH - 16) * (math.log(x) - first) / max(last - first, 1e-9)
                parts.append(_text(at, top + HEIGHT + 13, f"{x:.3g}", "middle", 10))
            for name, line in series.get((row, column), {}).items():
                colour = COLOURS[names.index(name) % len(COLOURS)]
                points = [
                    (
                        left + 8 + (WIDTH - 16) * (math.log(x) - first) / max(last - first, 1e-9),
                        top + y_of(v),
                    )
                    for x, v in sorted(line)
                ]
                path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
                dash = ' stroke-dasharray="4 3"' if name.startswith("paper") else ""
                parts.append(f'<path d="M{path}" fill="none" stroke="{colour}"{dash}/>')
                parts += [
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points
                ]
    base = TOP + len(rows) * (HEIGHT + GAP) + 6
    for i, name in enumerate(names):
        x, y = LEFT + (i % 4) * (width - LEFT) / 4, base + 18 * (i // 4)
        dash = ' stroke-dasharray="4 3"' if name.startswith("paper") else ""
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<path d="M{x:.0f} {y - 4}h22" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(_text(x + 28, y, name, "start", 11))
    return "\n".join([*parts, "</svg>", ""])


def graph(
    nodes: dict[str, tuple[float, float]], edges: Sequence[tuple[str, str, float]], width: int = 900
) -> str:
    """Labelled nodes at places in the unit square, arrows between them (red: negative); SVG."""
    height = int(width * 0.72)
    at = {name: (70 + x * (width - 340), 30 + y * (height - 60)) for name, (x, y) in nodes.items()}
    parts = [_open(width, height)]
    parts.append(
        '<defs><marker id="a" viewBox="0 0 8 8" refX="13" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>'
    )
    strongest = max((abs(weight) for *_, weight in edges), default=1)
    for source, target, weight in edges:
        (x1, y1), (x2, y2) = at[source], at[target]
        colour = "#c0392b" if weight < 0 else "#34495e"
        size = 0.6 + 2.4 * abs(weight) / strongest
        parts.append(
            f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" '
            f'stroke-width="{size:.2f}" marker-end="url(#a)" opacity="0.75"/>'
        )
    for name, (x, y) in at.items():
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#1f77b4"/>')
        parts.append(_text(x + 8, y + 4, name, "start", 11))
    return "\n".join([*parts, "</svg>", ""])


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif"><style>text{paint-order:stroke;stroke:#fff;stroke-width:3px}'
        ".frame{fill:none;stroke:#999}.grid{stroke:#e5e5e5}"
        f'</style><rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>'
    )


def _text(x: float, y: float, text: str, anchor: str, size: int, turn: int = 0) -> str:
    rotate = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{rotate}>'
        f"{escape(text)}</text>"
    )


def _limits(values: list[float], log: bool) -> tuple[float, float]:
    if log:
        positive = [v for v in values if v > 0]
        low = math.floor(math.log10(max(min(positive, default=0.1), 1e-3)))
        return low, max(math.ceil(math.log10(max(positive, default=1))), low + 1)
    return min(0.0, min(values)), max(1.0, max(values))


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        return [10.0**e for e in range(int(low), int(high) + 1)]
    return [low + (high - low) * i / 4 for i in range(5)]
