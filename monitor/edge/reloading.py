"""Requests to read the configuration anew, from a signal or over HTTP, and what became of them."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from monitor.config import Config, ConfigError
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.making import UnusableError
from monitor.edge.store import StoreError

_log = structlog.get_logger("daemon")


class RefusedError(Exception):
    """The new configuration is not taken, the old one stays; the message lists why."""


@dataclass(slots=True)
class Reloads:
    """Asked from any thread and from signal handlers; answered by the daemon's own."""

    _asked: queue.SimpleQueue[Future[None]] = field(default_factory=queue.SimpleQueue)

    def ask(self) -> Future[None]:
        """Please; done when the new configuration runs, failed with `RefusedError`."""
        asked: Future[None] = Future()
        self._asked.put(asked)
        return asked

    def serve(
        self, take: Callable[[], None], metrics: Metrics, now: Callable[[], datetime]
    ) -> None:
        """Do what was asked since the last call, if anything; several at once are one.

        Args:
            take: reads, checks and applies the configuration, all of it or nothing.
            metrics: told how it went.
            now: the clock.
        """
        waiting = []
        while not self._asked.empty():
            waiting.append(self._asked.get())
        if not waiting:
            return
        refused: RefusedError | None = None
        try:
            take()
        except (ConfigError, UnusableError, StoreError, RefusedError, OSError) as error:
            refused = RefusedError(str(error))
            _log.error(
                "the configuration is not reloaded; the one that runs stays, whole",
                problems=str(error).splitlines(),
            )
        else:
            _log.info("configuration reloaded")
        metrics.reloaded(None if refused else now())
        for one in waiting:
            if refused is None:
                one.set_result(None)
            else:
                one.set_exception(refused)


def check_replaceable(running: Config, fresh: Config) -> None:
    """A running daemon can go on under `fresh`.

    Raises:
        RefusedError: naming every key that a restart is needed for.
    """
    fixed = {
        "[store] url": (running.store.url, fresh.store.url),
        "[store] lease": (running.store.lease, fresh.store.lease),
        "[http] host": (running.http.host, fresh.http.host),
        "[http] port": (running.http.port, fresh.http.port),
        "[http] token_file": (running.http.token, fresh.http.token),
        "[http] public_url": (running.http.public_url, fresh.http.public_url),
    }
    changed = [key for key, (old, new) in fixed.items() if old != new]
    assert replace(running.http, host="", port=0, token=None, public_url=None) == replace(
        fresh.http, host="", port=0, token=None, public_url=None
    ), "a key of [http] is missing here"
    if changed:
        raise RefusedError(
            "\n".join(f"{key} has changed, which needs a restart" for key in changed)
        )
