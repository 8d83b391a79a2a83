"""What stands behind the question mark: checked whole, so that one answer tells all that is wrong.

A parameter that nobody knows is refused too: a misspelt filter that is silently left out would
answer another question.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from typing import TypeVar

from starlette.datastructures import QueryParams

from monitor.config.problems import closest
from monitor.domain import bounded
from monitor.edge.http.problems import Fault, invalid

PAGE = 50
"""Things on a page unless asked otherwise."""

MOST = 500
"""Things on a page at most."""

LONGEST = 500
"""Characters of a text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_Choice = TypeVar("_Choice", bound=Enum)

Place = tuple[datetime, str]
"""Where a page of incidents ends: when the last was opened, and its id."""


def cursor(place: Place) -> str:
    """Opaque to clients. It names a place in time, so nothing that comes or goes moves it.

    >>> place_of(cursor((datetime(2026, 3, 1, tzinfo=UTC), "a1b2")))[1]
    'a1b2'
    """
    text = f"{(place[0] - _EPOCH) // _MICROSECOND}:{place[1]}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(text: str) -> Place:
    """Inverse of `cursor`.

    Raises:
        ValueError: it is none of ours.
    """
    try:
        padded = text + "=" * (-len(text) % 4)
        plain = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode()
        at, colon, name = plain.partition(":")
        if not (colon and name):
            raise ValueError(text)
        return _EPOCH + int(at) * _MICROSECOND, name
    except (ValueError, OverflowError, binascii.Error):
        raise ValueError(text) from None


class Question:
    """The parameters of one request; each is read once, then `check` is called.

    Args:
        asked: as they came.
        only: the names it may have.
        forms: an empty value counts as left out, as in a form that was not filled in.
        many: those of them that may be given more than once.
    """

    def __init__(
        self,
        asked: QueryParams,
        only: Iterable[str],
        forms: bool = False,
        many: Sequence[str] = (),
    ) -> None:
        self._asked, self._known, self._forms = asked, tuple(only), forms
        self._faults: list[Fault] = []
        counts: dict[str, int] = {}
        for name, _ in asked.multi_items():
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            if name not in self._known:
                near = closest(name, self._known)
                known = f"did you mean {near}?" if near else f"known are {self._list()}"
                self.fault(name[:80], f"unknown parameter {name[:80]!r}; {known}")
            elif count > 1 and name not in many:
                self.fault(name, f"{name} is given {count} times")

    def _list(self) -> str:
        return ", ".join(self._known) or "none here"

    def fault(self, name: str, detail: str) -> None:
        """Something is wrong with a parameter."""
        self._faults.append(Fault("query", name, detail))

    def check(self) -> None:
        """Call it when all was read.

        Raises:
            Refusal: with everything that is wrong.
        """
        if self._faults:
            raise invalid(400, self._faults)

    def _given(self, name: str) -> str | None:
        value = self._asked.get(name)
        return None if self._forms and not value else value

    def text(self, name: str) -> str | None:
        """Any words; None when left out."""
        value = self._given(name)
        if value is None:
            return None
        if not value or len(value) > LONGEST or "\0" in value:
            self.fault(name, f"{name} must be a text of 1 to {LONGEST} characters")
            return None
        return value

    def choice(self, name: str, kind: type[_Choice]) -> _Choice | None:
        """One of the known words."""
        value = self.among(name, [str(member.value) for member in kind])
        return None if value is None else kind(value)

    def among(self, name: str, known: Sequence[str]) -> str | None:
        """One of these."""
        value = self._given(name)
        if value is None or value in known:
            return value
        near = closest(value, known)
        hint = f"; did you mean {near}?" if near else ""
        self.fault(name, f"{name}={value[:80]!r} is none of {', '.join(known)}{hint}")
        return None

    def pairs(self, name: str, known: Sequence[str], most: int) -> list[tuple[str, str]]:
        """Each ``attribute=value``, of these attributes, once."""
        found: dict[tuple[str, str], None] = {}
        for text in self._asked.getlist(name):
            if self._forms and not text.strip():
                continue
            attribute, equals, value = text.strip().partition("=")
            if not equals or attribute.strip() not in known:
                self.fault(
                    name,
                    f"{name}={text[:80]!r} is no attribute=value; attributes are "
                    f"{', '.join(known)}",
                )
            found[attribute.strip(), value.strip()] = None
        if len(found) > most:
            self.fault(name, f"at most {most} conditions")
        return list(found)

    def time(self, name: str) -> datetime | None:
        """ISO 8601 with a zone; a field of a form for times knows none and is in UTC."""
        value = self._given(name)
        if value is None:
            return None
        try:
            return moment(value, UTC if self._forms else None)
        except ValueError as error:
            self.fault(name, f"{name}={value[:80]!r} {error}")
            return None

    def number(self, name: str, default: int, most: int) -> int:
        """From 1 to `most`."""
        value = self._given(name)
        if value is None:
            return default
        if value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= most:
            return int(value)
        self.fault(name, f"{name}={value[:80]!r} is not a number from 1 to {most}")
        return default

    def place(self, name: str) -> Place | None:
        """Where to go on."""
        value = self._given(name)
        if value is None:
            return None
        try:
            return place_of(value)
        except ValueError:
            self.fault(name, f"{name}={value[:80]!r} is no cursor; take `next` of the page before")
            return None


def moment(text: str, zone: tzinfo | None = None) -> datetime:
    """ISO 8601 with a zone.

    Args:
        text: as it came.
        zone: of a text that names none; None refuses it.

    Raises:
        ValueError: it is none; the message goes on after the text.
    """
    try:
        # RFC 3339 allows small letters.
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError("is no ISO-8601 time") from None
    if at.tzinfo is None and zone is not None:
        at = at.replace(tzinfo=zone)
    if at.tzinfo is None:
        raise ValueError("has no time zone; append Z for UTC")
    return bounded(at)
