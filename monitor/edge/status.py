"""How the daemon is, at one moment: what the HTTP pages show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.config import Config, MaintenanceWindow
from monitor.domain import Diagnosis, WindowSettings
from monitor.edge.metrics import Metrics
from monitor.edge.store import Store


@dataclass(frozen=True, slots=True)
class Status:
    """Replaced whole, never changed."""

    ready: bool = False
    """The window is rebuilt and ticks run."""
    reason: str = "starting"
    """Why it is not ready."""
    standby: str = ""
    """Who leads while this process waits; empty when it leads itself."""
    store_trouble: str = ""
    """What is wrong with the store; empty while it works."""
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
    def window(self) -> WindowSettings:
        """How long slices and windows are."""
        return WindowSettings() if self.config is None else self.config.settings.window


class AppState(Protocol):
    """What the pages show; the daemon replaces `status` while requests read it."""

    status: Status
    store: Store
    metrics: Metrics


@dataclass(slots=True)
class LiveState:
    """`AppState` in memory. Assigning `status` is atomic."""

    store: Store
    metrics: Metrics
    status: Status = Status()
