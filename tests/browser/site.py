"""A store that the real monitor wrote over simulated bookings, and a server that shows it.

Two days and a half of a small booking world pass through the pipeline of the daemon, LEAST and
all: one airline's outage is over and judged, one fare source's is acknowledged, one office's has
just begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.config import Config, load
from monitor.domain import Cause, Incident, State
from monitor.edge.http import serve
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.making import names
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store import IncidentQuery, Store, Verdict, open_store
from monitor.pipeline import Pipeline
from monitor.simulation.files import write
from monitor.simulation.plan import Planned
from monitor.simulation.structure import Sizes
from monitor.simulation.world import SLICE, World
from tests.services.bookings import SCHEMA

TOKEN = "correct-horse-battery"
START = datetime(2026, 1, 5, tzinfo=UTC)
SLICES = 116
ROWS_PER_DAY = 30_000
SIZES = Sizes(airlines=9, fare_sources=8, cities=16, offices=12, codes=16, regions=3)

CONFIGURATION = """
[source]
paths = ["logs/bookings-*"]
[window]
slice_length = "1h"
[detection]
learning = "1d"
[store]
url = "sqlite:///store.db"
[http]
token_file = "token"
[console]
example_columns = ["agent_office", "fare_source"]
reports = "reports"
runbook_url = "https://wiki.example.com/runbooks/{outcome}"
[[maintenance]]
match = ["outcome=pay", "fare_source=FS03"]
days = ["sun"]
at = "02:00"
length = "2h"
zone = "Europe/Lisbon"
note = "the bank's release night"
[[notifiers]]
kind = "webhook"
url = "https://hooks.example.com/services/T0/B1/very-secret"
"""


@dataclass(frozen=True)
class Site:
    """What there is to be seen."""

    state: LiveState
    url: str
    over: Incident
    taken: Incident
    fresh: Incident

    @property
    def pages(self) -> dict[str, str]:
        """A name for every page → its path."""
        cause = self.taken.finding.path[0].replace("=", "%3D")
        return {
            "overview": "/",
            "incidents": "/incidents?method=",
            "search": "/incidents?text=airline&state=resolved",
            "nothing-found": "/incidents?text=nobody",
            "incident-open": f"/incidents/{self.fresh.id}",
            "incident-acknowledged": f"/incidents/{self.taken.id}",
            "incident-resolved": f"/incidents/{self.over.id}",
            "graph": "/graph",
            "node": f"/graph?node={cause}&hops=1",
            "node-search": "/graph?q=fare",
            "explore": f"/explore?outcome=pay&where={cause}",
            "silences": "/silences",
            "reports": "/reports",
            "settings": "/settings",
            "sign-in": "/sign-in?next=/silences",
            "missing": "/incidents/ffff",
        }


def at(number: int) -> datetime:
    return START + number * SLICE


def write_bookings(folder: Path) -> World:
    """The logs, with three outages in them."""
    world = World(seed=11, rows_per_day=ROWS_PER_DAY, sizes=SIZES)
    airline, source, office = (
        Cause.from_json({name: [world.texts(name)[place]]})
        for name, place in (("airline", 1), ("fare_source", 2), ("agent_office", 0))
    )
    outages = [
        Planned(kind, kind, at(first), at(last), outcome, cause, strength, (cause,))
        for kind, first, last, outcome, cause, strength in (
            ("airline_maintenance", 62, 70, "reserve", airline, 0.5),
            ("fare_source", 88, SLICES, "pay", source, 0.35),
            ("office", SLICES - 4, SLICES, "reserve", office, 0.6),
        )
    ]
    world = world.having(outages)
    folder.mkdir()
    for number in range(SLICES):
        write(world.slice(at(number)), at(number), folder, "parquet")
    return world


def make_store(folder: Path) -> tuple[Config, Store]:
    """Everything up to the last slice, diagnosed and stored, and what operators did since."""
    write_bookings(folder / "logs")
    (folder / "token").write_text(TOKEN)
    (folder / "reports").mkdir()
    (folder / "reports" / "january.html").write_text(
        "<!doctype html><html lang=en><title>January</title><style>h1{color:teal}</style>"
        "<h1>January</h1><script>document.title='the script ran'</script>"
    )
    (folder / "monitor.toml").write_text(SCHEMA + CONFIGURATION)
    config = load(folder / "monitor.toml", {})
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    Pipeline(config, store, Metrics(), tuple(names(config)), lambda: at(SLICES)).poll()
    return config, store


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """The site, served; gone afterwards."""
    from monitor.edge import documents
    from monitor.edge.store import LATEST_DIAGNOSIS

    config, store = make_store(folder)
    newest = documents.diagnosis_from(documents.loads(store.state(LATEST_DIAGNOSIS) or b""))
    over, taken, fresh = found(store)
    store.acknowledge(taken.id, taken.opened_at + timedelta(minutes=12), "maria", "bank called")
    store.label(over.id, Verdict.TRUE, at(80), "maria", "their maintenance, see mail")
    for item in store.due(at(SLICES)):
        store.sent(item)
    now = datetime.now(UTC)
    matchers, end = ['outcome="pay"', 'airline=~"X.*"'], now + timedelta(hours=20)
    store.add_silence(Silence.of(matchers, end, now, "joão", "switch of providers"))
    store.take_lease(timedelta(hours=1))
    status = Status(
        stage="", source="files logs/bookings-*", started_at=START,
        watermark=newest.at, diagnosis=newest, method="excess",
        maintenance=config.maintenance, config=config,
    )  # fmt: skip
    state = LiveState(store, Metrics(), status)
    handle = serve(state, token=TOKEN)
    try:
        yield Site(state, handle.url, over, store.incident(taken.id), fresh)
    finally:
        handle.stop()
        store.close()


def found(store: Store) -> tuple[Incident, Incident, Incident]:
    """The incidents of the three outages."""
    by_cause = {
        tuple(name for name, _ in incident.finding.cause.selector): incident
        for incident in store.incidents(IncidentQuery(method="excess"))
    }
    over, taken = by_cause[("airline",)], by_cause[("fare_source",)]
    fresh = by_cause[("agent_office",)]
    assert over.state is State.RESOLVED
    assert taken.state is fresh.state is State.OPEN
    return over, taken, fresh
