"""Rows a second through the file source: `python -m benchmarks.ingest --json OUT`.

Simulated bookings in every format, six attributes and four outcomes, on one core. The peers, over
the same files: Arrow reading the columns and doing nothing with them, which no source over Arrow
can beat, and plain Python with one object a row, which is how logs are usually read.
"""

from __future__ import annotations

import csv
import gzip
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks._bookings import configured
from benchmarks._report import arguments, machine, publish
from monitor.config import Config
from monitor.edge.files import FileSource
from monitor.simulation.files import json_lines
from monitor.simulation.world import SLICE, World
from monitor.vocabulary import Vocabulary

START = datetime(2026, 1, 5, tzinfo=UTC)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3, help="the best counts")
    asked = parser.parse_args()
    where = machine()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    config = configured()
    rows = []
    with TemporaryDirectory() as folder:
        for path in _files(Path(folder), asked.rows):
            count, seconds = _best(lambda path=path: _source(config, path), asked.repeats)
            read, arrow = _best(lambda path=path: _arrow(path), asked.repeats)
            plain, python = _best(lambda path=path: _python(path), 1)
            assert count == read, "both must see the same rows"
            assert plain in (0, count), "the plain reader too"
            rows.append(
                {
                    "format": path.name.removeprefix("bookings."),
                    "MB": path.stat().st_size / 1e6,
                    "rows/s": round(count / seconds),
                    "Arrow, nothing done": round(read / arrow),
                    "one object a row": round(plain / python) if plain else "–",
                }
            )
    publish(f"{count:,} bookings from each file, one core", rows, where, asked.json)


def _files(folder: Path, rows: int) -> list[Path]:
    world = World(7, 2_000_000)
    parts, at = [], START.replace(hour=9)
    while sum(len(part) for part in parts) < rows:
        parts.append(world.slice(at))
        at += SLICE
    table = pa.concat_tables(parts).slice(0, rows)
    lines = json_lines(table)
    pq.write_table(table, folder / "bookings.parquet")
    pa.csv.write_csv(table, folder / "bookings.csv")
    (folder / "bookings.jsonl").write_bytes(lines)
    (folder / "bookings.jsonl.gz").write_bytes(gzip.compress(lines, 6))
    (folder / "bookings.jsonl.zst").write_bytes(pa.compress(lines, "zstd", asbytes=True))
    names = ("parquet", "csv", "jsonl", "jsonl.gz", "jsonl.zst")
    return [folder / f"bookings.{name}" for name in names]


def _best(run: Callable[[], int], repeats: int) -> tuple[int, float]:
    """Rows, and processor seconds of the fastest run."""
    best, count = float("inf"), 0
    for _ in range(repeats):
        began = time.process_time()
        count = run()
        best = min(best, time.process_time() - began)
    return count, best


def _source(config: Config, path: Path) -> int:
    source = FileSource(config, Vocabulary(config.settings.schema), [str(path)], follow=False)
    return sum(len(batch.events) for batch in source.batches())


def _arrow(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_table(path, use_threads=False).num_rows)
    with pa.input_stream(str(path)) as stream:
        if path.suffix == ".csv":
            options = pa.csv.ReadOptions(use_threads=False)
            return int(pa.csv.read_csv(stream, options).num_rows)
        options = pa.json.ReadOptions(use_threads=False, block_size=1 << 23)
        return int(pa.json.read_json(stream, options).num_rows)


def _python(path: Path) -> int:
    """Read and group by attributes and outcome, as a first version would; Parquet has no lines."""
    counts: dict[tuple[object, ...], int] = {}
    if path.suffix == ".parquet":
        return 0
    opened = gzip.open if path.suffix == ".gz" else open
    if path.suffix == ".zst":
        return 0
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
        for row in rows:
            at = datetime.fromisoformat(row["time"])
            key = (at.hour, row["airline"], row["fare_source"], row["failed_step"] or None)
            counts[key] = counts.get(key, 0) + 1
    return sum(counts.values())


if __name__ == "__main__":
    main()
