"""Messages in the operators' own words: Jinja templates, rendered in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from jinja2 import StrictUndefined, TemplateError
from jinja2 import Template as Compiled
from jinja2.sandbox import ImmutableSandboxedEnvironment

from monitor.config import Template, Templates
from monitor.domain import Incident, Notification
from monitor.edge import documents
from monitor.edge.notifiers import link_to
from monitor.edge.notifiers.message import (
    leading,
    one_line,
    together_headline,
    together_text,
    worst,
)
from monitor.edge.wording import cause_text, duration, number, percent, time_text

_log = structlog.get_logger("templates")

Escape = Callable[[str], str]

LONGEST = 100_000
"""Characters of a rendered message; the rest is cut."""


class WordingError(Exception):
    """A template cannot be rendered; the message names it and says why."""


class Wording:
    """What a notifier says: by the operators' templates, else in our words.

    Args:
        templates: as configured.
        console_url: where people reach the console; for the links.

    Raises:
        WordingError: a template is not sound.
    """

    def __init__(self, templates: Templates | None = None, console_url: str | None = None) -> None:
        self._console_url = console_url
        templates = templates or Templates()
        self._title = _compile(templates.title)
        self._text = _compile(templates.text)
        self._html = _compile(templates.html, escape=True)

    def check(self, notifications: Sequence[Notification]) -> None:
        """Render everything once.

        Raises:
            WordingError: that fails.
        """
        for template in (self._title, self._text, self._html):
            if template is not None:
                self._render(template, notifications)

    def title(self, notifications: Sequence[Notification], escape: Escape | None = None) -> str:
        """One line; what `escape` is given comes from the watched log."""
        words = self._own_words(self._title, notifications, escape)
        if words is None:
            headline = together_headline(notifications)
            return headline if escape is None else escape(headline)
        return one_line(" ".join(words.split()))

    def text(self, notifications: Sequence[Notification], escape: Escape | None = None) -> str:
        """The whole message."""
        words = self._own_words(self._text, notifications, escape)
        if words is not None:
            return words
        text = together_text(notifications, self.link)
        return text if escape is None else self._escape_lines(text, escape)

    def _escape_lines(self, text: str, escape: Escape) -> str:
        # Addresses are ours, and would no longer lead anywhere.
        ours = self._console_url
        return "\n".join(
            line
            if ours and line.split()[-1:] and line.split()[-1].startswith(ours)
            else escape(line)
            for line in text.split("\n")
        )

    def html(self, notifications: Sequence[Notification]) -> str | None:
        """The operators' page; None without one."""
        return self._own_words(self._html, notifications)

    def _own_words(
        self,
        compiled: tuple[str, Compiled] | None,
        notifications: Sequence[Notification],
        escape: Escape | None = None,
    ) -> str | None:
        if compiled is None:
            return None
        try:
            return self._render(compiled, notifications, escape)
        except WordingError as error:
            # Better in our words than not at all.
            _log.error("template fails", error=str(error))
            return None

    def link(self, incident: Incident) -> str | None:
        """To the incident's page."""
        return link_to(incident, self._console_url)

    def _render(
        self,
        compiled: tuple[str, Compiled],
        notifications: Sequence[Notification],
        escape: Escape | None = None,
    ) -> str:
        path, template = compiled
        known = variables(notifications, self._console_url)
        if escape is not None:
            known = _escape_all(known, escape)
        try:
            return template.render(known)[:LONGEST]
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise WordingError(f"template {path}: {error}") from error


def variables(
    notifications: Sequence[Notification], console_url: str | None = None
) -> dict[str, Any]:
    """What a template may use; `config.TEMPLATE_VARIABLES` names it.

    Everything that comes from the watched log is free of line ends and control codes.
    """
    parts = [_part(notification, console_url) for notification in notifications]
    return {
        **parts[0],
        "change": leading(notifications).value,
        "severity": worst(notifications).value,
        "count": len(parts),
        "causes": [each["cause"] for each in parts],
        "headline": together_headline(notifications),
        "text": together_text(notifications, lambda incident: link_to(incident, console_url)),
        "parts": parts,
    }


def _escape_all(value: Any, escape: Escape) -> Any:
    match value:
        case str():
            return escape(value)
        case dict():
            # The address of the incident is ours.
            return {k: v if k == "link" else _escape_all(v, escape) for k, v in value.items()}
        case list():
            return [_escape_all(each, escape) for each in value]
    return value


def _part(notification: Notification, console_url: str | None) -> dict[str, Any]:
    incident = notification.incident
    finding = incident.latest
    return {
        "at": time_text(notification.at),
        "change": notification.change.value,
        "severity": incident.severity.value,
        "outcome": one_line(finding.outcome),
        "cause": one_line(cause_text(incident.finding.cause)),
        "since": time_text(finding.began),
        "failures": finding.observed,
        "expected": finding.expected,
        "rows": finding.rows,
        "rate_before": finding.rate_before,
        "rate_now": finding.rate_now,
        "path": [one_line(node) for node in incident.finding.path],
        "codes": [one_line(code) for code in finding.codes],
        "link": link_to(incident, console_url),
        "incident": documents.incident_document(incident),
    }


def _compile(template: Template | None, escape: bool = False) -> tuple[str, Compiled] | None:
    if template is None:
        return None
    environment = ImmutableSandboxedEnvironment(
        autoescape=escape, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, percent=percent, duration=duration)
    try:
        return template.path, environment.from_string(template.source)
    except TemplateError as error:
        raise WordingError(f"template {template.path}: {error}") from error
