"""`least-monitor run` and `once`: watch the configured source, for good or for one pass."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.configuration import ConfigOption, read_configuration
from monitor.commands.failure import mendable
from monitor.commands.terminal import say

if TYPE_CHECKING:
    from monitor.config import Config
    from monitor.edge.rejections import Rejections
    from monitor.edge.store import Store


def run(
    config: ConfigOption,
    log_format: Annotated[
        str, typer.Option(help="`human`, or `json` for log collectors.")
    ] = "human",
) -> None:
    """Run the monitor until SIGTERM or SIGINT; a tick under way is finished first.

    SIGHUP reads the configuration anew, as `least-monitor reload` does.
    """
    settings = read_configuration(config)
    _configure_logs(log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with mendable():
        from monitor.app import Daemon
        from monitor.config import load
        from monitor.edge.reloading import Reloads
        from monitor.edge.sources import prepare_process
        from monitor.edge.supervisor import Supervisor

        prepare_process(settings)
        store = _open(settings)
        reloads = Reloads()
        signal.signal(signal.SIGHUP, lambda *_: reloads.ask())
        try:
            daemon = Daemon(
                settings,
                store,
                _now,
                Supervisor(os.environ),
                lambda: load(config, os.environ),
                reloads,
            )
            daemon.run(stop, lambda url: say(f"console and metrics: {url}", err=True))
        finally:
            store.close()


def once(config: ConfigOption) -> None:
    """Take in what is new, diagnose every complete slice, deliver, and end: for cron."""
    settings = read_configuration(config)
    _configure_logs("human")
    with mendable():
        from monitor.edge.leadership import leading
        from monitor.edge.sources import prepare_process

        prepare_process(settings)
        store = _open(settings)
        try:
            with leading(store):
                _pass(settings, store)
        finally:
            store.close()


def _pass(settings: Config, store: Store) -> None:
    from monitor.edge.heartbeat import Heartbeat
    from monitor.edge.metrics import Metrics
    from monitor.edge.notifiers.making import make_notifiers, routes
    from monitor.edge.notifiers.outbox import Outbox
    from monitor.edge.rejections import Rejections
    from monitor.edge.silences import Silencer
    from monitor.edge.source import Flow, SourceError
    from monitor.edge.store import StoreError
    from monitor.pipeline import Pipeline

    outbox = Outbox(
        store,
        make_notifiers(settings, None),
        routes=routes(settings),
        quiet=Silencer(store, settings.maintenance),
    )
    pipeline = Pipeline(settings, store, Metrics(), outbox.names, _now)
    rejections = Rejections()
    pipeline.setting_aside = rejections.add
    heartbeat = Heartbeat(settings.heartbeat, _now) if settings.heartbeat else None
    if heartbeat is not None:
        heartbeat.begins()
    try:
        ticks = pipeline.poll()
        while pipeline.source.status().flow is Flow.CATCHING_UP:
            ticks += pipeline.poll()
        source = pipeline.source.status()
        nothing_read = len(rejections) > 0 and not pipeline.taken_in
        if heartbeat is not None and source.flow is Flow.PAUSED:
            heartbeat.fails(f"source paused: {source.detail}")
        elif heartbeat is not None and nothing_read:
            heartbeat.fails("nothing that is new could be read")
        elif heartbeat is not None:
            heartbeat.done(f"{len(ticks)} ticks")
    except (SourceError, StoreError) as error:
        if heartbeat is not None:
            heartbeat.fails(str(error))
        _tell(rejections)
        raise
    finally:
        pipeline.close()
        if heartbeat is not None:
            heartbeat.stop()
    outbox.deliver()
    outbox.refresh()
    count = len(pipeline.session.monitor.open_incidents())
    say(f"{len(ticks)} ticks, {count} incidents open", err=True)
    _tell(rejections)
    if rejections.excluded and not pipeline.taken_in:
        say(f"`source.where` left out all that is new: {rejections.excluded:,} rows", err=True)
    if source.flow is Flow.PAUSED:
        raise SourceError(f"source paused: {source.detail}")
    if nothing_read:
        raise SourceError("nothing that is new could be read")


def _tell(rejections: Rejections) -> None:
    for line in rejections.lines():
        say(line, err=True)


def _now() -> datetime:
    return datetime.now(UTC)


def _open(config: Config) -> Store:
    from monitor.edge.store import open_store

    return open_store(config.store.url)


def _configure_logs(log_format: str) -> None:
    import structlog

    if log_format not in ("human", "json"):
        raise typer.BadParameter("log format is `human` or `json`")
    # Its warnings are counted as metrics, its errors end the daemon with a line of our own.
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    # Tracebacks without the values of variables: a token is one of them.
    renderer = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stdout.isatty(),  # a file or a pipe is read by others
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(),
    )
