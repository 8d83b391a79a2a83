"""Tables of which nothing is cut, however narrow the terminal.

rich shortens a cell to "0.9…" where a table does not fit. Here long texts are wrapped between their
words; where even that is too wide, the table is wider than the terminal, which folds its lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_UNBOUNDED = 100_000


def print_whole(console: Console, table: Table) -> None:
    """Print it as wide as the console if its longest words fit, and else as wide as they are."""
    from rich.measure import Measurement

    free = console.options.update(max_width=_UNBOUNDED)
    least, most = [], []
    for column in table.columns:
        sizes = [Measurement.get(console, free, cell) for cell in (column.header, *column.cells)]
        most.append(max(size.maximum for size in sizes))
        wraps = not column.no_wrap
        least.append(max(size.minimum for size in sizes) if wraps else most[-1])
    between = Measurement.get(console, free, table).maximum - sum(most)

    def widths(most_of_all: int) -> list[int]:
        return [max(low, min(high, most_of_all)) for low, high in zip(least, most, strict=True)]

    widest = max(most)  # the widest give way first, as with rich, but none below its longest word
    while widest and between + sum(widths(widest)) > console.width:
        widest -= 1
    for column, width in zip(table.columns, widths(widest), strict=True):
        column.width = width
    usual = console.size  # both at once: the width alone means nothing on a dumb terminal
    console.size = (max(usual.width, between + sum(widths(widest))), usual.height)
    console.print(table)
    console.size = usual
