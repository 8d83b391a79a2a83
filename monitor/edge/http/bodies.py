"""What clients send: read within bounds, and checked whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from starlette.requests import Request

from monitor.config.problems import closest
from monitor.edge import documents
from monitor.edge.http.problems import Fault, Refusal, invalid
from monitor.edge.http.questions import moment
from monitor.edge.silences import Silence, length_of_time

LARGEST = 64 * 1024
"""Bytes of a body."""

LONGEST_ACTOR, LONGEST_NOTE, LONGEST_MATCHER = 200, 2000, 500
MOST_MATCHERS = 20

_PATIENCE_SECONDS = 15.0
"""For a body to come in; who sends it drop by drop holds a connection, not the monitor."""

_Choice = TypeVar("_Choice", bound=Enum)


async def read_body(request: Request, kind: str) -> bytes:
    """The body, if it is of this type and not too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Refusal(415, f"send Content-Type: {kind}", headers={"Accept": kind})
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > LARGEST:
        raise Refusal(413, f"more than {LARGEST} bytes")
    pieces, size = [], 0
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > LARGEST:
                    raise Refusal(413, f"more than {LARGEST} bytes")
                pieces.append(chunk)
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {_PATIENCE_SECONDS:g} s") from None
    return b"".join(pieces)


async def json_body(request: Request) -> Fields:
    """A JSON object."""
    # A form that another site makes the browser send cannot have this type.
    text = await read_body(request, "application/json")
    try:
        body = documents.loads(text)
    except ValueError as error:
        raise Refusal(400, f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid(422, [Fault("body", "", "send a JSON object")])
    return Fields(body)


class Fields:
    """The fields of a body; each is read once, then `check` is called."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._known: list[str] = []
        self._faults: list[Fault] = []

    def check(self, strict: bool = True) -> None:
        """Call it when all was read.

        Args:
            strict: refuse fields that nobody has read; a form has others.

        Raises:
            Refusal: with everything that is wrong.
        """
        for name in self._body if strict else ():
            if name not in self._known:
                near = closest(name, self._known)
                known = f"did you mean {near}?" if near else f"known are {', '.join(self._known)}"
                self.fault(name[:80], f"unknown field {name[:80]!r}; {known}")
        if self._faults:
            raise invalid(422, self._faults)

    def fault(self, name: str, detail: str) -> None:
        """Something is wrong with a field."""
        self._faults.append(Fault("body", name, detail))

    def holds(self, name: str) -> bool:
        """Whether it is given, right or wrong."""
        return bool(self._body.get(name))

    def text(self, name: str, longest: int, default: str | None = None) -> str:
        """Without a default it must not be empty."""
        self._known.append(name)
        value = self._body.get(name, default)
        if (
            not isinstance(value, str)
            or len(value) > longest
            or "\0" in value
            or (default is None and not value.strip())
        ):
            what = "a text" if default is not None else "a text, not empty,"
            self.fault(name, f"{name!r} must be {what} of at most {longest} characters")
            return ""
        return value

    def actor(self) -> str:
        """Who does it."""
        return self.text("actor", LONGEST_ACTOR)

    def note(self) -> str:
        """Why."""
        return self.text("note", LONGEST_NOTE, "")

    def choice(self, name: str, kind: type[_Choice]) -> _Choice:
        """One of the known words; the first of them when it is none, for `check` to complain."""
        self._known.append(name)
        value = self._body.get(name)
        known = [str(member.value) for member in kind]
        if isinstance(value, str) and value in known:
            return kind(value)
        near = closest(str(value), known)
        hint = f"; did you mean {near}?" if near else ""
        self.fault(name, f"{name!r} must be one of {', '.join(known)}{hint}")
        return next(iter(kind))

    def time(self, name: str) -> datetime | None:
        """ISO 8601 with a zone; None when left out."""
        text = self.text(name, 40, "")
        try:
            return moment(text) if text else None
        except ValueError as error:
            self.fault(name, f"{name}={text!r} {error}")
            return None

    def texts(self, name: str, most: int) -> list[str]:
        """A list of them."""
        self._known.append(name)
        value = self._body.get(name)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self.fault(name, f"{name!r} must be a list of texts")
        elif len(value) > most:
            self.fault(name, f"{name!r} has more than {most} texts")
        elif any("\0" in text or len(text) > LONGEST_MATCHER for text in value):
            self.fault(name, f"each of {name!r} must be of at most {LONGEST_MATCHER} characters")
        else:
            return value
        return []


def new_silence(fields: Fields, now: datetime, strict: bool = True) -> Silence:
    """From what an operator sent: match, ends_at or length, starts_at, actor, note.

    Raises:
        Refusal: with everything that is wrong.
    """
    match, actor, note = fields.texts("match", MOST_MATCHERS), fields.actor(), fields.note()
    starts, ends = fields.time("starts_at"), fields.time("ends_at")
    length = fields.text("length", 20, "")
    if fields.holds("ends_at") == fields.holds("length"):
        fields.fault("ends_at", "give 'ends_at' or 'length', one of them")
    fields.check(strict)
    try:
        end = ends or (starts or now) + length_of_time(length)
        return Silence.of(match, end, now, actor, note, starts)
    except (ValueError, OverflowError) as error:
        raise invalid(422, [Fault("body", "", str(error))]) from None
