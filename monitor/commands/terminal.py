"""The one way out to a terminal: what the watched log holds must not steer it.

Values, file names and messages come from strangers; a terminal would obey their escape codes. What
is shown replaces them, here, so that no command has to think of it; styles are added behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

_BREAKS = "\t\n"
_CODES = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in _BREAKS
}
"""Control codes, those of the upper half too, and those that turn the direction of writing."""


def harmless(text: str) -> str:
    """The text with a sign in the place of every control code.

    >>> harmless("a\\x1b[31mred")
    'a�[31mred'
    """
    return text.translate(_CODES)


def say(text: str, *, err: bool = False) -> None:
    """One line, or several, on standard output or standard error."""
    typer.echo(harmless(text), err=err)


def terminal(*, stderr: bool = False) -> Console:
    """Tables and progress, on standard output or standard error."""
    from monitor.commands.drawing import Terminal  # Rich takes its time

    return Terminal(stderr=stderr)


def wide_terminal() -> Console:
    """Wide enough for tables where there is no terminal to measure."""
    from monitor.commands.drawing import Terminal

    console = Terminal()
    return console if console.is_terminal else Terminal(width=120)
