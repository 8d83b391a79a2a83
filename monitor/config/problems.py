"""Everything that is wrong with a configuration, said at once and by line."""

from __future__ import annotations

import difflib
import itertools
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monitor.config.lines import Location

ENVIRONMENT_PREFIX = "LEAST_MONITOR__"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend."""

    where: str
    """``file:line``, or the environment variable."""
    key: str
    """Dotted, for example ``schema.attributes[2].tier``; empty for the file itself."""
    message: str
    """What is wrong."""
    fix: str = ""
    """What to do."""

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"{self.where}: {key}{self.message}{fix}"


class ConfigError(Exception):
    """A configuration that cannot be used.

    Attributes:
        problems: all of them, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(slots=True)
class Complaints:
    """Gathers problems while a document is being read."""

    path: Path
    lines: Mapping[Location, int]
    overridden: Mapping[Location, str] = field(default_factory=dict)
    """Location → environment variable that set it."""
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    dropped: set[Location] = field(default_factory=set)
    """What was complained about and left out, so that the rest could be checked."""

    def add(self, location: Location, message: str, fix: str = "") -> None:
        """Note a problem at `location`; its line is that of the nearest key that is written.

        Not that something is missing in a table from which it was dropped.
        """
        if any(gone[: len(location)] == location != gone for gone in self.dropped):
            return
        for end in range(len(location), 0, -1):
            prefix = location[:end]
            if prefix in self.overridden:
                where = f"environment {self.overridden[prefix]}"
                line = 0
                break
            if prefix in self.lines:
                line = self.lines[prefix]
                where = f"{self.path}:{line}"
                break
        else:
            line, where = 0, str(self.path)
        self.problems.append((line, Problem(where, dotted(location), message, fix)))

    def sorted(self) -> list[Problem]:
        """By line; each complaint once."""
        ordered = sorted(self.problems, key=lambda item: item[0])
        return list(dict.fromkeys(problem for _, problem in ordered))

    def secret(self, path: str | None, location: Location, base: Path) -> str | None:
        """The content of a secret's file; None without a path, or after a complaint."""
        if path is None:
            return None
        try:
            return readable_secret(path, base)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.add(location, f"cannot be used: {reason}", "relative paths start at this file")
            return None


def dotted(location: Location) -> str:
    """The way a key is spoken of.

    >>> dotted(("schema", "attributes", 2, "tier"))
    'schema.attributes[2].tier'
    """
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion, or the list of what is known.

    >>> did_you_mean("atributes", ["attributes", "time"])
    'did you mean `attributes`?'
    """
    known = list(known)
    guess = closest(word, known)
    if guess is not None:
        return f"did you mean `{guess}`?"
    shown = ", ".join(f"`{name}`" for name in known[:20])
    return f"known are {shown}" + (" …" if len(known) > 20 else "") if known else ""


def closest(word: str, known: Iterable[str]) -> str | None:
    """What may have been meant; None when nothing is near.

    >>> closest("Warnin", ["info", "warning"])
    'warning'
    >>> closest("http_status", ["at", "response.httpStatus"])
    'response.httpStatus'
    """
    by_case = {name.lower(): name for name in known}
    plain, inner = _plain(word), _plain(word.rpartition(".")[2])
    alike = {_plain(name.rpartition(".")[2]): name for name in by_case.values()}
    alike |= {_plain(name): name for name in by_case.values()}
    if plain in alike or inner in alike:  # spelt otherwise, or in another table
        return alike[plain if plain in alike else inner]
    close = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.6)
    return by_case[close[0]] if close else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def apply_environment(document: dict[str, Any], environ: Mapping[str, str]) -> dict[Location, str]:
    """Override `document` in place by ``LEAST_MONITOR__SECTION__KEY`` variables.

    Values are read as TOML where they are TOML and as text where they aren't; a number as a key
    counts the items of a list (``LEAST_MONITOR__NOTIFIERS__0__URL``).

    Returns:
        Location → variable, for complaints.
    """
    origins: dict[Location, str] = {}
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        *parents, last = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        place: Any = document
        location: Location = ()
        for part, following in itertools.pairwise([*parents, last]):
            before = place.get(part) if isinstance(place, dict) else None
            step, place = _enter(place, part, [] if following.isdigit() else {})
            location += (step,)
            if place is not before:
                origins.setdefault(location, name)
        step, _ = _enter(place, last, None)
        location += (step,)
        if isinstance(place, dict | list):
            place[step] = _value(environ[name])  # type: ignore[index]
        origins[location] = name
    return origins


def _enter(place: Any, part: str, empty: Any) -> tuple[str | int, Any]:
    """Step into `part` of `place`, making room for it."""
    if isinstance(place, list) and part.isdigit():
        index = min(int(part), len(place))
        if index == len(place):
            place.append(empty)
        return index, place[index]
    if isinstance(place, dict):
        if not isinstance(place.get(part), dict | list) and empty is not None:
            place[part] = empty
        return part, place.get(part)
    return part, None


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = parsed.get("value")
    if len(parsed) > 1 or not isinstance(value, bool | int | float | str | list | dict):
        return text
    return value


def readable_secret(path: str, base: Path) -> str:
    """The content of a secret's file, without the line break at its end.

    Raises:
        OSError: it cannot be read; ValueError: it is empty or not text.
    """
    text = Path(os.path.join(base, path)).read_text("utf-8").strip("\r\n")
    if not text:
        raise ValueError("is empty")
    return text
