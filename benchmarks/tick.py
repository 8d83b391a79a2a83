"""A tick, stage by stage: `python -m benchmarks.tick --json OUT`.

Two simulated days of history, then ticks with LEAST warm-started, half of them while an incident
rages. `--split 4` makes four values of each, for a world of some 3,000 nodes. The do-nothing row is
the same clock around an empty tick: a monitor without rows.
"""

from __future__ import annotations

import resource
from argparse import BooleanOptionalAction
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks._bookings import configured
from benchmarks._report import arguments, machine, publish
from monitor.config import Config
from monitor.diagnosis import Monitor
from monitor.domain import MISSING
from monitor.edge.files import FileSource
from monitor.learning import LeastLearner
from monitor.replay import gather
from monitor.simulation.files import write
from monitor.simulation.plan import plan_incidents
from monitor.simulation.world import SLICE, World
from monitor.slices import Slice, empty
from monitor.vocabulary import Vocabulary

START = datetime(2026, 1, 5, tzinfo=UTC)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows-per-day", type=float, default=2_000_000)
    parser.add_argument("--slice", type=int, default=30, help="minutes of a slice")
    parser.add_argument("--ticks", type=int, default=16, help="measured half hours")
    parser.add_argument("--days", type=float, default=2.25, help="history before them")
    parser.add_argument("--split", type=int, default=1, help="values that every value becomes")
    parser.add_argument("--graph", action=BooleanOptionalAction, default=True, help="with LEAST")
    asked = parser.parse_args()
    where = machine()
    config = configured(timedelta(minutes=asked.slice))
    learner = replace(config.settings.learner, max_nodes=1000 * asked.split)
    settings = replace(config.settings, learner=learner)
    unsplit = Vocabulary(settings.schema)
    vocabulary = unsplit if asked.split == 1 else Vocabulary(settings.schema)
    world = World(7, asked.rows_per_day)
    measured = timedelta(hours=asked.ticks / 2)
    planned = plan_incidents(
        world, START, (timedelta(days=asked.days) + measured) / timedelta(days=1), 1, 7,
        quiet_days=asked.days + measured / timedelta(days=2), effects=(200, 400),
    )  # fmt: skip
    world = world.having(planned, ())
    monitor = Monitor(settings, vocabulary)
    seconds: dict[str, list[float]] = {}
    whole: list[float] = []
    nodes = rows = 0
    at = START
    memory: list[float] = []
    while at < START + timedelta(days=asked.days) + measured:
        if asked.graph and at == START + timedelta(days=asked.days) - SLICE:
            # the tick before the measured ones fits cold
            monitor.learner = LeastLearner(settings.schema, settings.learner)
        if at.hour == 0 and at.minute == 0:
            memory.append(_resident_mb())
        for piece in _slices(world, at, config, unsplit):
            if asked.split > 1:
                piece = _split(piece, unsplit, vocabulary, asked.split)
            tick = monitor.tick(piece)
            if at >= START + timedelta(days=asked.days):
                for stage, value in tick.diagnosis.seconds.items():
                    seconds.setdefault(stage, []).append(value)
                whole.append(sum(tick.diagnosis.seconds.values()))
                nodes, rows = tick.diagnosis.nodes, tick.diagnosis.rows
        at += SLICE
    found = [str(i.finding.cause) for i in monitor.open_incidents()]
    rest = np.array(whole) - np.array(seconds["fit"])
    idle = Monitor(settings, Vocabulary(settings.schema), None)
    width = len(settings.schema.attributes), len(settings.schema.outcomes)
    nothing = [
        sum(
            idle.tick(
                empty(piece.start + np.timedelta64(settings.window.slice_length) * k, *width)
            ).diagnosis.seconds.values()
        )
        for k in range(1, 20)
    ]
    rows_out = [_row(stage, np.array(values)) for stage, values in seconds.items()] + [
        _row("everything but the fit", rest),
        _row("whole tick", np.array(whole)),
        _row("do nothing", np.array(nothing)),
    ]
    title = f"{asked.rows_per_day:,.0f} rows a day ({rows:,} in the last slice), {nodes} nodes"
    more = {"nodes": nodes, "open": found, "slice_minutes": asked.slice, "resident_mb": memory}
    publish(title, rows_out, where | more, asked.json)


def _resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1e6, 1)


def _slices(world: World, at: datetime, config: Config, vocabulary: Vocabulary) -> Iterator[Slice]:
    """Half an hour of the world."""
    with TemporaryDirectory() as folder:
        path = write(world.slice(at), at, Path(folder), "parquet")
        source = FileSource(config, vocabulary, [str(path)], follow=False)
        schema, window = config.settings.schema, config.settings.window
        data = gather(source.batches(), schema, window, datetime.now(UTC) + timedelta(days=3650))
        yield from data.slices(window)


def _split(piece: Slice, before: Vocabulary, after: Vocabulary, parts: int) -> Slice:
    """The slice with every value drawn from some values of its own, in `after`'s codes."""
    rng = np.random.default_rng(int(piece.start.astype(np.int64)))
    columns = []
    for a, column in enumerate(piece.values.T):
        keys = column.astype(np.int64) * parts + rng.integers(parts, size=len(column))
        present, place = np.unique(keys, return_inverse=True)
        texts = [_part(before, a, *divmod(int(key), parts)) for key in present]
        columns.append(np.asarray(after.encode(a, texts))[place])
    return Slice(piece.start, np.column_stack(columns), piece.failed, piece.weight)


def _part(vocabulary: Vocabulary, attribute: int, code: int, part: int) -> str | None:
    return None if code == MISSING else f"{vocabulary.text(attribute, code)}/{part}"


def _row(stage: str, values: np.ndarray) -> dict[str, object]:
    return {
        "stage": stage,
        "median s": float(np.median(values)),
        "max s": float(values.max()),
    }


if __name__ == "__main__":
    main()
