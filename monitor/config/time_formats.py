"""Formats of times: which directives there are, and what was meant by a format that has none."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = r"\pL+\.?"
DIRECTIVES = {
    "Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "d": r"\d{1,2}", "e": r"\s*\d{1,2}",
    "H": r"\d{1,2}", "I": r"\d{1,2}", "M": r"\d{1,2}", "S": r"\d{1,2}", "j": r"\d{1,3}",
    "b": _WORD, "B": _WORD, "h": _WORD, "a": _WORD, "A": _WORD, "p": r"[AaPp]\.?[Mm]\.?",
    "T": r"\d{1,2}:\d{1,2}:\d{1,2}", "R": r"\d{1,2}:\d{1,2}", "D": r"\d{1,2}/\d{1,2}/\d{2}",
    "F": r"\d{4}-\d{1,2}-\d{1,2}", "n": r"\s*", "t": r"\s*", "%": "%",
}  # fmt: skip
"""Directive of strptime → what it matches; ``%f``, ``%z`` and ``%Z`` are ours."""

ZONE = r"[Zz]|UTC|GMT|UT|[+-]\d\d:?\d\d|[+-]\d\d"
"""A zone that means the same everywhere: UTC by its names, or an offset."""

_SPELLINGS = (
    ("yyyy", "%Y"), ("YYYY", "%Y"), ("uuuu", "%Y"), ("yy", "%y"), ("YY", "%y"),
    ("MMMM", "%B"), ("MMM", "%b"), ("MM", "%m"), ("M", "%m"), ("DDD", "%j"), ("dddd", "%A"),
    ("ddd", "%a"), ("dd", "%d"), ("DD", "%d"), ("d", "%d"), ("D", "%d"), ("EEEE", "%A"),
    ("EEE", "%a"), ("HH24", "%H"), ("HH12", "%I"), ("HH", "%H"), ("hh24", "%H"), ("hh", "%I"),
    ("H", "%H"), ("h", "%I"), ("mm", "%M"), ("MI", "%M"), ("mi", "%M"), ("ss", "%S"), ("SS", "%S"),
    ("XXX", "%z"), ("XX", "%z"), ("xxx", "%z"), ("ZZ", "%z"), ("Z", "%z"), ("X", "%z"),
    ("zzz", "%Z"), ("z", "%Z"), ("a", "%p"), ("A", "%p"), ("S", "%f"),
)  # fmt: skip
"""Java, moment.js and SQL → strptime; the longer first where one begins another."""


class FormatError(ValueError):
    """A text that is no format of a time; the message says what is, `fix` what to write.

    Attributes:
        fix: the cure.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A format taken apart: strptime itself knows neither fractions nor the names of UTC."""

    text: str
    """For strptime, without fraction and zone."""
    pattern: str
    """In RE2's syntax. Matches a whole time; groups ``a`` … ``c`` are what strptime reads, ``f``
    the fraction and ``z`` the zone."""
    zoned: bool
    """The time carries its zone."""


def parse_format(text: str) -> TimeFormat:
    """Take a format apart.

    Raises:
        FormatError: it has no directive, or one that nobody knows.

    >>> parse_format("%d/%m/%Y %H:%M:%S.%f").text
    '%d/%m/%Y %H:%M:%S'
    """
    if "%" not in text:
        raise FormatError(f"{text!r} has no %-directive, so it is no strptime format", _offer(text))
    # Where a time ends in a literal Z, it says what it means by it.
    text = re.sub(r"(?<=%[STfM])(\s*)(Z|UTC|GMT)$", r"\1%z", text)
    plain: list[str] = []
    parts: list[list[str]] = [[]]
    taken: list[str] = []
    for token in re.findall(r"[.,]?%f|%.?|\s+|[^%\s]", text):
        directive = token[1:] if token.startswith("%") else ""
        if token.endswith("%f") or directive in ("z", "Z"):
            name = "f" if token.endswith("%f") else "z"
            if name in taken:
                raise FormatError(f"{text!r} has %{name} twice", "keep one")
            taken.append(name)
            if name == "z":
                parts.append([rf"(?P<z>{ZONE})"])
            elif len(token) == 3:
                parts.append([r"(?:[.,](?P<f>\d{1,9}))?"])
            else:
                parts.append([r"(?P<f>\d{1,9})"])
            parts.append([])
            continue
        if directive == "s":
            raise FormatError(f"{text!r}: %s is a number", 'write unit = "s" instead of `format`')
        if token.startswith("%") and directive not in DIRECTIVES:
            known = " ".join(
                f"%{one}" for one in ("Y", "m", "d", "H", "M", "S", "f", "b", "p", "z")
            )
            raise FormatError(f"{text!r}: nobody knows {token!r}", f"known are {known} and others")
        plain.append(token)
        if directive:
            parts[-1].append(DIRECTIVES[directive])
        else:
            parts[-1].append(r"\s*" if token.isspace() else re.escape(token))
    half, hour = "%p" in plain, "%I" in plain
    if half != hour:
        wrong = "has %p and no %I" if half else "has %I and no %p"
        raise FormatError(
            f"{text!r} {wrong}: one half of the day would be taken for the other",
            "write %I with %p for AM and PM, or %H for hours from 0 to 23",
        )
    if not re.search("%[YyDF]", "".join(plain)):
        raise FormatError(
            f"{text!r} has no year, so nobody knows when that was",
            "have the log write whole times, best ISO 8601 such as 2026-03-02T10:00:00Z",
        )
    read = ["".join(part) for part in parts[::2]]
    between = ["".join(part) for part in parts[1::2]] + [""]
    groups = [f"(?P<{name}>{part})" for name, part in zip("abc", read, strict=False)]
    pattern = "".join(g + b for g, b in zip(groups, between, strict=False))
    return TimeFormat("".join(plain), rf"^\s*{pattern}\s*$", "z" in taken)


def _offer(text: str) -> str:
    """What a format without directives means in ours."""
    out, position, found = "", 0, False
    while position < len(text):
        if text[position] == "'":
            end = text.find("'", position + 1)
            end = len(text) if end < 0 else end
            out += text[position + 1 : end]
            position = end + 1
            continue
        run = re.match(r"MI|mi|([A-Za-z])\1*(24|12)?", text[position:])
        word = run[0] if run else text[position]
        if run and out[-1:] in (".", ",") and set(word) <= {"S", "f", "n"} and "%S" in out:
            directive: str | None = "%f"
        else:
            directive = dict(_SPELLINGS).get(word) or ("%f" if set(word) == {"S"} else None)
        out += directive or word.replace("%", "%%")
        found |= directive is not None
        position += len(word)
    if found:
        return f'write format = "{out}"'
    return 'write one such as "%Y-%m-%d %H:%M:%S", or leave it out for ISO 8601'
