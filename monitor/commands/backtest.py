"""`least-monitor backtest`: replay past days, tick by tick, and score what would have been said."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from monitor.commands.configuration import ConfigOption, read_configuration
from monitor.commands.failure import mendable
from monitor.commands.replaying import ReplayProgress, case_table, incident_table
from monitor.commands.tables import print_whole
from monitor.commands.terminal import wide_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from monitor.backtest import Outcome
    from monitor.config import Config
    from monitor.scoring import Scores


def backtest(
    config: ConfigOption,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files or globs.")],
    labels: Annotated[
        Path | None, typer.Option(exists=True, help="Known anomalies, JSON lines.")
    ] = None,
    quiet_days: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="CSV of days on which an alarm is false; default: quiet_days.csv by the labels.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="First day (or ISO time).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="Day after the last.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write the results as JSON.")
    ] = None,
    html_path: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="OUT",
            help="Write a report as one HTML file; a folder gets one named by the time.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where an interrupted run keeps its state."),
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Forget an interrupted run.")] = False,
) -> None:
    """Replay a log and report its incidents, by both methods, against labels if given.

    An interrupted backtest goes on where it stopped when the same command is given again.
    """
    settings = read_configuration(config)
    with mendable():
        from monitor.backtest import run

        console = wide_terminal()
        started = time.monotonic()
        span = [_day(text, settings.settings.window.zone) for text in (since, until)]
        with ReplayProgress(console) as progress:
            outcome = run(
                settings,
                inputs,
                since=span[0],
                until=span[1],
                labels=labels,
                quiet_days=quiet_days,
                state=state or _state_directory(),
                fresh=fresh,
                now=datetime.now(UTC),
                progress=progress,
            )
        seconds = time.monotonic() - started
        _show(console, settings, outcome, seconds)
        if json_path is not None:
            from monitor.edge.documents import dumps

            json_path.write_bytes(dumps(outcome.document) + b"\n")
            console.print(f"wrote {json_path}")
        if html_path is not None:
            from monitor.edge.report import render

            if html_path.is_dir():
                html_path /= f"backtest-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.html"
            html_path.write_text(render(outcome.told), "utf-8")
            console.print(f"wrote {html_path}")


def _day(text: str | None, zone: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no date; write 2013-02-01") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))


def _state_directory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "least-monitor"


def _show(console: Console, config: Config, outcome: Outcome, seconds: float) -> None:
    document = outcome.document
    report = config.settings.detection.report
    print_whole(
        console, incident_table(outcome.incidents[report], config, f"incidents ({report.value})")
    )
    console.print(
        f"{document['rows']:,} rows, {document['rejected']} rejected, {document['ticks']:,} ticks "
        f"in {seconds:.0f} s; no incident open at {document['quiet_ticks']:,} ticks"
    )
    learning = sum(outcome.told.series.learning)
    if learning:
        console.print(
            f"no verdict at the first {learning:,} ticks, which `detection.learning` takes; rows "
            "before --from do not teach: name an earlier day to judge these, too"
        )
    for reason in outcome.rejected:
        console.print(f"  {reason}", style="yellow")
    if outcome.scores:
        print_whole(console, _score_table({m.value: s for m, s in outcome.scores.items()}))
        scores = outcome.scores[report]
        if scores.cases:
            print_whole(console, case_table(scores, "labelled anomalies"))


def _score_table(scores: dict[str, Scores]) -> Any:
    from rich import box
    from rich.table import Table

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    table = Table(title="both methods side by side", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for method in scores:
        table.add_column(method, justify="right")
    all_scores = list(scores.values())
    rows = {
        "recall@1": [_of(s, "right_first") for s in all_scores],
        "recall any": [_of(s, "right_any") for s in all_scores],
        "mean delay, ticks": [percent(s.mean_delay_ticks) for s in all_scores],
        "quiet days with an alarm": [
            f"{s.quiet_days_alarmed} of {s.quiet_days}" if s.quiet_days else "–" for s in all_scores
        ],
        "false alarms a week": [percent(s.false_alarms_per_week) for s in all_scores],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _of(scores: Scores, field: str) -> str:
    cases = scores.cases
    return f"{sum(getattr(c, field) for c in cases)} of {len(cases)}" if cases else "–"
