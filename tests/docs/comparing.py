"""What a page shows against what was said: equal but for what can be different every time."""

from __future__ import annotations

import re

# Wall-clock durations and the log's own time; what comes from data is compared to the digit.
_ALWAYS_VARIES = (
    r"\b\d+(?:\.\d+)? (?:s|ms)\b",
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+(?:Z|\+00:00)?",
)
_TOKEN = "\N{LEFT WHITE CORNER BRACKET}%s\N{RIGHT WHITE CORNER BRACKET}"


def same(shown: str, said: str, varies: str | None = None) -> bool:
    """Whether the page's lines are what was said.

    Args:
        shown: from the page. A line `…` stands for any lines, `…` within a line for any characters.
        said: by the command.
        varies: a regular expression; what it matches may differ.
    """
    pattern = ""
    for line in _masked(shown, varies).splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n"
    return re.fullmatch(pattern, _lines(_masked(said, varies))) is not None


def renamed(shown: str, said: str, varies: str | None) -> dict[str, str]:
    """What varies as the page has it → as it is now, so that later commands can name it."""
    if varies is None:
        return {}
    old, new = ([m[0] for m in re.finditer(varies, text)] for text in (shown, said))
    return dict(zip(old, new, strict=False)) if len(old) == len(new) else {}


def _masked(text: str, varies: str | None) -> str:
    for number, pattern in enumerate((*([varies] if varies else []), *_ALWAYS_VARIES)):
        text = re.sub(pattern, _TOKEN % number, text)
    return text


def _lines(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
