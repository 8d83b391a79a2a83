"""`least-monitor explain ID`: one incident, and why the monitor believes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
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
    from rich.console import Console
    from rich.table import Table

    from monitor.domain import Finding, Incident
    from monitor.edge.store import Audit, Verdict


def explain(
    incident_id: Annotated[
        str, typer.Argument(metavar="ID", help="Of the incident, or its start.")
    ],
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one incident: path, counts, score, p and q, the causes that came second, history."""
    with open_stored(config, store, api, token_file) as opened:
        incident = opened.store.incident(incident_id)
        history = opened.store.audit(incident.id)
        label = opened.store.label_of(incident.id)
        if as_json:
            from monitor.edge.documents import dumps, incident_history

            say(dumps(incident_history(incident, history, label)).decode())
        else:
            _show(wide_terminal(), incident, history, label, opened.zone)


def _show(
    console: Console,
    incident: Incident,
    history: Sequence[Audit],
    label: Verdict | None,
    zone: tzinfo,
) -> None:
    from rich.text import Text

    from monitor.edge.wording import cause_text, duration, time_text

    finding = incident.finding
    console.print(
        Text.assemble(
            (finding.outcome, "bold"), " fails: ", (cause_text(finding.cause), "bold red")
        )
    )
    until = incident.resolved_at or incident.last_seen_at
    facts = [
        ("incident", f"{incident.id}, {incident.state.value}, {incident.severity.value}"),
        ("began", time_text(finding.began, zone)),
        (
            "opened",
            f"{time_text(incident.opened_at, zone)}, "
            f"{'lasted' if incident.resolved_at else 'seen for'} "
            f"{duration(until - incident.opened_at)}",
        ),
        ("method", finding.method.value),
    ]
    if incident.merged_into:
        facts.append(("goes on as", incident.merged_into))
    if finding.codes:
        facts.append(("error codes", ", ".join(finding.codes)))
    if label is not None:
        facts.append(("judged", label.value))
    for name, value in facts:
        console.print(Text.assemble((f"  {name:12}", "dim"), value))
    console.print()
    print_whole(console, _path(finding.path))
    print_whole(console, _counts(finding, incident.latest))
    if len(finding.chain) > 1:
        console.print(Text("from the first suspect to the cause named", "italic"))
        for depth, cause in enumerate(finding.chain):
            chosen = cause == finding.cause
            text = f"  {'  ' * depth}{cause_text(cause)}" + ("  ← named" if chosen else "")
            console.print(Text(text, "bold" if chosen else ""))
        console.print()
    print_whole(console, _causes(finding))
    console.print(Text("history", "italic"))
    for entry in history:
        kind = entry.kind.replace("_", " ")
        note = f": {entry.note}" if entry.note else ""
        console.print(Text(f"  {time_text(entry.at, zone)}  {kind} by {entry.actor}{note}"))


def _path(path: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    for depth, node in enumerate(path):
        arrow = "  " + "   " * (depth - 1) + "└─▶" if depth else ""
        style = "bold red" if depth == 0 else "bold" if depth == len(path) - 1 else ""
        table.add_row(Text.assemble(arrow, " ", (node, style)))
    return table


def _counts(worst: Finding, latest: Finding) -> Table:
    from rich import box
    from rich.table import Table

    from monitor.domain import Method
    from monitor.edge.wording import duration, number, percent, probability

    rows: list[tuple[str, Callable[[Finding], str]]] = [
        ("failures", lambda f: number(f.observed)),
        (
            "expected" if worst.method is Method.EXCESS else "failures the day before",
            lambda f: number(f.expected),
        ),
        ("rows", lambda f: number(f.rows)),
        ("rate before", lambda f: percent(f.rate_before)),
        ("rate", lambda f: percent(f.rate_now)),
        ("horizon", lambda f: duration(f.horizon)),
        ("score, nats", lambda f: number(f.score)),
        ("p", lambda f: probability(f.p_value)),
        ("q", lambda f: probability(f.q_value)),
    ]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("at its worst", justify="right")
    table.add_column("last seen", justify="right")
    for name, show in rows:
        table.add_row(name, show(worst), show(latest))
    return table


def _causes(finding: Finding) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from monitor.edge.wording import cause_text, number

    table = Table(
        title="causes considered", title_justify="left", title_style="italic", box=box.SIMPLE_HEAD
    )
    table.add_column("cause")
    table.add_column("score, nats", justify="right")
    table.add_row(Text(cause_text(finding.cause), "bold"), Text(number(finding.score), "bold"))
    for cause, score in finding.runners_up:
        table.add_row(Text(cause_text(cause)), number(score))
    return table
