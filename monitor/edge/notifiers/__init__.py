"""Where incident changes are told, and the outbox that makes sure they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from monitor.domain import Incident, Notification


class DeliveryError(Exception):
    """The world did not take a notification.

    Args:
        reason: what happened, for the operator.
        permanent: trying again cannot help.
        retry_after: the receiver asked for this pause.
    """

    def __init__(
        self, reason: str, *, permanent: bool = False, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.retry_after = retry_after


class Notifier(Protocol):
    """One way to tell people. `tests/contracts/test_notifiers.py` says what it owes."""

    name: str
    """Unique among the configured ones; the outbox knows it by this."""

    def send(self, notification: Notification) -> None:
        """Tell it, or raise.

        May be called again with the same notification after a crash: receivers see it at
        least once, and can tell by incident, change and time that it is the same.

        Raises:
            DeliveryError: it did not arrive.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...


@runtime_checkable
class Refreshing(Notifier, Protocol):
    """A notifier whose receiver forgets what it is not told again."""

    every: timedelta
    """How often it must be told."""

    def refresh(self, incidents: Sequence[Incident]) -> None:
        """Tell the receiver what still holds.

        Args:
            incidents: not resolved, and announced through this notifier.

        Raises:
            DeliveryError: the receiver did not take it; the next time may do.
        """
        ...


@runtime_checkable
class Bundling(Notifier, Protocol):
    """A notifier that can tell of several incidents in one message."""

    def send_together(self, notifications: Sequence[Notification]) -> None:
        """Tell them all, or raise; as `send`.

        Args:
            notifications: at least two, of different incidents.

        Raises:
            DeliveryError: it did not arrive.
        """
        ...


@runtime_checkable
class Collapsing(Notifier, Protocol):
    """A notifier for whose receiver only the newest state of an incident counts.

    When several changes of one incident have piled up, it is told one.
    """

    states_only: bool
    """What began and ended before it could be told is not told at all."""


def link_to(incident: Incident, console_url: str | None) -> str | None:
    """The incident's page.

    Args:
        incident: the one to show.
        console_url: where people reach the console, e.g. ``https://monitor.example.com``.
    """
    return None if console_url is None else f"{console_url.rstrip('/')}/incidents/{incident.id}"
