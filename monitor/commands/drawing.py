"""Rich's console, less the control codes of what it prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from monitor.commands.terminal import harmless


class Terminal(Console):
    """What is printed loses its control codes, and the styles stay: they are added behind this."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `Console`."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `Console`; before it is measured, so that no column is too narrow."""
        return super().render_str(harmless(text), **options)
