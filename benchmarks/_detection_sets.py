"""The data sets of `benchmarks.detection`: configuration, rows, truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks._bookings import configured
from monitor.config import Config, load
from monitor.diagnosis import Monitor, Tick
from monitor.domain import Incident, Method
from monitor.edge.files import FileSource
from monitor.edge.store import IncidentQuery, open_store
from monitor.replay import Input, gather
from monitor.scoring import Label, read_labels, read_quiet_days
from monitor.session import Session
from monitor.simulation.drift import Drift
from monitor.simulation.files import write, write_labels
from monitor.simulation.plan import ALL_KINDS, plan_incidents, plan_promotions
from monitor.simulation.world import World
from monitor.vocabulary import Vocabulary

NOW = datetime(2030, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 5, tzinfo=UTC)
LEARNING_DAYS = 2
STRONG = 20.0
CITIES = {
    "nyc2013": "examples/flights/monitor.toml",
    "houston2011": "examples/flights/houston.toml",
    "pnw2014": "examples/flights/pnw.toml",
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """One replay."""

    name: str
    kind: str
    """``city``, ``hotel``, ``week``, ``quiet``, ``drift`` or ``promotions``."""
    config: Config
    data: Input
    vocabulary: Vocabulary
    inputs: tuple[str, ...]
    labels: tuple[Label, ...]
    detectable: frozenset[str]
    """Ids of the labels that are asked for."""
    strong: frozenset[str]
    """Those of them with `STRONG` excess failures every five minutes."""
    quiet: tuple[date, ...]
    since: datetime | None = None


@contextmanager
def city(name: str, folder: Path) -> Iterator[DataSet]:
    """One year of flights."""
    config = load(Path(CITIES[name]), {})
    file = folder / "flights" / f"{name}.parquet"
    truth = folder / "flights" / "anomalies_public.jsonl"
    labels = read_labels(truth, config.settings.window.zone)
    mine = {
        row["id"]
        for line in truth.read_text("utf-8").splitlines()
        if (row := json.loads(line))["dataset"] == name
    }
    labels = tuple(label for label in labels if label.id in mine)
    quiet = read_quiet_days(folder / "flights" / "quiet_days.csv")
    yield _set(name, "city", config, (str(file),), labels, frozenset(mine), quiet)


@contextmanager
def hotel(folder: Path) -> Iterator[DataSet]:
    """Bookings of two hotels, by the day their status was settled; history begins in August."""
    config = load(Path("examples/hotel/monitor.toml"), {})
    file = folder / "hotel" / "bookings.parquet"
    labels = read_labels(folder / "hotel" / "anomalies_public.jsonl", config.settings.window.zone)
    outcome = config.settings.schema.outcomes[0]
    labels = tuple(replace(label, outcome=outcome) for label in labels)
    since = datetime(2015, 8, 1, tzinfo=UTC)
    ids = frozenset(label.id for label in labels)
    yield _set("hotel", "hotel", config, (str(file),), labels, ids, (), since)


@contextmanager
def simulated(
    kind: str, seed: int, days: int, rows_per_day: float, slice_minutes: int = 30
) -> Iterator[DataSet]:
    """Weeks of bookings behind two days of learning.

    Args:
        kind: ``week`` has twelve incidents a week, ``quiet`` nothing, ``drift`` nothing but rates
            that wander twice as far, ``promotions`` ten of them a week.
        seed: of the world and of what happens in it.
        days: after the two of learning.
        rows_per_day: traffic.
        slice_minutes: length of a slice.
    """
    world = World(seed, rows_per_day)
    if kind == "drift":
        world.drift = _Doubled(world.drift.seed, world.drift.values, world.drift.steps)
    whole = days + LEARNING_DAYS
    incidents = round(12 * days / 7) if kind == "week" else 0
    kinds = np.random.default_rng(seed).permutation(ALL_KINDS).tolist()
    planned = plan_incidents(
        world, START, whole, incidents, seed, quiet_days=LEARNING_DAYS, kinds=kinds
    )
    promotions = ()
    if kind == "promotions":
        promotions = plan_promotions(
            world, START + timedelta(days=LEARNING_DAYS), days, round(10 * days / 7), seed
        )
    world = world.having(planned, promotions)
    config = configured(timedelta(minutes=slice_minutes))
    with TemporaryDirectory() as name:
        folder = Path(name)
        truth = write_labels(planned, folder)
        labels = read_labels(truth, config.settings.window.zone)
        nats = {i.id: i.nats for i in planned}
        for n in range(whole * 48):
            at = START + n * timedelta(minutes=30)
            write(world.slice(at), at, folder, "parquet")
        asked = frozenset(i for i, value in nats.items() if value > 15)
        five = timedelta(minutes=5)
        pace = {i.id: i.expected_excess * five / (i.end - i.start) for i in planned}
        strong = frozenset(i for i in asked if pace[i] >= STRONG)
        files = (str(folder / "*.parquet"),)
        yield _set(f"{kind} {seed}", kind, config, files, labels, asked, (), strong=strong)


class _Doubled(Drift):
    """Rates that wander twice as far."""

    def deviation(self) -> np.ndarray:
        return 2 * super().deviation()


def _set(
    name: str, kind: str, config: Config, inputs: tuple[str, ...], labels: tuple[Label, ...],
    detectable: frozenset[str], quiet: tuple[date, ...], since: datetime | None = None,
    strong: frozenset[str] = frozenset(),
) -> DataSet:  # fmt: skip
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary, list(inputs), follow=False)
    settings = config.settings
    data = gather(source.batches(), settings.schema, settings.window, NOW, since=since)
    return DataSet(
        name, kind, config, data, vocabulary, inputs, labels, detectable, strong, quiet, since
    )


def replayed(
    chosen: DataSet, on_tick: Callable[[Monitor, Tick], None], graph: bool = True
) -> dict[Method, list[Incident]]:
    """Incidents of both methods, by the code that `least-monitor backtest` runs.

    Args:
        chosen: the data set.
        on_tick: called after every tick.
        graph: False leaves LEAST out, and `paper`, which needs it; `excess` finds the same.
    """
    if not graph:
        return _counted(chosen, on_tick)
    settings = chosen.config.settings
    detection = replace(settings.detection, report=Method.EXCESS, compare=(Method.PAPER,))
    settings = replace(settings, detection=detection)
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/replay.db")
        try:
            session = Session(settings, store, keep=None)
            source = FileSource(
                chosen.config, session.vocabulary, list(chosen.inputs), follow=False
            )
            data = gather(
                source.batches(), settings.schema, settings.window, NOW, since=chosen.since
            )
            for n, piece in enumerate(data.slices(settings.window), 1):
                on_tick(session.monitor, session.tick(piece))
                if n % 48 == 0:
                    session.commit()
            session.commit()
            return {
                method: sorted(
                    store.incidents(IncidentQuery(method=method.value)),
                    key=lambda i: (i.opened_at, i.id),
                )
                for method in Method
            }
        finally:
            store.close()


def _counted(
    chosen: DataSet, on_tick: Callable[[Monitor, Tick], None]
) -> dict[Method, list[Incident]]:
    settings = chosen.config.settings
    detection = replace(settings.detection, report=Method.EXCESS, compare=())
    monitor = Monitor(replace(settings, detection=detection), chosen.vocabulary)
    known: dict[str, Incident] = {}
    for piece in chosen.data.slices(settings.window):
        tick = monitor.tick(piece)
        known |= {incident.id: incident for incident in tick.incidents}
        on_tick(monitor, tick)
    return {Method.EXCESS: sorted(known.values(), key=lambda i: (i.opened_at, i.id))}
