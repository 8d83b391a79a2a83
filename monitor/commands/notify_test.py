"""`least-monitor notify-test`: does a message arrive, before it matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.configuration import ConfigOption, read_configuration
from monitor.commands.failure import mendable

if TYPE_CHECKING:
    from monitor.domain import Notification


def notify_test(
    config: ConfigOption,
    only: Annotated[
        str | None, typer.Option("--notifier", help="Only the one of this name.")
    ] = None,
) -> None:
    """Send a made-up incident, and its end, through every configured notifier."""
    settings = read_configuration(config)
    failures = 0
    with mendable():
        from monitor.app import make_notifiers
        from monitor.edge.notifiers import DeliveryError

        notifiers = make_notifiers(settings, None)
        names = [notifier.name for notifier in notifiers]
        if only is not None and only not in names:
            raise typer.BadParameter(f"--notifier {only!r} is none of {', '.join(names)}")
        for notifier in notifiers:
            if only in (None, notifier.name):
                try:
                    for notification in made_up(datetime.now(UTC)):
                        notifier.send(notification)
                    typer.secho(f"{notifier.name}: arrived", fg="green", err=True)
                except DeliveryError as error:
                    failures += 1
                    again = "" if error.permanent else " (a daemon would try again)"
                    typer.secho(f"{notifier.name}: {error}{again}", fg="red", err=True)
            notifier.close()
    if failures:
        raise typer.Exit(1)


def made_up(now: datetime) -> tuple[Notification, Notification]:
    """An incident that nobody can take for a real one, opened and resolved."""
    from dataclasses import replace

    from monitor.domain import Cause, Change, Finding, Incident, Method, Notification, State

    at = now.replace(second=0, microsecond=0)
    finding = Finding(
        method=Method.EXCESS,
        outcome="TEST",
        cause=Cause.of(notifier="test"),
        path=("notifier=test", "TEST"),
        score=50.0,
        p_value=1e-12,
        q_value=0.001,
        observed=120,
        expected=10.0,
        rows=1000,
        horizon=timedelta(minutes=30),
        began=at - timedelta(minutes=30),
        rate_before=0.01,
        rate_now=0.12,
    )
    opened = Incident(
        id=f"test-{at:%Y%m%dT%H%M}",
        state=State.OPEN,
        opened_at=at,
        updated_at=at,
        last_seen_at=at,
        finding=finding,
        latest=finding,
        causes=(finding.cause,),
    )
    ended = replace(opened, state=State.RESOLVED, resolved_at=at)
    return (Notification(opened, Change.OPENED, at), Notification(ended, Change.RESOLVED, at))
