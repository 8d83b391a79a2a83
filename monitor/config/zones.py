"""Time zones, by their names in the IANA database."""

from __future__ import annotations

from zoneinfo import ZoneInfo, available_timezones

from monitor.config.lines import Location
from monitor.config.problems import Complaints, closest


def check_zone(name: str, location: Location, complaints: Complaints) -> None:
    """Complain about a name that is none."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        guess = closest(name, sorted(available_timezones()))
        fix = f"did you mean `{guess}`?" if guess else 'write a name such as "Europe/Lisbon"'
        complaints.add(location, f"there is no time zone {name!r}", fix)
