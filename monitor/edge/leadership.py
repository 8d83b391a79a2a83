"""Stand by until this process may lead, then keep its lease alive by a heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from monitor.edge.store import LeadershipLostError, Store, StoreError
from monitor.edge.store.lease import LENGTH, Lease, leads

LOOK_SECONDS = 1.0
"""How often one that stands by looks whether it may lead."""

_log = structlog.get_logger("leadership")


class Leadership:
    """The lease of one daemon.

    Args:
        store: where the lease lies.
        length: of the lease; a third of it lies between two heartbeats.
        heard: told of a heartbeat that failed, and by None of the next that did not. A daemon
            that can read nothing writes nothing else either: only the heartbeat meets the store.

    Attributes:
        lost: set once another process leads; what this one knows is then worthless.
    """

    def __init__(
        self,
        store: Store,
        length: timedelta = LENGTH,
        heard: Callable[[StoreError | None], None] = lambda trouble: None,
    ) -> None:
        self._store, self._length, self._heard = store, length, heard
        self.lost = threading.Event()
        self._resting = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(
        self,
        stop: threading.Event,
        waiting: Callable[[Lease | StoreError], None] = lambda why: None,
    ) -> bool:
        """Wait until this process leads; False when `stop` was set before.

        Args:
            stop: ends the wait.
            waiting: told at every look who leads, or why the store cannot say.
        """
        while not stop.is_set():
            try:
                lease = self._store.take_lease(self._length)
            except StoreError as error:
                waiting(error)
            else:
                if lease.mine:
                    self.lost.clear()
                    self._start()
                    return True
                waiting(lease)
            stop.wait(LOOK_SECONDS)
        return False

    def _start(self) -> None:
        self._resting.clear()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        failed = False
        while not self._resting.wait(self._length.total_seconds() / 3):
            try:
                self._store.renew_lease(self._length)
            except LeadershipLostError as error:
                self.lose(str(error))
                return
            except StoreError as error:
                # Nobody else could take it meanwhile, or the next heartbeat will hear of it.
                _log.warning("the lease could not be renewed", error=str(error))
                failed = True
                self._heard(error)
            else:
                if failed:
                    failed = False
                    self._heard(None)

    def lose(self, why: str) -> None:
        """Another process leads: nothing of this one may reach the store or people any more."""
        if not self.lost.is_set():
            _log.error("leadership lost", why=why)
        self.lost.set()

    def release(self) -> None:
        """End the heartbeat, and let the next one lead at once."""
        self._resting.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self.lost.is_set():
            return
        try:
            self._store.resign()
        except StoreError as error:
            _log.warning("could not resign; the lease will run out", error=str(error))


@contextmanager
def leading(store: Store) -> Iterator[None]:
    """Lead for the time of one command, which cannot wait for another to end.

    Raises:
        StoreError: another one leads.
    """
    leadership, stop = Leadership(store), threading.Event()

    def refuse(why: Lease | StoreError) -> None:
        raise why if isinstance(why, StoreError) else StoreError(leads(why.owner))

    leadership.acquire(stop, refuse)
    try:
        yield
    finally:
        leadership.release()
