"""Spans of time given as durations, or as numbers of slices; and what they are by default."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator
from pydantic_core import PydanticKnownError

from monitor.config.durations import format_duration, parse_duration
from monitor.config.lines import Location
from monitor.config.problems import Complaints
from monitor.domain import HALF_HOUR, DetectionSettings, IncidentSettings, WindowSettings

_MINUTES = tuple(timedelta(minutes=minutes) for minutes in (5, 30, 120, 360, 1440))
"""Horizons of slices shorter than half an hour; those not longer than a slice are left out."""
_PATIENCE = timedelta(hours=1)
"""Before an incident is resolved, where slices are short."""


def _parse(value: object) -> timedelta | int:
    if isinstance(value, bool) or not isinstance(value, int):
        value = parse_duration(value)
    if value in (0, timedelta(0)) or (isinstance(value, int) and value < 0):
        raise PydanticKnownError("greater_than_equal", {"ge": 1})
    assert isinstance(value, int | timedelta)
    return value


def _format(span: timedelta | int) -> str | int:
    return format_duration(span) if isinstance(span, timedelta) else span


Span = Annotated[timedelta | int, PlainValidator(_parse), PlainSerializer(_format)]
"""``"30m"``, or a number of slices, as earlier configurations have it."""


def usual_horizons(window: WindowSettings) -> tuple[int, ...]:
    """Horizons where none are given, in slices.

    >>> usual_horizons(WindowSettings(slice_length=timedelta(minutes=5)))
    (1, 6, 24, 72, 288)
    >>> usual_horizons(WindowSettings(slice_length=timedelta(hours=1)))
    (1, 2, 4, 12, 24)
    """
    if window.slice_length < HALF_HOUR:
        spans = (1, *(-(-span // window.slice_length) for span in _MINUTES))
    else:
        spans = DetectionSettings().horizons
    return tuple(sorted({min(span, max(window.slices, 1)) for span in spans}))


def usual_patience(window: WindowSettings) -> int:
    """`incidents.resolve_after` where it is not given, in slices.

    >>> usual_patience(WindowSettings(slice_length=timedelta(minutes=5)))
    12
    """
    return max(IncidentSettings().resolve_after, window.slices_in(_PATIENCE))


def in_slices(
    spans: Sequence[timedelta | int],
    window: WindowSettings,
    here: Location,
    complaints: Complaints,
) -> tuple[int, ...]:
    """Spans as numbers of slices; what is no multiple of one is complained of."""
    out = []
    for span in spans:
        if isinstance(span, timedelta):
            if span % window.slice_length:
                length = format_duration(window.slice_length)
                complaints.add(
                    here, f"{format_duration(span)} is no multiple of a slice, which is {length}"
                )
            span = window.slices_in(span)
        out.append(span)
    return tuple(out)
