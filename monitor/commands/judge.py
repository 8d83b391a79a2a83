"""`least-monitor acknowledge` and `label`: an operator takes an incident on, or judges it."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor.commands.silence import ActorOption
from monitor.commands.stored import (
    ApiOption,
    Archive,
    StoreConfigOption,
    StoreOption,
    TokenOption,
    open_stored,
)
from monitor.commands.terminal import say

IncidentArgument = Annotated[str, typer.Argument(metavar="ID", help="Or a start of it.")]
NoteOption = Annotated[str, typer.Option(help="What is known; kept with the incident.")]


class VerdictName(StrEnum):
    """As `monitor.edge.store.Verdict`, which need not be loaded for a help text."""

    TRUE = "true"
    FALSE = "false"
    EXPECTED = "expected"


def acknowledge(
    incident: IncidentArgument,
    note: NoteOption = "",
    by: ActorOption = None,
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
) -> None:
    """Take an incident on: it is tracked as ever, and its rule pages nobody any more."""
    with _one(incident, by, config, store, api, token_file) as (archive, found, actor):
        archive.acknowledge(found, datetime.now(UTC), actor, note)
        say(f"{found} is acknowledged by {actor}")


def label(
    incident: IncidentArgument,
    verdict: Annotated[
        VerdictName,
        typer.Argument(help="Whether it was one; `expected`: it was, and it was planned."),
    ],
    note: NoteOption = "",
    by: ActorOption = None,
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
) -> None:
    """Judge an incident; the last verdict counts, and a false one raises the bar."""
    from monitor.edge.store import Verdict

    with _one(incident, by, config, store, api, token_file) as (archive, found, actor):
        archive.label(found, Verdict(verdict.value), datetime.now(UTC), actor, note)
        say(f"{found} is judged {verdict.value} by {actor}")


@contextmanager
def _one(
    incident: str,
    by: str | None,
    config: Path | None,
    store: str | None,
    api: str | None,
    token_file: Path | None,
) -> Iterator[tuple[Archive, str, str]]:
    """Where to change it, its whole id, and who does."""
    with open_stored(config, store, api, token_file, changes=True) as opened:
        yield opened.store, opened.store.incident(incident).id, by or getpass.getuser()
