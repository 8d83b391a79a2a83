"""Matchers in Alertmanager's manner: ``airline=AC``, ``outcome!=pay``, ``office=~"B.*"``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

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
    _pattern: re.Pattern[str] | None = field(default=None, compare=False, repr=False)

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
        try:
            return Matcher(name, operator, value, re.compile(value))
        except re.error as error:
            raise MatcherError(f"{value!r} is no regular expression: {error}") from None

    def __str__(self) -> str:
        return f'{self.name}{self.operator}"{self.value}"'

    def holds(self, incident: Incident) -> bool:
        """Whether the incident meets it."""
        values = _values(incident, self.name)
        if self.operator.startswith("!"):
            return not any(self._agrees(value) for value in values)
        return bool(values) and all(self._agrees(value) for value in values)

    def _agrees(self, value: str) -> bool:
        if self._pattern is None:
            return value == self.value
        return self._pattern.fullmatch(value) is not None


def all_hold(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """Every one of them; none at all is met by every incident."""
    return all(matcher.holds(incident) for matcher in matchers)


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
