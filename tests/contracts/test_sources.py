"""What every source promises, told of files in every format."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.config import Config, load
from monitor.domain import Batch, Events
from monitor.edge import blocks
from monitor.edge.files import FileSource
from monitor.edge.source import SourceAwayError, SourceError
from monitor.vocabulary import Vocabulary

CONFIG = """
[source]
paths = ["log*"]

[schema]
time = "at"
attributes = [{ name = "region" }, { name = "agent", tier = 1 }]
outcomes = [
  { name = "failed", when = "status >= 500" },
  { name = "slow", when = "coalesce(total, first) > 2.5" },
]
error_code = "code"
"""

START = datetime(2024, 3, 1, tzinfo=UTC)


def day(rows: int = 500) -> pa.Table:
    """A log with quoted, missing, accented and repeated values."""
    dice = np.random.default_rng(7)
    regions = ["north", 'the "deep" south', "a,b", "Łódź", None]
    return pa.table(
        {
            "at": pa.array(
                [START + timedelta(seconds=7 * i, microseconds=i) for i in range(rows)],
                pa.timestamp("us", "UTC"),
            ),
            "region": [regions[i] for i in dice.integers(0, 5, rows)],
            "agent": pa.array(dice.integers(0, 40, rows), pa.int16()),
            "status": pa.array(dice.choice([200, 404, 503], rows), pa.int32()),
            "first": pa.array(dice.random(rows) * 4),
            "total": pa.array([None if i % 3 else i % 5 for i in range(rows)], pa.float64()),
            "code": [f"E{i % 3}" if i % 9 == 0 else None for i in range(rows)],
            "unused": ["x"] * rows,
        }
    )


def as_csv(table: pa.Table, delimiter: str = ",") -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(table, out, pa.csv.WriteOptions(delimiter=delimiter))
    return out.getvalue()


def as_json_lines(table: pa.Table) -> bytes:
    rows = table.to_pylist()
    return "".join(
        json.dumps({k: v.isoformat() if k == "at" else v for k, v in row.items()}) + "\n"
        for row in rows
    ).encode()


def as_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=130)
    return out.getvalue()


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "log.parquet": as_parquet,
    "log.csv": as_csv,
    "log.tsv": lambda table: as_csv(table, "\t"),
    "log.txt": lambda table: as_csv(table, ";"),
    "log.jsonl": as_json_lines,
    "log": as_json_lines,
    "log.csv.gz": lambda table: gzip.compress(as_csv(table)),
    "log.jsonl.zst": lambda table: pa.compress(as_json_lines(table), "zstd", asbytes=True),
    "log.jsonl.bz2": lambda table: bz2.compress(as_json_lines(table)),
}

PRISTINE = {name: write(day(80)) for name, write in FORMATS.items()}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "monitor.toml").write_text(CONFIG)
    return load(tmp_path / "monitor.toml", {})


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("monitor.edge.parquet.BATCH_ROWS", 64)


def told(
    batches: Iterator[Batch] | list[Batch], vocabulary: Vocabulary
) -> list[tuple[object, ...]]:
    """Events in words: independent of codes and of how they were cut into batches."""
    rows: list[tuple[object, ...]] = []
    for batch in batches:
        events = batch.events
        for at, values, failed in zip(events.at, events.values, events.failed, strict=True):
            words = [vocabulary.text(i, code) for i, code in enumerate(values.tolist())]
            rows.append((str(at), *words, *failed.tolist()))
    return rows


def expected(table: pa.Table) -> list[tuple[object, ...]]:
    """What the rows mean, by plain Python."""
    rows = []
    for row in table.to_pylist():
        duration = row["first"] if row["total"] is None else row["total"]
        words = [
            "(missing)" if row[k] is None else str(row[k]) for k in ("region", "agent", "code")
        ]
        at = row["at"].replace(tzinfo=None).isoformat(timespec="microseconds")
        rows.append((at, *words, row["status"] >= 500, duration > 2.5))
    return rows


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_means_the_same_in_every_format(name: str, config: Config, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](day()))
    vocabulary = Vocabulary(config.settings.schema)
    batches = list(FileSource(config, vocabulary, follow=False).batches())
    assert told(batches, vocabulary) == expected(day())
    assert not any(batch.rejected for batch in batches)


def by_file(batches: list[Batch], vocabulary: Vocabulary) -> dict[str, list[tuple[object, ...]]]:
    """File → its rows, in their order."""
    filled = [batch for batch in batches if len(batch.events)]
    return {
        place: told([batch for batch in filled if batch.place == place], vocabulary)
        for place in {batch.place for batch in filled}
    }


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", FORMATS)
def test_reading_again_from_any_position_gives_exactly_what_follows(
    name: str, config: Config, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](day()))
    (tmp_path / "log2.jsonl").write_bytes(as_json_lines(day(60)))
    vocabulary = Vocabulary(config.settings.schema)
    batches = list(FileSource(config, vocabulary, follow=False).batches())
    assert len(batches) > 4
    for i, batch in enumerate(batches):
        position = json.loads(json.dumps(batch.position))
        rest = list(FileSource(config, vocabulary, follow=False).batches(position))
        # Blocks are cut elsewhere then, so rows of one time but of two files may change places.
        assert by_file(rest, vocabulary) == by_file(batches[i + 1 :], vocabulary)


@pytest.mark.parametrize("name", FORMATS)
def test_standard_input_is_a_source_like_any_file(name: str, config: Config) -> None:
    vocabulary = Vocabulary(config.settings.schema)
    pipe = io.BytesIO(FORMATS[name](day()))
    source = FileSource(config, vocabulary, ["-"], follow=True, stdin=pipe)
    assert told(source.batches(), vocabulary) == expected(day())
    assert list(source.batches()) == []


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_a_growing_file_is_followed_line_by_line(name: str, config: Config, tmp_path: Path) -> None:
    data = FORMATS[name](day())
    path = tmp_path / name
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    seen: list[tuple[object, ...]] = []
    position = None
    for cut in (0, 3, 700, 701, 10_000, len(data) - 1, len(data)):
        path.write_bytes(data[:cut])  # the last line is torn almost every time
        for batch in source.batches(position):
            seen += told([batch], vocabulary)
            position = batch.position
            assert batch.rejected == ()
    assert seen == expected(day())


def test_new_files_are_found_and_old_ones_left_alone(config: Config, tmp_path: Path) -> None:
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    with pytest.raises(SourceAwayError, match="log\\* matches no file"):
        list(source.batches())
    (tmp_path / "log.1.parquet").write_bytes(as_parquet(day(100)))
    first = list(source.batches())
    (tmp_path / "log.2.csv").write_bytes(as_csv(day(50)))
    second = list(source.batches(first[-1].position))
    assert [len(batch.events) for batch in first + second] == [100, 50]
    assert list(source.batches(second[-1].position)) == []


def test_a_rotated_log_is_not_read_twice(config: Config, tmp_path: Path) -> None:
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    lines = as_json_lines(day(90)).splitlines(keepends=True)
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines[:50]))
    before = list(source.batches())
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.writelines(lines[50:60])
    (tmp_path / "log.jsonl").rename(tmp_path / "log.jsonl.1")
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines[60:]))
    after = list(source.batches(before[-1].position))
    rows = told(before + after, vocabulary)
    assert sorted(map(str, rows)) == sorted(map(str, expected(day(90))))
    (tmp_path / "log.jsonl.2.gz").write_bytes(
        gzip.compress((tmp_path / "log.jsonl.1").read_bytes())
    )
    (tmp_path / "log.jsonl.1").unlink()
    assert told(source.batches(after[-1].position), vocabulary) == []


def test_a_log_that_was_emptied_starts_again(config: Config, tmp_path: Path) -> None:
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    path = tmp_path / "log.jsonl"
    lines = as_json_lines(day(90)).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:50]))
    first = list(source.batches())
    path.write_bytes(b"".join(lines[50:]))
    rows = told(first + list(source.batches(first[-1].position)), vocabulary)
    assert rows == expected(day(90))


def test_rows_whose_transaction_failed_are_read_again(config: Config, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(as_csv(day(50)))
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    lost = told(source.batches(None), vocabulary)
    assert told(source.batches(None), vocabulary) == lost == expected(day(50))


def test_events_have_the_shape_the_core_expects(config: Config, tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(as_parquet(day(131)))
    (batch,) = FileSource(config, Vocabulary(config.settings.schema), follow=False).batches()
    events: Events = batch.events
    assert events.at.dtype == np.dtype("datetime64[us]")
    assert events.values.dtype == np.int32
    assert events.values.shape == (131, 3)
    assert events.failed.dtype == bool
    assert events.failed.shape == (131, 2)


@pytest.mark.parametrize("name", ["log.jsonl", "log.parquet"])
def test_fields_within_fields_are_named_by_dots(name: str, config: Config, tmp_path: Path) -> None:
    text = CONFIG.replace(
        '{ name = "region" }', '{ name = "region", column = "client.geo.region" }'
    )
    text = text.replace("status >= 500", "http.status >= 500")
    (tmp_path / "monitor.toml").write_text(text)
    config = load(tmp_path / "monitor.toml", {})
    rows = day(30).to_pylist()
    for i, row in enumerate(rows):
        row["client"] = None if i == 7 else {"geo": {"region": row.pop("region"), "more": i}}
        row["http"] = {"status": row.pop("status")}
    (tmp_path / name).write_bytes(FORMATS[name](pa.Table.from_pylist(rows)))
    vocabulary = Vocabulary(config.settings.schema)
    seen = told(FileSource(config, vocabulary, follow=False).batches(), vocabulary)
    wanted = expected(day(30))
    wanted[7] = (wanted[7][0], "(missing)", *wanted[7][2:])
    assert seen == wanted


def test_many_files_are_not_held_open_together(config: Config, tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"log{i:02}.parquet").write_bytes(as_parquet(day(3)))
        (tmp_path / f"log{i:02}.jsonl").write_bytes(as_json_lines(day(3)))
    held = len(os.listdir("/proc/self/fd"))
    most = held
    for _ in FileSource(config, Vocabulary(config.settings.schema), follow=False).batches():
        most = max(most, len(os.listdir("/proc/self/fd")))
    assert most - held < 10


def test_positions_do_not_grow_for_ever(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.files.MAX_VANISHED", 2)
    source = FileSource(config, Vocabulary(config.settings.schema))
    position = None
    for i in range(6):
        (tmp_path / f"log{i}.parquet").write_bytes(as_parquet(day(3)))
        (batch,) = source.batches(position)
        position = json.loads(json.dumps(batch.position))
        (tmp_path / f"log{i}.parquet").unlink()
    names = [Path(path).name for path in position["files"]]
    assert names == ["log3.parquet", "log4.parquet", "log5.parquet"]


def test_a_stray_quotation_mark_does_not_hold_back_a_growing_log(
    config: Config, tmp_path: Path
) -> None:
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    header, *lines = as_csv(day(20)).splitlines(keepends=True)
    stray = lines[0].replace(lines[0].split(b",")[1], b'"never closed', 1)
    (tmp_path / "log.csv").write_bytes(b"".join([header, stray, *lines[1:]]))
    (batch,) = source.batches()
    assert told([batch], vocabulary) == expected(day(20))[1:]
    assert [rejected.reason for rejected in batch.rejected] == ["bad_row"]


def test_a_block_of_nothing_but_stray_marks(config: Config, tmp_path: Path) -> None:
    header = as_csv(day(1)).splitlines(keepends=True)[0]
    (tmp_path / "log.csv").write_bytes(header + b'"a,b\n"c,d\n')
    source = FileSource(config, Vocabulary(config.settings.schema), follow=False)
    batches = list(source.batches())
    assert sum(len(batch.events) for batch in batches) == 0
    assert [r.reason for batch in batches for r in batch.rejected] == ["bad_row", "bad_row"]


def test_a_field_on_two_lines_is_not_torn_between_two_passes(
    config: Config, tmp_path: Path
) -> None:
    table = day(20).set_column(1, "region", pa.array(["first\nsecond"] * 20))
    shown = table.set_column(1, "region", pa.array([r"first\nsecond"] * 20))
    data = as_csv(table)
    vocabulary = Vocabulary(config.settings.schema)
    source = FileSource(config, vocabulary)
    (tmp_path / "log.csv").write_bytes(data[: data.rfind(b"second")])
    first = list(source.batches())
    (tmp_path / "log.csv").write_bytes(data)
    rest = list(source.batches(first[-1].position))
    assert told(first + rest, vocabulary) == expected(shown)
    assert not any(batch.rejected for batch in first + rest)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(FORMATS)), data=st.data())
def test_damage_is_told_and_positions_stay_exact(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever happens to the bytes, a source ends by itself and can be asked again."""
    content = bytearray(PRISTINE[name])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(content)))
        removed = data.draw(st.integers(0, 40))
        content[at : at + removed] = data.draw(
            st.sampled_from([b"", b'"', b"\n", b"\xff", b",", b"{", b"\r\n", b"\x00", b'""'])
        )
    folder = tmp_path_factory.mktemp("damaged")
    loose = CONFIG.replace('paths = ["log*"]', 'paths = ["log*"]\nmax_rejected_ratio = 1.0')
    (folder / "monitor.toml").write_text(loose)
    (folder / name).write_bytes(content)
    config = load(folder / "monitor.toml", {})
    vocabulary = Vocabulary(config.settings.schema)
    batches: list[Batch] = []
    refused = False
    try:
        batches += FileSource(config, vocabulary, follow=False).batches()
    except SourceError:  # the header, or the zone, was hit
        refused = True
    for i, batch in enumerate(batches if not refused else []):
        position = json.loads(json.dumps(batch.position))
        rest = list(FileSource(config, vocabulary, follow=False).batches(position))
        assert told(rest, vocabulary) == told(batches[i + 1 :], vocabulary)
    kept = sum(len(batch.events) for batch in batches)
    assert kept + sum(one.count for batch in batches for one in batch.rejected) > 0 or refused
