"""How the daemon is, at one moment: what the HTTP pages show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from typing import Any, Protocol

from monitor.config import Config, MaintenanceWindow
from monitor.domain import Diagnosis, WindowSettings
from monitor.edge.metrics import Metrics
from monitor.edge.reloading import Reloads
from monitor.edge.store import Store


@dataclass(frozen=True, slots=True)
class Status:
    """Replaced whole, never changed."""

    stage: str = "starting"
    """What it does before it is up to date; empty once the window is rebuilt and ticks run."""
    standby: str = ""
    """Who leads while this process waits; empty when it leads itself."""
    store_trouble: str = ""
    """What is wrong with the store; empty while it works."""
    store_trouble_kind: str = ""
    """Of `store.Trouble`: the words change while it lasts (closed, then refused)."""
    source_trouble: str = ""
    """Why nothing can be read; empty while the source works."""
    problem: str = ""
    """Why the process should be restarted; empty is healthy."""
    source: str = ""
    """What is read, for people."""
    started_at: datetime | None = None
    watermark: datetime | None = None
    diagnosis: Diagnosis | None = None
    """The newest tick."""
    method: str | None = None
    """The method that reports; incidents of others stay off the overview. None shows all."""
    maintenance: tuple[MaintenanceWindow, ...] = ()
    """Configured windows."""
    config: Config | None = None
    """What it runs on; pages show it without its secrets."""

    @property
    def ready(self) -> bool:
        """The window is rebuilt and ticks run."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why it is not ready, the deepest trouble first; empty when it is."""
        if self.store_trouble:
            return f"store: {self.store_trouble}"
        return self.source_trouble or self.stage

    @property
    def window(self) -> WindowSettings:
        """How long slices and windows are."""
        return WindowSettings() if self.config is None else self.config.settings.window


class AppState(Protocol):
    """What the pages show; the daemon replaces `status` while requests read it."""

    status: Status
    store: Store
    metrics: Metrics
    reloads: Reloads | None

    def change(self, **changes: Any) -> None:
        """Replace these fields of `status`, whatever other threads change meanwhile."""


@dataclass(slots=True)
class LiveState:
    """`AppState` in memory. Assigning `status` is atomic."""

    store: Store
    metrics: Metrics
    status: Status = Status()
    reloads: Reloads | None = None
    """Where to ask for the configuration to be read anew; None: nobody would answer."""
    _changing: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def change(self, **changes: Any) -> None:
        """As `AppState` says: the scheduler's thread and the lease's heartbeat both do."""
        with self._changing:
            self.status = replace(self.status, **changes)
