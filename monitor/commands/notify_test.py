"""`least-monitor notify-test`: does a message arrive, before it matters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from monitor.commands.configuration import ConfigOption, read_configuration
from monitor.commands.failure import mendable


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
        from monitor.edge.notifiers import DeliveryError
        from monitor.edge.notifiers.making import made_up, make_notifiers

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
