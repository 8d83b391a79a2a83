"""`least-monitor silence`: hear nothing of some incidents for a while."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.stored import (
    ApiOption,
    JsonOption,
    Opened,
    StoreConfigOption,
    StoreOption,
    TokenOption,
    open_stored,
)
from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, wide_terminal

if TYPE_CHECKING:
    from rich.table import Table

    from monitor.config import MaintenanceWindow
    from monitor.edge.silences import Silence

app = typer.Typer(
    no_args_is_help=True,
    help="Track incidents, but tell nobody: add, list and end silences.",
)

LOOKED_AT = 1000
"""Incidents that a preview looks at, the newest."""

ActorOption = Annotated[
    str | None, typer.Option("--by", help="Who does this; your login name if left out.")
]


@app.command()
def add(
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help='As in `outcome=pay airline=AC office=~"B.*"`; all must hold.',
            show_default=False,
        ),
    ],
    length: Annotated[
        str | None, typer.Option("--for", metavar="LENGTH", help="2h, 90m, 3d …")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Instead of --for; UTC unless it says otherwise.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why; shown with what it silences.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would have matched.")
    ] = False,
    by: ActorOption = None,
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Silence the incidents that match."""
    from monitor.edge.documents import dumps, silence_document
    from monitor.edge.silences import Silence, length_of_time

    if (length is None) == (until is None):
        raise typer.BadParameter("give --for LENGTH or --until TIME, one of them")
    now = datetime.now(UTC)
    try:
        if until is not None:
            ends = until if until.tzinfo else until.replace(tzinfo=UTC)
        else:
            ends = now + length_of_time(length or "")
        silence = Silence.of(matchers, ends, now, by or getpass.getuser(), note)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(str(error)) from None
    with open_stored(config, store, api, token_file, changes=not dry_run) as opened:
        _refuse_unknown(silence, opened.attributes)
        if not as_json:
            _preview(silence, opened)
        if not dry_run:
            silence = opened.store.add_silence(silence)
        if as_json:
            say(dumps(silence_document(silence, now)).decode())
        elif not dry_run:
            say(f"silence {silence.id} until {_time(silence.ends_at, opened.zone)}")


def _refuse_unknown(silence: Silence, attributes: Sequence[str] | None) -> None:
    """A matcher that names what no incident has would silence nothing, or all."""
    from monitor.matching import OWN_NAMES

    for matcher in silence.matchers:
        if attributes is not None and matcher.name not in (*OWN_NAMES, *attributes):
            known = ", ".join((*OWN_NAMES, *attributes))
            raise typer.BadParameter(f"no incident has a {matcher.name!r}; there are {known}")


def _preview(silence: Silence, opened: Opened) -> None:
    """What it would have matched: the open ones by name, the past ones by their number."""
    from monitor.domain import State
    from monitor.edge.store import IncidentQuery
    from monitor.edge.wording import cause_text
    from monitor.matching import all_hold

    asked = IncidentQuery(method=opened.method, limit=LOOKED_AT)
    found = [i for i in opened.store.incidents(asked) if all_hold(silence.matchers, i)]
    still = [i for i in found if i.state is not State.RESOLVED]
    for incident in still:
        cause = cause_text(incident.finding.cause)
        say(f"matches {incident.id}: {incident.finding.outcome} fails, {cause}")
    if found:
        past = len(found) - len(still)
        say(f"it matches {len(still)} that are not over, and {past} more on record")
    else:
        say("it matches no incident on record: are the values spelled right?")


@app.command("list")
def list_(
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List silences, newest first, and the windows of the configuration."""
    from monitor.edge.documents import dumps, silence_document

    now = datetime.now(UTC)
    with open_stored(config, store, api, token_file) as opened:
        found = [s for s in opened.store.silences() if everything or now < s.ends_at]
        if as_json:
            documents = [silence_document(silence, now) for silence in found]
            say(dumps({"silences": documents}).decode())
            return
        if found:
            print_whole(wide_terminal(), _table(found, opened.zone, now))
        else:
            say("no silences")
        for window in opened.maintenance:
            say(_window(window, now, opened.zone))


@app.command()
def expire(
    silence: Annotated[str, typer.Argument(metavar="ID", help="Or a start of it.")],
    by: ActorOption = None,
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
) -> None:
    """End a silence now; what still burns is told within a minute."""
    with open_stored(config, store, api, token_file, changes=True) as opened:
        actor = by or getpass.getuser()
        ended = opened.store.expire_silence(silence, datetime.now(UTC), actor)
        say(f"silence {ended.id} has ended")


def _table(found: Sequence[Silence], zone: tzinfo, now: datetime) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("id", "state", "until", "by"):
        table.add_column(name, no_wrap=True)
    table.add_column("matches")
    table.add_column("note")
    for silence in found:
        state = "active" if silence.active(now) else "over" if silence.ends_at <= now else "to come"
        table.add_row(
            silence.id,
            state,
            _time(silence.ends_at, zone),
            Text(silence.actor),
            Text(", ".join(map(str, silence.matchers))),
            Text(silence.note),
        )
    return table


def _window(window: MaintenanceWindow, now: datetime, zone: tzinfo) -> str:
    from monitor.edge.silences import described, until

    ends = until(window, now)
    state = "closed" if ends is None else f"open until {_time(ends, zone)}"
    matchers = ", ".join(map(str, window.matchers)) or "every incident"
    note = f": {window.note}" if window.note else ""
    return f"maintenance {described(window)}, {matchers}, {state}{note}"


def _time(at: datetime, zone: tzinfo) -> str:
    from monitor.edge.wording import time_text

    return time_text(at, zone)
