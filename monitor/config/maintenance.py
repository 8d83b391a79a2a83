"""The sections on who is told when: the heartbeat, and windows of maintenance."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from pathlib import Path

from monitor.config.lines import Location
from monitor.config.model import HeartbeatSettings, MaintenanceWindow
from monitor.config.notifiers import matchers
from monitor.config.problems import Complaints
from monitor.config.sections import Document, MaintenanceSection
from monitor.config.zones import check_zone
from monitor.domain import bounded

_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONGEST = timedelta(days=1)


def heartbeat(document: Document, base: Path, complaints: Complaints) -> HeartbeatSettings | None:
    """The dead man's switch; None without an address."""
    section, here = document.heartbeat, ("heartbeat",)
    if section.url and section.url_file:
        complaints.add((*here, "url"), "is given, and `url_file` too", "keep one")
    url = section.url or complaints.secret(section.url_file, (*here, "url_file"), base)
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        complaints.add(
            (*here, "url_file"), "holds no address", "it starts with http:// or https://"
        )
    return HeartbeatSettings(url, section.start, section.timeout)


def maintenance(document: Document, complaints: Complaints) -> tuple[MaintenanceWindow, ...]:
    """All windows, past ones too."""
    return tuple(
        _window(section, ("maintenance", i), document, complaints)
        for i, section in enumerate(document.maintenance)
    )


def _window(
    section: MaintenanceSection, here: Location, document: Document, complaints: Complaints
) -> MaintenanceWindow:
    found = matchers(section.match, (*here, "match"), document, complaints)
    once = section.start is not None or section.end is not None
    again = section.at is not None or section.length is not None or bool(section.days)
    if once == again:
        complaints.add(
            here,
            "is both a single window and one that comes back" if once else "has no time",
            "give `start` and `end`, or `at` and `length`",
        )
    elif once:
        _check_once(section, here, complaints)
    else:
        _check_again(section, here, complaints)
    at = time.fromisoformat(section.at or "00:00")
    return MaintenanceWindow(
        matchers=found,
        start=section.start,
        end=section.end,
        days=frozenset(_WEEK.index(day) for day in section.days or _WEEK),
        at=at,
        length=section.length or timedelta(0),
        zone=section.zone,
        note=section.note,
    )


def _check_once(section: MaintenanceSection, here: Location, complaints: Complaints) -> None:
    for key in ("start", "end"):
        moment: datetime | None = getattr(section, key)
        if moment is None:
            complaints.add(here, f"has no `{key}`", f"write {key} = 2026-12-01T22:00:00Z")
        elif moment.tzinfo is None:
            complaints.add((*here, key), "has no zone", "append Z for UTC, or +01:00")
        else:
            try:
                bounded(moment)
            except ValueError as error:
                complaints.add((*here, key), str(error))
    start, end = section.start, section.end
    if start and end and start.tzinfo and end.tzinfo and end <= start:
        complaints.add((*here, "end"), "is not after `start`")


def _check_again(section: MaintenanceSection, here: Location, complaints: Complaints) -> None:
    if section.at is None:
        complaints.add(here, "has no `at`", 'write at = "22:30"')
    if section.length is None:
        complaints.add(here, "has no `length`", 'write length = "2h"')
    elif section.length > _LONGEST:
        complaints.add(
            (*here, "length"), "is more than a day", "24h on every day is without an end already"
        )
    check_zone(section.zone, (*here, "zone"), complaints)
