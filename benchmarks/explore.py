"""Explore over 30 days at 2 million rows a day: `python -m benchmarks.explore --json OUT`.

The store is built directly: one simulated day becomes slices and digests, and these are written for
each of the days, so no tick is waited for. The page is then asked over HTTP as people do, each
question once, none twice: outcome, time and values are drawn anew. The first row is the server
itself; a row a kind of question follows, and all of them together.
"""

from __future__ import annotations

import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import numpy as np

from benchmarks._bookings import configured
from benchmarks._report import arguments, machine, publish
from benchmarks.tick import _slices
from monitor.config import Config
from monitor.digests import digest
from monitor.domain import datetime64
from monitor.edge.blobs import slice_to_bytes
from monitor.edge.digesting import BLOCK, COURSE, course_to_bytes, pairs_to_bytes
from monitor.edge.http import serve
from monitor.edge.kept_vocabulary import KeptVocabulary
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Store, Work, open_store
from monitor.encoding import Coded
from monitor.evolution import Meaning, Stored
from monitor.simulation.world import SLICE, World
from monitor.vocabulary import MISSING_TEXT
from tests.samples import finding, tick

START = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
LENGTHS = {
    "an hour": timedelta(hours=1),
    "a day": DAY,
    "a week": timedelta(days=7),
    "all days": timedelta(),
}
CONDITIONS = (0, 1, 2)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows-per-day", type=float, default=2_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--questions", type=int, default=12, help="of each kind")
    asked = parser.parse_args()
    where = machine()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "monitor.db"
        config, store = configured(), open_store(f"sqlite:///{file}")
        values = _fill(store, config, asked.rows_per_day, asked.days)
        size = file.stat().st_size
        rows = _ask(store, config, values, asked.days, asked.questions)
        store.close()
    title = f"Explore, {asked.days} days of {asked.rows_per_day:,.0f} rows"
    publish(title, rows, where | {"store MB": round(size / 1e6)}, asked.json)


def _fill(store: Store, config: Config, rows_per_day: float, days: int) -> dict[str, list[str]]:
    """Write the days; returns values of each attribute, those with most rows first."""
    schema, meaning = config.settings.schema, Meaning.of(config.settings, config.whens)
    kept = KeptVocabulary(schema, {})
    world = World(7, rows_per_day)
    day: list[Coded] = []
    for number in range(round(DAY / SLICE)):
        (piece,) = _slices(world, START + number * SLICE, config, kept.vocabulary)
        expected = np.tile(piece.failed.mean(axis=0), (len(piece.weight), 1))
        day.append(Coded(piece, piece.values, expected))
    store.commit(Work(state=kept.changes()))
    per_block = round(BLOCK / SLICE)
    digests = [
        digest([Stored(c.slice, c.expected) for c in day[i : i + per_block]])
        for i in range(0, len(day), per_block)
    ]
    columns = meaning.columns
    pairs = [[pairs_to_bytes(p, columns) for p in d.pairs] for d in digests]
    for number in range(days):
        slices, parts = {}, {}
        for i, one in enumerate(day):
            start = START + number * DAY + i * SLICE
            moved = Coded(
                replace(one.slice, start=datetime64(start)), one.slice.values, one.expected
            )
            slices[start] = slice_to_bytes(moved, columns)
        for i, found in enumerate(digests):
            block = START + number * DAY + i * BLOCK
            starts = [block + k * SLICE for k in range(per_block)]
            parts[block, COURSE] = course_to_bytes(found.course, starts, columns)
            parts |= {(block, n): b for n, b in zip(columns.attributes, pairs[i], strict=True)}
        store.commit(Work(slices=slices, digests=parts))
    values = {}
    for a, name in enumerate(schema.names):
        codes = np.concatenate([one.slice.values[:, a] for one in day])
        present, rows = np.unique(codes, return_counts=True)
        texts = [kept.vocabulary.text(a, int(code)) for code in present[np.argsort(-rows)]]
        values[name] = [text for text in texts if text != MISSING_TEXT][:40]
    return values


def _ask(
    store: Store, config: Config, values: dict[str, list[str]], days: int, questions: int
) -> list[dict[str, Any]]:
    newest = START + days * DAY
    status = Status(
        stage="", started_at=START, method="excess", config=config,
        diagnosis=replace(tick(finding()), at=newest), watermark=newest,
    )  # fmt: skip
    server = serve(LiveState(store, Metrics(), status), token="s3cret")
    rng = np.random.default_rng(11)
    rows, whole = [], []
    try:
        rows.append(
            _row("the server alone", [_seconds(server.url + "/healthz") for _ in range(50)])
        )
        for (name, length), conditions in product(LENGTHS.items(), CONDITIONS):
            took = [
                _seconds(
                    f"{server.url}/explore?"
                    + _question(rng, config, values, length or days * DAY, conditions, days)
                )
                for _ in range(questions)
            ]
            rows.append(_row(f"{name}, {conditions} conditions", took))
            whole += took
        rows.append(_row("all questions", whole))
    finally:
        server.stop()
    return rows


def _question(
    rng: np.random.Generator,
    config: Config,
    values: dict[str, list[str]],
    length: timedelta,
    conditions: int,
    days: int,
) -> str:
    room = (days * DAY - length) // SLICE
    first = START + int(rng.integers(room + 1)) * SLICE
    # Seconds that mean nothing make every address another one: no answer is kept from before.
    end = first + length + timedelta(microseconds=int(rng.integers(1, 1_000_000)))
    schema = config.settings.schema
    plain = [a.name for a in schema.attributes if not a.is_code]
    names = rng.choice(plain, conditions, replace=False)
    asked = [
        ("outcome", str(rng.choice(schema.outcomes))),
        ("from", first.isoformat()),
        ("to", end.isoformat()),
        *(("where", f"{n}={rng.choice(values[n])}") for n in names),
    ]
    return urlencode(asked)


def _seconds(address: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(address, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


def _row(name: str, took: list[float]) -> dict[str, Any]:
    ms = 1000 * np.array(took)
    return {
        "question": name,
        "asked": len(ms),
        "p50 ms": float(np.median(ms)),
        "p99 ms": float(np.quantile(ms, 0.99)),
        "max ms": float(ms.max()),
    }


if __name__ == "__main__":
    main()
