"""How times, counts and shares read for people, the same on pages, in mails and in terminals."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta, tzinfo

from monitor.domain import Cause

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def time_text(at: datetime | None, zone: tzinfo = UTC) -> str:
    """For people, always with its zone.

    >>> time_text(datetime(2013, 4, 16, 17, 30, tzinfo=UTC))
    '2013-04-16 17:30 UTC'
    """
    return "–" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


def number(value: float) -> str:
    """Counts in full, expectations with as many digits as matter.

    >>> number(12034), number(3.25), number(0.0312)
    ('12,034', '3.2', '0.031')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def percent(value: float) -> str:
    """A share, with two digits that matter.

    >>> percent(0.0123), percent(0.4), percent(0.00036), percent(0.0)
    ('1.2 %', '40 %', '0.036 %', '0 %')
    """
    if not math.isfinite(value):
        return "–"
    hundredths = 100 * value
    if hundredths == 0 or hundredths >= 10:
        return f"{hundredths:.0f} %"
    return f"{hundredths:.1f} %" if hundredths >= 1 else f"{hundredths:.2g} %"


def probability(value: float) -> str:
    """p and q, which are often tiny.

    >>> probability(0.03), probability(3e-9), probability(0.0)
    ('0.030', '3e-09', '<1e-300')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "<1e-300"  # smaller than a float can hold
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def duration(value: timedelta) -> str:
    """Hours and minutes.

    >>> duration(timedelta(minutes=90)), duration(timedelta(hours=24))
    ('1 h 30 min', '24 h')
    """
    minutes = round(value.total_seconds() / 60)
    hours, rest = divmod(minutes, 60)
    parts = ([f"{hours} h"] if hours else []) + ([f"{rest} min"] if rest or not hours else [])
    return " ".join(parts)


def ago(at: datetime, now: datetime) -> str:
    """How long since, or until, in one unit.

    >>> noon = datetime(2013, 4, 16, 12, tzinfo=UTC)
    >>> ago(noon - timedelta(minutes=12), noon), ago(noon - timedelta(hours=30), noon)
    ('12 min ago', '30 h ago')
    >>> ago(noon - timedelta(days=3), noon), ago(noon, noon), ago(noon + timedelta(hours=2), noon)
    ('3 days ago', 'just now', 'in 2 h')
    """
    minutes = round(abs(now - at) / timedelta(minutes=1))
    if not minutes:
        return "just now"
    if minutes < 100:
        words = f"{minutes} min"
    elif minutes < 48 * 60:
        words = f"{round(minutes / 60)} h"
    else:
        words = f"{round(minutes / 1440):,} days"
    return f"{words} ago" if at < now else f"in {words}"


def cause_text(cause: Cause, most: int = 6) -> str:
    """A cause in words; long value lists are cut.

    >>> cause_text(Cause.of(airline="AC", office=["BKK", "SEL"]))
    'airline AC with office BKK, SEL'
    """
    if not cause.selector:
        return "everything"
    parts = []
    for name, values in cause.selector:
        more = f" and {len(values) - most} more" if len(values) > most else ""
        parts.append(f"{name} {', '.join(values[:most])}{more}")
    return " with ".join(parts)


def visible(text: str) -> str:
    """Signs that one cannot see, or that reorder their neighbours, written as what they are.

    A value of the watched log must not make a page say something else than it holds.

    >>> visible("AC\u202eTXT"), visible("two\\nlines"), visible("naïve ✈")
    ('AC⟨U+202E⟩TXT', 'two⟨U+000A⟩lines', 'naïve ✈')
    """
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(sign):04X}⟩" if unicodedata.category(sign) in _UNSEEN else sign for sign in text
    )


def size(count: int) -> str:
    """Bytes, for people.

    >>> size(812), size(48_200), size(3_400_000)
    ('812 B', '47 KiB', '3.2 MiB')
    """
    if count < 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.0f} KiB"
    return f"{count / 1024 / 1024:.1f} MiB"
