"""Times in which incidents are tracked but nobody is told: silences and maintenance windows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import structlog

from monitor.config import MaintenanceWindow
from monitor.config.durations import parse_duration
from monitor.domain import Incident, bounded
from monitor.edge.wording import time_text
from monitor.matching import Matcher, all_hold

if TYPE_CHECKING:
    from monitor.edge.store import Store

LONGEST = timedelta(days=366)
"""A silence for ever would be forgotten for ever."""

_log = structlog.get_logger("silences")


@dataclass(frozen=True, slots=True)
class Silence:
    """An operator wants to hear nothing of some incidents for a while."""

    id: str
    matchers: tuple[Matcher, ...]
    """All must hold; at least one."""
    starts_at: datetime
    ends_at: datetime
    created_at: datetime
    actor: str
    note: str = ""
    expired_by: str | None = None
    """Who ended it before its time; `ends_at` is then when."""

    @staticmethod
    def of(
        matchers: Sequence[str],
        ends_at: datetime,
        now: datetime,
        actor: str,
        note: str = "",
        starts_at: datetime | None = None,
    ) -> Silence:
        """A new one.

        Raises:
            ValueError: it would silence nothing, or for too long; `MatcherError` for a matcher.
        """
        found = tuple(Matcher.parse(text) for text in matchers)
        for what, at in (("start", starts_at), ("end", ends_at)):
            try:
                if at is not None:
                    bounded(at)
            except ValueError as error:
                raise ValueError(f"the {what} of a silence {error}") from None
        starts = starts_at or now
        if not found:
            raise ValueError('a silence needs a matcher; `outcome=~".*"` is everything')
        if ends_at <= max(starts, now):
            raise ValueError("a silence must end after now and after its start")
        if ends_at - now > LONGEST:
            raise ValueError(f"a silence lasts at most {LONGEST.days} days; renew it")
        text = "\x1f".join([actor, now.isoformat(), ends_at.isoformat(), *map(str, found)])
        identity = hashlib.sha256(text.encode()).hexdigest()[:8]
        return Silence(identity, found, starts, ends_at, now, actor, note)

    @property
    def fault(self) -> str:
        """Why it silences nothing, although it is in force; empty when it can be understood."""
        return "; ".join(matcher.fault for matcher in self.matchers if matcher.fault)

    def active(self, now: datetime) -> bool:
        """It holds at this moment."""
        return self.starts_at <= now < self.ends_at


@dataclass(frozen=True, slots=True)
class Hush:
    """Why nobody hears of an incident, and until when."""

    reason: str
    until: datetime
    kind: str = "silenced"
    """Or ``maintenance``."""


def length_of_time(text: str) -> timedelta:
    """``2h``, ``1h30m``, ``7d``, as in the configuration.

    Raises:
        ValueError: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None


def until(window: MaintenanceWindow, now: datetime) -> datetime | None:
    """When the window that is open now ends; None when it is not open.

    One that comes back begins by the wall clock of its zone and lasts its full length, also
    over a change of the clocks.
    """
    if window.start is not None and window.end is not None:
        return window.end if window.start <= now < window.end else None
    zone = ZoneInfo(window.zone)
    today = now.astimezone(zone).date()
    for day in (today, today - timedelta(days=1)):
        if day.weekday() in window.days:
            begins = datetime.combine(day, window.at, zone).astimezone(UTC)
            if begins <= now < begins + window.length:
                return begins + window.length
    return None


@dataclass(slots=True)
class Silencer:
    """Asked before anything is told; reads the store once a moment.

    Args:
        store: with the silences.
        windows: of the configuration.
    """

    store: Store
    windows: Sequence[MaintenanceWindow] = ()
    _seen: tuple[datetime | None, tuple[Silence, ...]] = None, ()
    """When it looked, and what held; replaced whole, for several threads ask."""
    _complained: set[str] = field(default_factory=set)

    def __call__(self, incident: Incident, now: datetime) -> tuple[str, datetime] | None:
        """As `bundling.Quiet`."""
        found = self.hush(incident, now)
        return None if found is None else (found.reason, found.until)

    def hush(self, incident: Incident, now: datetime) -> Hush | None:
        """What keeps it quiet."""
        return hushed(incident, self._look(now), self.windows, now)

    def count(self, now: datetime) -> int:
        """Silences and windows that hold."""
        return len(self._look(now)) + sum(until(window, now) is not None for window in self.windows)

    def _look(self, now: datetime) -> tuple[Silence, ...]:
        at, active = self._seen
        if now == at:
            return active
        active = tuple(self.store.silences(active_at=now))
        self._seen = now, active
        for silence in active:
            if silence.fault and silence.id not in self._complained:
                self._complained.add(silence.id)
                _log.warning(
                    "a silence cannot be understood and silences nothing; add it anew",
                    silence=silence.id,
                    why=silence.fault,
                )
        return active


def listed(store: Store, now: datetime) -> list[Silence]:
    """For people, newest first: every one that holds, and of the others those made last."""
    found = {s.id: s for s in (*store.silences(), *store.silences(active_at=now))}
    return sorted(found.values(), key=lambda s: (s.created_at, s.id), reverse=True)


def hushed(
    incident: Incident,
    silences: Iterable[Silence],
    windows: Iterable[MaintenanceWindow],
    now: datetime,
) -> Hush | None:
    """What keeps an incident quiet the longest; None when nothing does."""
    found = [
        Hush(_said(f"silence {s.id} by {s.actor}", s.note), s.ends_at)
        for s in silences
        if s.active(now) and all_hold(s.matchers, incident)
    ]
    for window in windows:
        ends = until(window, now)
        if ends is not None and all_hold(window.matchers, incident):
            found.append(Hush(_said("maintenance", window.note), ends, "maintenance"))
    return max(found, key=lambda hush: hush.until, default=None)


def _said(what: str, note: str) -> str:
    return f"{what}: {note}" if note else what


def described(window: MaintenanceWindow) -> str:
    """A window in words, for lists."""
    if window.start is not None:
        return f"{time_text(window.start)} – {time_text(window.end)}"
    week = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    days = "every day" if len(window.days) == 7 else ", ".join(week[d] for d in sorted(window.days))
    hours = window.length.total_seconds() / 3600
    return f"{days} from {window.at:%H:%M} {window.zone} for {hours:g} h"
