"""`least-monitor demo`: three real months and a simulated day, and what was wrong in them."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.configuration import read_configuration
from monitor.commands.failure import mendable
from monitor.commands.replaying import ReplayProgress, case_table, incident_table
from monitor.commands.tables import print_whole
from monitor.commands.terminal import wide_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from monitor.domain import Diagnosis

SHOWN = 14
SIMULATED_START = datetime(2026, 1, 5, tzinfo=UTC)
SIMULATED_DAYS, SIMULATED_QUIET_DAYS, SIMULATED_ROWS, SIMULATED_SEED = 3, 2, 60_000, 8

SHORT_UNTIL = datetime(2013, 2, 15, tzinfo=UTC)

STORY = """\
New York, February to April 2013: every hour the latest 24 hours of flights are encoded, LEAST
relearns the network, and failures beyond what this traffic should produce are traced to a cause.
"""

SHORT_STORY = STORY.replace("February to April", "the first half of February")

BOOKINGS = """\
A simulated travel platform, 5-7 January: two quiet days to learn from, then one incident.
"""


def demo(
    serve: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Leave the console up at the end; default: in a terminal, unless SERVE=0.",
        ),
    ] = None,
    short: Annotated[
        bool, typer.Option("--short", help="Two weeks of flights only, with a blizzard in them.")
    ] = False,
) -> None:
    """Replay real flights and a simulated booking day, and show the incidents."""
    if serve is None:
        serve = sys.stdout.isatty() and os.environ.get("SERVE", "1") != "0"
    console = wide_terminal()
    with mendable(), tempfile.TemporaryDirectory(prefix="least-monitor-") as folder:
        flights = Path(__file__).parent.parent / "demo"
        console.print(SHORT_STORY if short else STORY)
        newest = _replay(
            console, flights / "flights.toml",
            [str(flights / "nyc2013_february_april.parquet")], Path(folder), "flights",
            flights / "labels.jsonl", SHORT_UNTIL if short else None,
        )  # fmt: skip
        if not short:
            console.print(BOOKINGS)
            bookings = Path(folder) / "bookings"
            bookings.mkdir()
            _simulate(bookings)
            _replay(
                console, flights / "bookings.toml",
                [str(bookings / "*.parquet")], Path(folder), "bookings", bookings / "labels.jsonl",
            )  # fmt: skip
        if serve:
            _serve(console, Path(folder) / "flights.db", flights / "flights.toml", newest)


def _replay(
    console: Console,
    configuration: Path,
    inputs: list[str],
    folder: Path,
    name: str,
    labels: Path | None = None,
    until: datetime | None = None,
) -> Diagnosis | None:
    from monitor.backtest import run

    config = read_configuration(configuration)
    with ReplayProgress(console) as progress:
        outcome = run(
            config,
            inputs,
            now=datetime.now(UTC),
            state=folder,
            keep=folder / f"{name}.db",
            labels=labels,
            until=until,
            progress=progress,
        )
    report = config.settings.detection.report
    found = outcome.incidents[report]
    print_whole(console, incident_table(found, config, f"incidents: {name}", SHOWN))
    if outcome.scores:
        print_whole(
            console, case_table(outcome.scores[report], "what was in the news, and what was found")
        )
    return progress.newest


def _simulate(folder: Path) -> None:
    """Write the booking days, and the label of what happens in them."""
    from monitor.simulation.files import write, write_labels
    from monitor.simulation.plan import plan_incidents, plan_promotions
    from monitor.simulation.world import SLICE, World

    world = World(SIMULATED_SEED, SIMULATED_ROWS)
    planned = plan_incidents(
        world,
        SIMULATED_START,
        SIMULATED_DAYS,
        1,
        SIMULATED_SEED,
        quiet_days=SIMULATED_QUIET_DAYS,
        effects=(100, 200),
        kinds=("airline_maintenance",),
    )
    promotions = plan_promotions(world, SIMULATED_START, SIMULATED_DAYS, 1, SIMULATED_SEED)
    world = world.having(planned, promotions)
    write_labels(planned, folder)
    at, end = SIMULATED_START, SIMULATED_START + timedelta(days=SIMULATED_DAYS)
    while at < end:
        write(world.slice(at), at, folder, "parquet")
        at += SLICE


def _serve(console: Console, path: Path, configuration: Path, newest: Diagnosis | None) -> None:
    from monitor.edge.http import serve
    from monitor.edge.metrics import Metrics
    from monitor.edge.status import LiveState, Status
    from monitor.edge.store import open_store

    store = open_store(f"sqlite:///{path}")
    metrics = Metrics()
    if newest is not None:
        metrics.observe(newest)
    status = Status(
        stage="",
        source="the demo's flights",
        diagnosis=newest,
        method="excess",
        config=read_configuration(configuration),
    )
    handle = serve(LiveState(store, metrics, status))
    console.print(f"console: {handle.url}   (Ctrl-C ends)")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        handle.stop()
        store.close()
