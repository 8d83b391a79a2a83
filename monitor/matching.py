"""Matchers in Alertmanager's manner: ``airline=AC``, ``outcome!=pay``, ``office=~"B.*"``.

Their regular expressions are RE2's, as Alertmanager's are: any of them is decided in a time that
grows with the length of the value, so no text that an operator sends can hold up the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from monitor.domain import Incident, whole_number

OWN_NAMES = ("incident", "outcome", "severity", "method")
"""What every incident has; any other name is an attribute of its cause."""

_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_LONGEST = 500


class MatcherError(ValueError):
    """A text that is no matcher; the message says what is."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on an incident.

    ``=`` and ``=~`` hold when the cause lies wholly within: it names the attribute, and every
    value it lists agrees. ``!=`` and ``!~`` hold when no listed value agrees.
    """

    name: str
    operator: str
    """``=``, ``!=``, ``=~`` or ``!~``."""
    value: str
    """A regular expression is held against the whole value."""
    fault: str = ""
    """Why a stored one cannot be understood any more; it is met by no incident."""

    @staticmethod
    def parse(text: str) -> Matcher:
        """From its text; quotes around the value are optional.

        >>> str(Matcher.parse('office =~ "B.*"'))
        'office=~"B.*"'

        Raises:
            MatcherError: it is none.
        """
        found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None:
            raise MatcherError(
                f"{text[:80]!r} is no matcher; write name=value, name!=value, "
                'name=~"regular expression" or name!~"…"'
            )
        name, operator, value = found.groups()
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if not operator.endswith("~"):
            return Matcher(name, operator, whole_number(value))
        _matches(value, "")  # by itself: inside of brackets `a)|(b` would pass
        _matches(_whole(value), "")
        return Matcher(name, operator, value)

    @staticmethod
    def stored(text: str) -> Matcher:
        """From the text of one that was taken in before, perhaps by another release.

        What is not understood any more is kept with its `fault`: it must neither stop the
        reading of the others nor hush anything.
        """
        try:
            return Matcher.parse(text)
        except MatcherError as error:
            return Matcher("", "", text, str(error))

    def __str__(self) -> str:
        return self.value if self.fault else f'{self.name}{self.operator}"{self.value}"'

    def holds(self, incident: Incident) -> bool:
        """Whether the incident meets it."""
        if self.fault:
            return False
        values = _values(incident, self.name)
        if self.operator.startswith("!"):
            return not any(self._agrees(value) for value in values)
        return bool(values) and all(self._agrees(value) for value in values)

    def _agrees(self, value: str) -> bool:
        if not self.operator.endswith("~"):
            return value == self.value
        return _matches(_whole(self.value), value)


def all_hold(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """Every one of them; none at all is met by every incident."""
    return all(matcher.holds(incident) for matcher in matchers)


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


@lru_cache(maxsize=10_000)
def _matches(pattern: str, value: str) -> bool:
    """By RE2, in linear time; Python's `re` may need longer than anybody lives.

    Raises:
        MatcherError: it is no expression of RE2's.
    """
    # Only here: whoever has no matchers need not wait for it to be loaded.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return bool(pc.match_substring_regex(pa.scalar(value), pattern=pattern).as_py())
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise MatcherError(
            f"{pattern!r} is no regular expression of RE2's, which has no look-around and no "
            f"back-references: {why}"
        ) from None


def _values(incident: Incident, name: str) -> tuple[str, ...]:
    finding = incident.finding
    match name:
        case "incident":
            return (incident.id,)
        case "outcome":
            return (finding.outcome,)
        case "severity":
            return (incident.severity.value,)
        case "method":
            return (finding.method.value,)
    return dict(finding.cause.selector).get(name, ())
