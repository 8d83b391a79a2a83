"""`least-monitor simulate`: write the bookings of a made-up world, with labelled incidents, into
files or a topic of Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from monitor.simulation.plan import Planned
    from monitor.simulation.world import World

DEFAULT_START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday


class Format(StrEnum):
    """File formats."""

    PARQUET = "parquet"
    JSONL = "jsonl"


class Per(StrEnum):
    """How much time goes into one file."""

    HOUR = "hour"
    SLICE = "slice"
    MINUTE = "minute"


class To(StrEnum):
    """Where bookings go."""

    FILES = "files"
    KAFKA = "kafka"


def simulate(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Directory to write into; with Kafka, the labels.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[To, typer.Option(help="Files, or a topic of Kafka.")] = To.FILES,
    bootstrap_servers: Annotated[
        str, typer.Option(help="Brokers, for Kafka: host:port, separated by commas.")
    ] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="For Kafka; made if it is missing.")] = "bookings",
    partitions: Annotated[int, typer.Option(min=1, help="Of a topic that is made.")] = 12,
    rows_per_day: Annotated[
        float, typer.Option(min=1, help="Bookings on a working day.")
    ] = 400_000,
    days: Annotated[float, typer.Option(min=1 / 48, help="Length of the simulated time.")] = 7,
    incidents: Annotated[int, typer.Option(min=0, help="How many incidents.")] = 10,
    promotions: Annotated[
        int, typer.Option(min=0, help="How many traffic promotions (no incidents).")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal files.")] = 1,
    format: Annotated[Format, typer.Option(help="File format.")] = Format.PARQUET,
    per: Annotated[Per | None, typer.Option(help="Time per file (hour; slice if paced).")] = None,
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace",
            "--speed",
            min=0.001,
            help="Write in real time, this many times faster than life.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="First half hour, ISO with zone (2026-01-05T00:00Z; paced: so that it ends now)."
        ),
    ] = None,
    quiet_days: Annotated[
        float | None,
        typer.Option(min=0, help="Days without incidents at the beginning (2, or half of all)."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="One day of 100,000 rows with one incident.")
    ] = False,
) -> None:
    """Write bookings of a simulated travel platform, and labels.jsonl with its incidents."""
    from monitor.simulation.files import write_labels
    from monitor.simulation.plan import plan_incidents, plan_promotions
    from monitor.simulation.world import World

    if output is None and to is To.FILES:
        raise typer.BadParameter("name a directory to write into", param_hint="--output")
    if demo:
        rows_per_day, days, incidents, promotions = 100_000, 1, 1, 1
    first = _first_slice(start, days, pace)
    quiet = quiet_days if quiet_days is not None else min(2.0, days / 2)
    try:
        world = World(seed, rows_per_day)
        planned = plan_incidents(
            world,
            first,
            days,
            incidents,
            seed,
            quiet_days=quiet,
            effects=(100, 200) if demo else (8, 400),
            kinds=("airline_maintenance",) if demo else None,
        )
        world = world.having(planned, plan_promotions(world, first, days, promotions, seed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_labels(planned, output)
    if to is To.KAFKA:
        _stream_all(world, first, days, bootstrap_servers.split(","), topic, partitions, pace)
    else:
        assert output is not None
        per = per or (Per.SLICE if pace else Per.HOUR)
        _write_all(world, first, days, output, format, per, pace)
    _show(planned, output)


def _first_slice(start: str | None, days: float, pace: float | None) -> datetime:
    """A paced world catches up with the clock at its end: it never writes what is still to come."""
    if start is None:
        at = DEFAULT_START
        if pace is not None:
            at = datetime.now(UTC) - timedelta(days=days) * max(0.0, 1 - 1 / pace)
        return at.replace(minute=at.minute // 30 * 30, second=0, microsecond=0)
    try:
        at = datetime.fromisoformat(start)
    except ValueError:
        raise typer.BadParameter(
            f"{start!r} is no ISO time; write for instance 2026-01-05T00:00Z", param_hint="--start"
        ) from None
    if at.tzinfo is None:
        raise typer.BadParameter(
            f"{start!r} names no time zone; write {start}Z for UTC", param_hint="--start"
        )
    at = at.astimezone(UTC)
    if at.minute % 30 or at.second or at.microsecond:
        raise typer.BadParameter(f"{start!r}: slices begin on the half hour", param_hint="--start")
    return at


def _write_all(
    world: World,
    first: datetime,
    days: float,
    output: Path,
    format: Format,
    per: Per,
    pace: float | None,
) -> None:
    """Write every file, in step with the wall clock if paced."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from monitor.simulation.files import write
    from monitor.simulation.world import SLICE

    began = time.monotonic()
    slices = max(1, round(days * 48))
    rows = 0
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=terminal(stderr=True),
    ) as progress:
        task = progress.add_task("simulating half hours", total=slices)
        for at, end, bookings in _portions(world, first, slices, per):
            if pace:
                # A booking is on file as soon as its portion of time has gone by.
                due = began + (end - first).total_seconds() / pace
                time.sleep(max(0.0, due - time.monotonic()))
            write(bookings, at, output, format.value)
            rows += len(bookings)
            progress.update(
                task,
                completed=(end - first) // SLICE,
                description=f"{rows:,} bookings until {end:%d %b %H:%M}",
            )


def _stream_all(
    world: World,
    first: datetime,
    days: float,
    servers: list[str],
    topic: str,
    partitions: int,
    speed: float | None,
) -> None:
    """Send every booking, in step with the wall clock if paced."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from monitor.simulation.stream import Stream, StreamError, stream
    from monitor.simulation.world import SLICE

    slices, rows = max(1, round(days * 48)), 0
    try:
        to = Stream(servers, topic, partitions)
        try:
            with Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeRemainingColumn(),
                console=terminal(stderr=True),
            ) as progress:
                task = progress.add_task(f"sending to {topic}", total=float(slices))

                def sent(until: datetime, count: int) -> None:
                    nonlocal rows
                    rows += count
                    text = f"{rows:,} bookings until {until:%d %b %H:%M}"
                    progress.update(task, completed=(until - first) / SLICE, description=text)

                stream(world, first, slices, to, speed, sent)
        finally:
            to.close()
    except StreamError as error:
        say(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say(f"stopped after {rows:,} bookings", err=True)


def _portions(
    world: World, first: datetime, slices: int, per: Per
) -> Iterator[tuple[datetime, datetime, pa.Table]]:
    """The world cut into files: (start, end, bookings)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from monitor.simulation.world import SLICE

    step = 2 if per is Per.HOUR else 1
    for i in range(0, slices, step):
        at = first + i * SLICE
        parts = [world.slice(at + j * SLICE) for j in range(min(step, slices - i))]
        end = at + len(parts) * SLICE
        if per is not Per.MINUTE:
            yield at, end, pa.concat_tables(parts)
            continue
        (bookings,) = parts
        times = bookings.column("time")
        for minute in range(30):
            begin = at + timedelta(minutes=minute)
            until = begin + timedelta(minutes=1)
            inside = pc.and_(
                pc.greater_equal(times, pa.scalar(begin, times.type)),
                pc.less(times, pa.scalar(until, times.type)),
            )
            yield begin, until, bookings.filter(inside)


def _show(planned: tuple[Planned, ...], output: Path | None) -> None:
    from rich.table import Table

    table = Table(
        title=f"Incidents, labelled in {output / 'labels.jsonl'}" if output else "Incidents",
        caption="dim: too weak to count on" if not all(i.detectable for i in planned) else None,
    )
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("cause", overflow="fold")
    table.add_column("extra failures", justify="right")
    for incident in planned:
        table.add_row(
            f"{incident.start:%d %b %H:%M} - {incident.end:%d %b %H:%M}",
            incident.outcome,
            str(incident.accept[0]),
            f"{incident.expected_excess:,.0f} over {incident.expected_usual:,.0f}",
            style=None if incident.detectable else "dim",
        )
    print_whole(terminal(), table)
