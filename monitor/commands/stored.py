"""What the commands on stored incidents share: whom they ask, and a zone for times.

With a configuration they ask the daemon that runs under it, if one does, and else its store. Who
answered is told on standard error when it was the daemon, or could have been.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol
from zoneinfo import ZoneInfo

import typer

from monitor.commands.configuration import read_configuration
from monitor.commands.failure import mendable
from monitor.commands.terminal import say

if TYPE_CHECKING:
    from monitor.config import Config, MaintenanceWindow
    from monitor.domain import Incident
    from monitor.edge.remote import Remote
    from monitor.edge.silences import Silence
    from monitor.edge.store import Audit, IncidentQuery, Store, Verdict

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
ApiOption = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        help="A daemon by address, as http://monitor:9469. Left out: the one of the configuration "
        "if it is up, else the store.",
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="LEAST_MONITOR_TOKEN_FILE",
        help="The daemon's token; left out, that of the configuration.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs.")]


class Archive(Protocol):
    """A store or a daemon, as the commands know both."""

    def incidents(self, asked: IncidentQuery) -> list[Incident]:
        """See `Store`."""
        ...

    def incident(self, id_or_prefix: str) -> Incident:
        """See `Store`."""
        ...

    def audit(self, incident_id: str) -> list[Audit]:
        """See `Store`."""
        ...

    def label_of(self, incident_id: str) -> Verdict | None:
        """The last verdict."""
        ...

    def acknowledge(self, incident_id: str, at: datetime, actor: str, note: str) -> object:
        """See `Store`."""
        ...

    def label(
        self, incident_id: str, verdict: Verdict, at: datetime, actor: str, note: str
    ) -> object:
        """See `Store`."""
        ...

    def state(self, name: str) -> bytes | None:
        """See `Store`."""
        ...

    def silences(self) -> list[Silence]:
        """See `Store`."""
        ...

    def add_silence(self, silence: Silence) -> Silence:
        """What was made of it."""
        ...

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """See `Store`."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class Shelf:
    """A store as an `Archive`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.incidents, self.incident = store.incidents, store.incident
        self.audit, self.state, self.silences = store.audit, store.state, store.silences
        self.expire_silence, self.close = store.expire_silence, store.close
        self.acknowledge, self.label = store.acknowledge, store.label

    def label_of(self, incident_id: str) -> Verdict | None:
        """The last verdict."""
        return self._store.labels().get(incident_id)

    def add_silence(self, silence: Silence) -> Silence:
        """It is kept as it is."""
        self._store.add_silence(silence)
        return silence


@dataclass(frozen=True, slots=True)
class Opened:
    """Whom to ask, with what the configuration says about showing it."""

    store: Archive
    zone: tzinfo
    method: str | None
    """The method that reports; None without a configuration."""
    attributes: tuple[str, ...] | None = None
    """None without a configuration."""
    maintenance: tuple[MaintenanceWindow, ...] = ()


@contextmanager
def open_stored(
    config: Path | None,
    url: str | None,
    api: str | None = None,
    token_file: Path | None = None,
    changes: bool = False,
) -> Iterator[Opened]:
    """The daemon or store of `config`, or the one named; trouble ends the command with 1.

    Args:
        config: of the daemon.
        url: a store, instead.
        api: a daemon, by address.
        token_file: of the daemon.
        changes: something is to be changed: without a token that is done in the store.
    """
    if url is not None and (config is not None or api is not None):
        raise typer.BadParameter("give --store URL alone")
    if config is None and url is None and api is None:
        raise typer.BadParameter("give either -c CONFIG, --api URL or --store URL")
    settings = None if config is None else read_configuration(config)
    zone: tzinfo = UTC
    method = None
    maintenance: tuple[MaintenanceWindow, ...] = ()
    attributes = None
    if settings is not None:
        attributes = settings.settings.schema.names
        zone = ZoneInfo(settings.settings.window.zone)
        method = settings.settings.detection.report.value
        maintenance = settings.maintenance
    with mendable():
        archive = _archive(settings, url, api, token_file, changes)
        try:
            yield Opened(archive, zone, method, attributes, maintenance)
        finally:
            archive.close()


def _archive(
    settings: Config | None,
    url: str | None,
    api: str | None,
    token_file: Path | None,
    changes: bool,
) -> Archive:
    from monitor.edge.store import open_store

    token = _token(settings, token_file)
    if api is not None:
        return _named(api, token, changes)
    if settings is not None:
        found = _running(settings, token, changes)
        if found is not None:
            return found
        url = settings.store.url
    assert url is not None
    return Shelf(open_store(url, create=False))


def _named(api: str, token: str | None, changes: bool) -> Archive:
    from monitor.edge.remote import Remote, TokenError

    remote = Remote(api, token)
    if changes and token is None:
        raise TokenError(
            f"the daemon at {api} changes nothing without its token: give --token-file FILE"
        )
    try:
        remote.identity()
    except TokenError as error:
        raise TokenError(f"{error}; give --token-file FILE") from None
    return remote


def running(config: Path | None, api: str | None, token_file: Path | None) -> Remote:
    """The daemon itself, for what no store can do.

    Raises:
        TokenError: no token is known.
    """
    from monitor.edge.remote import Remote, TokenError

    if config is None and api is None:
        raise typer.BadParameter("give -c CONFIG or --api URL")
    settings = None if config is None else read_configuration(config)
    if settings is not None and settings.http.port == 0 and api is None:
        raise typer.BadParameter("[http] port = 0 takes any free one: give --api URL, too")
    token = _token(settings, token_file)
    if token is None:
        raise TokenError("without its token ([http] token_file, --token-file) no daemon obeys")
    where = api
    if where is None:
        assert settings is not None
        where = _address(settings)
    return Remote(where, token)


def _token(settings: Config | None, token_file: Path | None) -> str | None:
    if token_file is not None:
        return token_file.read_text("utf-8").strip() or None
    return None if settings is None else settings.http.token


def _address(settings: Config) -> str:
    http = settings.http
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)
    return f"http://[{host}]:{http.port}" if ":" in host else f"http://{host}:{http.port}"


def _running(settings: Config, token: str | None, changes: bool) -> Archive | None:
    """The daemon of the configuration, if it is up and serves the same store."""
    from monitor.edge.remote import AwayError, Remote, TokenError, store_identity
    from monitor.edge.store import StoreError

    if settings.http.port == 0 or settings.store.url == "memory:":
        return None
    where = _address(settings)
    remote = Remote(where, token)
    try:
        identity = remote.identity()
    except AwayError:
        return None
    except TokenError as error:
        _note(f"{error}; set [http] token_file or give --token-file FILE. Using the store instead")
        return None
    except StoreError as error:
        _note(f"{error}. Using the store instead")
        return None
    if identity != store_identity(settings.store.url):
        _note(f"the daemon at {where} has another store. Using the store of this configuration")
        return None
    if changes and token is None:
        _note(
            f"the daemon at {where} changes nothing without a token ([http] token_file). "
            "Using its store instead"
        )
        return None
    _note(f"from the daemon at {where}")
    return remote


def _note(text: str) -> None:
    say(text, err=True)
