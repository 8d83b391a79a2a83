"""Incident changes as log lines: for people, or one JSON object a line."""

from __future__ import annotations

import sys
from typing import Any, Literal, TextIO

import structlog
from rich.console import Console
from rich.text import Text

from monitor.domain import Change, Notification
from monitor.edge import documents
from monitor.edge.notifiers import DeliveryError, link_to
from monitor.edge.notifiers.message import details, headline

_STYLES = {
    Change.OPENED: "bold red",
    Change.REGRESSED: "bold red",
    Change.WORSENED: "bold red",
    Change.RESOLVED: "bold green",
}


class LogNotifier:
    """Writes to a stream.

    Args:
        shape: ``human`` or ``json``.
        stream: where to; None is standard output as it is at the time of writing.
        console_url: where people reach the console; for the link.
        name: for the outbox.
    """

    def __init__(
        self,
        shape: Literal["human", "json"] = "human",
        stream: TextIO | None = None,
        console_url: str | None = None,
        name: str = "log",
    ) -> None:
        self.name = name
        self._shape = shape
        self._stream = stream
        self._console_url = console_url

    def send(self, notification: Notification) -> None:
        """See `Notifier`. A full disk or closed pipe may pass; it is tried again."""
        stream = self._stream or sys.stdout
        try:
            if self._shape == "json":
                self._write_json(notification, stream)
            else:
                self._write_text(notification, stream)
            stream.flush()
        except (OSError, ValueError) as error:
            raise DeliveryError(f"cannot write the log: {error}") from error

    def _write_text(self, notification: Notification, stream: TextIO) -> None:
        # Values come from the log that is watched: no markup, no emoji, no cutting of lines.
        console = Console(file=stream, soft_wrap=True, markup=False, emoji=False, highlight=False)
        style = _STYLES.get(notification.change, "bold yellow")
        console.print(
            Text(f"{notification.change.value.upper():9}", style),
            Text(headline(notification), "bold"),
        )
        facts = list(details(notification))
        if link := link_to(notification.incident, self._console_url):
            facts.append(("link", link))
        for name, value in facts:
            console.print(Text(f"          {name:9} ", "dim"), Text(value), sep="")

    def _write_json(self, notification: Notification, stream: TextIO) -> None:
        logger = structlog.wrap_logger(
            structlog.PrintLogger(stream),
            processors=[structlog.processors.JSONRenderer(serializer=_serialize)],
        )
        logger.info(
            "incident",
            change=notification.change.value,
            at=documents.time_text(notification.at),
            message=headline(notification),
            link=link_to(notification.incident, self._console_url),
            story=notification.incident.story,
            context=dict(notification.context),
            **documents.incident_summary(notification.incident),
        )

    def close(self) -> None:
        """The stream is not ours."""


def _serialize(event: dict[str, Any], **_options: Any) -> str:
    return documents.dumps(event).decode()
