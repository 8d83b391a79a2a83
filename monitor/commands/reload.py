"""`least-monitor reload`: have the running daemon read its configuration anew."""

from __future__ import annotations

import typer

from monitor.commands.configuration import BAD_CONFIGURATION
from monitor.commands.failure import mendable
from monitor.commands.stored import ApiOption, StoreConfigOption, TokenOption, running
from monitor.commands.terminal import say


def reload(
    config: StoreConfigOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
) -> None:
    """Have the running daemon read its configuration anew, all of it or nothing.

    Ends with 0 once the new one runs, and with 78 if it is not taken: the old one goes on then.
    """
    from monitor.edge.remote import NotReloadedError

    with mendable():
        daemon = running(config, api, token_file)
        try:
            daemon.reload()
        except NotReloadedError as error:
            say(str(error), err=True)
            say("not reloaded; the configuration that ran goes on", err=True)
            raise typer.Exit(BAD_CONFIGURATION) from None
    say("reloaded")
