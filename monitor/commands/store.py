"""`least-monitor store`: copy the store, look whether it is whole, give space back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.configuration import read_configuration
from monitor.commands.failure import mendable
from monitor.commands.stored import JsonOption, StoreConfigOption, StoreOption
from monitor.commands.terminal import say

if TYPE_CHECKING:
    from monitor.edge.store.database import Database

app = typer.Typer(
    no_args_is_help=True,
    help="Copy the store, look whether it is whole, give space back; beside a running monitor.",
)


@contextmanager
def _database(config: Path | None, url: str | None) -> Iterator[Database]:
    if (config is None) == (url is None):
        raise typer.BadParameter("give either -c CONFIG or --store URL")
    if config is not None:
        url = read_configuration(config).store.url
    assert url is not None
    with mendable():
        from monitor.edge.store.database import Database

        database = Database(url, create=False)
        try:
            yield database
        finally:
            database.close()


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A file that is not there yet.")],
    config: StoreConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Copy an SQLite store, as of one moment; for PostgreSQL it names the command to use."""
    with _database(config, store) as database:
        from monitor.edge.store import upkeep

        written = upkeep.backup(database, target)
        say(f"{target}: {written / 1e6:.1f} MB")


@app.command()
def verify(
    config: StoreConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Read everything; end with 1 when something is not as it was written."""
    with _database(config, store) as database:
        from monitor.edge.documents import dumps, time_text
        from monitor.edge.store import upkeep

        report = upkeep.verify(database)
        if as_json:
            document = {
                "revision": report.revision,
                "rows": report.rows,
                "first_slice": report.first and time_text(report.first),
                "last_slice": report.last and time_text(report.last),
                "slices_without_checksum": report.unchecked,
                "findings": [{"place": f.place, "trouble": f.trouble} for f in report.findings],
            }
            say(dumps(document).decode())
        else:
            say(f"schema version {report.revision}")
            for table, rows in report.rows.items():
                say(f"{table:<18}{rows:>10}")
            if report.first is not None and report.last is not None:
                say(
                    f"slices from {report.first:%Y-%m-%d %H:%M} to {report.last:%Y-%m-%d %H:%M} UTC"
                )
            if report.unchecked:
                say(f"{report.unchecked} slices of an earlier release have no checksum")
            for finding in report.findings:
                say(f"DAMAGED {finding.place}: {finding.trouble}", err=True)
            if not report.findings:
                say("all is as it was written")
        if report.findings:
            raise typer.Exit(1)


@app.command()
def compact(config: StoreConfigOption = None, store: StoreOption = None) -> None:
    """Give back the space of deleted rows; writers wait meanwhile."""
    with _database(config, store) as database:
        from monitor.edge.store import upkeep

        before, after = upkeep.compact(database)
        say(f"{before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now")
