"""The command line: `least-monitor COMMAND`.

Exit codes: 0 success, 1 failure, 2 wrong usage, 78 bad configuration.
"""

from __future__ import annotations

import typer

from monitor import __version__
from monitor.commands.backtest import backtest
from monitor.commands.check import check
from monitor.commands.demo import demo
from monitor.commands.explain import explain
from monitor.commands.graph import graph
from monitor.commands.incidents import incidents
from monitor.commands.judge import acknowledge, label
from monitor.commands.localize import localize
from monitor.commands.notify_test import notify_test
from monitor.commands.reload import reload
from monitor.commands.run import once, run
from monitor.commands.silence import app as silence
from monitor.commands.simulate import simulate
from monitor.commands.store import app as store
from monitor.commands.terminal import say

app = typer.Typer(
    name="least-monitor",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Watches a stream of logs, finds anomalies and names their root cause.",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"least-monitor {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True),
) -> None:
    pass


app.command()(backtest)
app.command()(check)
app.command()(run)
app.command()(once)
app.command()(reload)
app.command()(incidents)
app.command()(explain)
app.command()(acknowledge)
app.command()(label)
app.command()(graph)
app.command()(localize)
app.command("notify-test")(notify_test)
app.add_typer(silence, name="silence")
app.add_typer(store, name="store")
app.command()(simulate)
app.command()(demo)


def main() -> None:
    """Entry point of the installed command."""
    app()
