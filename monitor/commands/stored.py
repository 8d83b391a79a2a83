"""What `incidents`, `explain` and `graph` share: a store to read, and a zone to show times in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from monitor.commands.configuration import read_configuration
from monitor.commands.failure import mendable

if TYPE_CHECKING:
    from monitor.config import MaintenanceWindow
    from monitor.edge.store import Store

StoreConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar="LEAST_MONITOR_CONFIG", help="The configuration, a TOML file."
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="A store by address, instead of a configuration."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs.")]


@dataclass(frozen=True, slots=True)
class Opened:
    """A store with what its configuration says about showing it."""

    store: Store
    zone: tzinfo
    method: str | None
    """The method that reports; None without a configuration."""
    maintenance: tuple[MaintenanceWindow, ...] = ()


@contextmanager
def open_stored(config: Path | None, url: str | None) -> Iterator[Opened]:
    """The store of `config` or at `url`; trouble is shown and ends the command with 1."""
    if (config is None) == (url is None):
        raise typer.BadParameter("give either -c CONFIG or --store URL")
    zone: tzinfo = UTC
    method = None
    maintenance: tuple[MaintenanceWindow, ...] = ()
    if config is not None:
        settings = read_configuration(config)
        url = settings.store.url
        zone = ZoneInfo(settings.settings.window.zone)
        method = settings.settings.detection.report.value
        maintenance = settings.maintenance
    assert url is not None
    with mendable():
        from monitor.edge.store import open_store

        store = open_store(url, create=False)
        try:
            yield Opened(store, zone, method, maintenance)
        finally:
            store.close()
