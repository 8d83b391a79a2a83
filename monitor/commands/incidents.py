"""`least-monitor incidents`: what the monitor has found, what is open and worst first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.stored import (
    ApiOption,
    JsonOption,
    StoreConfigOption,
    StoreOption,
    TokenOption,
    open_stored,
)
from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, wide_terminal

if TYPE_CHECKING:
    from rich.table import Table

    from monitor.domain import Incident

_ROOM_FOR_ALL = 120
"""Characters across; a narrower terminal shows id, state, age, outcome and cause."""

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class StateName(StrEnum):
    """As `domain.State`, for the command line."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


def incidents(
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
    state: Annotated[StateName | None, typer.Option(help="Only these.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Opened or unresolved since: ISO time, 90m, 24h or 7d."),
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Only of this outcome.")] = None,
    every_method: Annotated[
        bool, typer.Option("--all-methods", help="Those of methods that only compare, too.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List incidents: what is not over, then by severity, then the newest."""
    after = _since(since, datetime.now(UTC))
    with open_stored(config, store, api, token_file) as opened:
        from monitor.domain import State
        from monitor.edge.store import IncidentQuery, worst_first

        found = opened.store.incidents(
            IncidentQuery(
                state=None if state is None else State(state.value),
                since=after,
                outcome=outcome,
                method=None if every_method else opened.method,
                limit=limit,
            )
        )
        if as_json:
            from monitor.edge.documents import dumps, incident_document

            say(dumps({"incidents": [incident_document(i) for i in found]}).decode())
        elif found:
            console = wide_terminal()
            print_whole(console, _table(worst_first(found), opened.zone, console.width))
            say("`least-monitor explain ID` tells why.")
        else:
            say("no incidents")


def _since(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    try:
        if unit in _UNITS and number.isascii() and number.isdigit():
            return now - int(number) * _UNITS[unit]
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"--since {text!r} is no time; write 24h, 7d or 2013-02-01T00:00Z"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _table(found: Sequence[Incident], zone: tzinfo, width: int) -> Table:
    """What identifies an incident always shows; the rest as far as there is room for it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from monitor.domain import Severity, State
    from monitor.edge.wording import ago, cause_text, duration, number

    styles = {State.OPEN: "bold red", State.ACKNOWLEDGED: "yellow", State.RESOLVED: "green"}
    hurts = {Severity.INFO: "dim", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}
    opened = f"opened ({found[0].opened_at.astimezone(zone):%Z})"
    wide, now = width >= _ROOM_FOR_ALL, datetime.now(UTC)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", no_wrap=True)
    for name in ("state", "severity", opened, "lasted") if wide else ("state", "age"):
        table.add_column(name, no_wrap=True)
    table.add_column("what fails", no_wrap=wide)
    table.add_column("cause")
    for name in ("failed", "expected", "score") if wide else ("failed",):
        table.add_column(name, justify="right", no_wrap=True)
    for incident in found:
        finding = incident.finding
        ended = incident.resolved_at or incident.last_seen_at
        # Values come from the watched log: Text, because markup in them means nothing.
        state = Text(incident.state.value, styles[incident.state])
        what = Text(finding.outcome), Text(cause_text(finding.cause))
        numbers = number(finding.observed), number(finding.expected), number(finding.score)
        if wide:
            table.add_row(
                incident.id,
                state,
                Text(incident.severity.value, hurts[incident.severity]),
                f"{incident.opened_at.astimezone(zone):%Y-%m-%d %H:%M}",
                duration(ended - incident.opened_at),
                *what,
                *numbers,
            )
        else:
            table.add_row(incident.id, state, ago(incident.opened_at, now), *what, numbers[0])
    return table
