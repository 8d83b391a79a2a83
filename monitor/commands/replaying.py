"""What a replay shows to people: its progress, and its incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from monitor.domain import Diagnosis, Method

if TYPE_CHECKING:
    from rich.console import Console

    from monitor.config import Config
    from monitor.diagnosis import Tick
    from monitor.scoring import Scores


class ReplayProgress:
    """A live line of what the replay is at."""

    def __init__(self, console: Console) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("reading", total=None)
        self.newest: Diagnosis | None = None

    def __enter__(self) -> ReplayProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, ticks: int, done: int) -> None:
        """The input is read: so many ticks, some done by an earlier run."""
        if done:
            self._bar.console.print(f"going on after {done} ticks of an interrupted run")
        self._bar.reset(self._task, total=ticks, completed=done, description="ticks")

    def tick(self, tick: Tick) -> None:
        """One more tick."""
        self.newest = tick.diagnosis
        waiting = sum(
            i.resolved_at is None and i.finding.method is Method.EXCESS for i in tick.incidents
        )
        text = f"{tick.diagnosis.at:%Y-%m-%d}  {waiting:2} open"
        self._bar.update(self._task, advance=1, description=text)


def incident_table(incidents: list[Any], config: Config, title: str, limit: int = 40) -> Any:
    """The incidents of highest score, in the order they opened."""
    from rich import box
    from rich.table import Table

    top = sorted(incidents, key=lambda i: -i.finding.score)[:limit]
    shown = sorted(top, key=lambda i: (i.opened_at, i.id))
    if len(shown) < len(incidents):
        title += f": the {len(shown)} of highest score, of {len(incidents)}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name, justify in (
        ("id", "left"), ("opened", "left"), ("path of the root cause", "left"),
        ("failed", "right"), ("expected", "right"), ("rate", "right"), ("score", "right"),
    ):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    zone = ZoneInfo(config.settings.window.zone)
    for incident in shown:
        finding = incident.finding
        table.add_row(
            incident.id[:8],
            f"{incident.opened_at.astimezone(zone):%Y-%m-%d %H:%M}",
            " → ".join(finding.path),
            f"{finding.observed:.0f}",
            f"{finding.expected:.1f}",
            f"{finding.rate_before:.1%} → {finding.rate_now:.1%}",
            f"{finding.score:.1f}",
        )
    return table


def case_table(scores: Scores, title: str) -> Any:
    """Every label with what was reported for it."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("case", "what happened", "outcome", "reported, best first", "verdict"):
        table.add_column(name)
    for case in scores.cases:
        reported = ", ".join(
            f"{i.finding.cause} ({i.finding.score:.0f})" for i in case.reported[:3]
        )
        table.add_row(
            case.label.id,
            case.label.event or " or ".join(str(cause) for cause in case.label.accept[:3]),
            case.label.outcome,
            reported or "nothing",
            "first" if case.right_first else "found" if case.right_any else "missed",
            style=None if case.right_any else "red",
        )
    return table
