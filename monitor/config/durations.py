"""Lengths of time as people write them: `30m`, `24h`, `1h30m`, `28d`."""

from __future__ import annotations

import re
from datetime import timedelta

from pydantic_core import PydanticCustomError

_UNITS = {
    "ms": "milliseconds",
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}
LONGEST = timedelta(days=36525)
"""Beyond it, calendars end before a window does."""

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def parse_duration(value: object) -> timedelta:
    """A length of time such as ``30m``, ``24h``, ``1h30m``, ``28d``.

    Raises:
        PydanticCustomError: for anything else, bare numbers included: a number has no unit.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if not isinstance(value, str) or not _DURATION.fullmatch(value.strip()):
        raise PydanticCustomError(
            "duration", 'is not a duration; write a text with a unit, for example "30m" or "28d"'
        )
    parts = _PART.findall(value)
    try:
        length = sum((timedelta(**{_UNITS[u]: float(n)}) for n, u in parts), timedelta())
    except OverflowError:
        length = timedelta.max
    if length > LONGEST:
        raise PydanticCustomError("duration", "is too long: at most a hundred years")
    return length


def format_duration(length: timedelta) -> str:
    """The shortest text that `parse_duration` reads back.

    >>> format_duration(timedelta(hours=36))
    '36h'
    """
    milliseconds = round(length / timedelta(milliseconds=1))
    for unit in ("d", "h", "m", "s"):
        size = timedelta(**{_UNITS[unit]: 1}) // timedelta(milliseconds=1)
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
