"""Texts that a person would take for one: alike but for case, blanks and zeros behind a point."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_ZEROS = re.compile(r"(-?\d+)\.0+")


def key(text: str) -> str:
    """Equal for texts that look like one.

    >>> key(" Fail") == key("FAIL "), key("7.00") == key("7"), key("4.1") == key("4.10")
    (True, True, False)
    """
    plain = " ".join(text.casefold().split())
    found = _ZEROS.fullmatch(plain)
    return found[1] if found else plain


def alike(texts: Iterable[str]) -> list[list[str]]:
    """Groups of texts that look like one; those that stand alone are left out."""
    groups = defaultdict(list)
    for text in texts:
        groups[key(text)].append(text)
    return [group for group in groups.values() if len(group) > 1]
