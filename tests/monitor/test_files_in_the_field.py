"""Files as they are found in the field: read whole, whatever their order and form, or told of."""

from __future__ import annotations

import errno
import gzip
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from monitor.config import Config, load
from monitor.domain import Batch, Rejected
from monitor.edge.files import FileSource
from monitor.edge.source import SourceAwayError, SourceError
from monitor.vocabulary import Vocabulary

FIELD = Path(__file__).parent / "field"


class Read:
    """What passes over files have given."""

    def __init__(self, config: Config, follow: bool = True) -> None:
        self.source = FileSource(config, Vocabulary(config.settings.schema), follow=follow)
        self.batches: list[Batch] = []

    def look(self) -> Read:
        position = self.batches[-1].position if self.batches else None
        for batch in self.source.batches(position):
            self.batches.append(batch)
        return self

    @property
    def rows(self) -> int:
        return sum(len(batch.events) for batch in self.batches)

    @property
    def failed(self) -> int:
        return sum(int(batch.events.failed.sum()) for batch in self.batches)

    @property
    def rejected(self) -> list[Rejected]:
        return [one for batch in self.batches for one in batch.rejected]


def field(kind: str, name: str) -> Read:
    return Read(load(FIELD / kind / name, {})).look()


def config(folder: Path, source: str = 'paths = ["log*"]', **more: Any) -> Config:
    columns = {"time": "at", "attribute": "region", "unit": 'unit = "s"'} | more
    (folder / "monitor.toml").write_text(
        f"""[source]
        {source}
        [schema]
        time = "{columns["time"]}"
        {columns["unit"]}
        attributes = ["{columns["attribute"]}"]
        outcomes = [{{ name = "failed", when = "status >= 500" }}]
        """
    )
    return load(folder / "monitor.toml", {})


def row(at: int) -> str:
    return json.dumps({"at": 1_772_409_600 + at, "region": "eu", "status": 200}) + "\n"


def rows(first: int, end: int) -> str:
    return "".join(row(at) for at in range(first, end))


# rotated-files-lost


def test_rotated_files_lost() -> None:
    read = field("rotated-files-lost", "monitor.toml")
    firsts = [batch.events.at.min() for batch in read.batches if len(batch.events)]
    assert read.rows == 12_000
    assert firsts == sorted(firsts)
    # No slice closes before all files have passed it.
    behind = [batch.reached for batch in read.batches if batch.reached is not None]
    assert behind == sorted(behind)
    for batch, later in zip(read.batches, firsts[1:], strict=False):
        assert batch.reached is not None
        assert batch.reached <= later
    assert behind[-1] == max(batch.events.at.max() for batch in read.batches)


def test_hosts_side_by_side_are_held_back_to_the_slowest(tmp_path: Path) -> None:
    (tmp_path / "log-a.jsonl").write_text(rows(0, 5000))
    (tmp_path / "log-b.jsonl").write_text(rows(2500, 7500))
    read = Read(config(tmp_path)).look()
    assert read.rows == 10_000
    assert read.batches[0].reached is not None
    assert read.batches[0].reached <= np.datetime64(
        datetime.fromtimestamp(1_772_412_100, UTC).replace(tzinfo=None), "us"
    )


# once-silent-unreadable


@pytest.mark.parametrize("name", ["utf16", "array", "mac"])
def test_once_silent_unreadable(name: str) -> None:
    read = field("once-silent-unreadable", f"{name}.toml")
    assert (read.rows, read.rejected) == (600, [])


def test_a_torn_archive_is_read_as_far_as_it_goes() -> None:
    read = field("once-silent-unreadable", "torn.toml")
    assert read.rows > 0
    assert [one.reason for one in read.rejected] == ["truncated"]


def test_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes("at,region,status\n1772409600,Köln,200\n".encode("cp1252"))
    read = Read(config(tmp_path, 'paths = ["log*"]\nencoding = "cp1252"')).look()
    assert (read.rows, read.rejected) == (1, [])
    assert read.source.decoder.vocabulary.text(0, 1) == "Köln"


def test_a_pretty_printed_array(tmp_path: Path) -> None:
    text = json.dumps([json.loads(row(at)) for at in range(50)], indent=2)
    (tmp_path / "log.json").write_text(text)
    assert Read(config(tmp_path)).look().rows == 50


# csv-field-over-lines


@pytest.mark.parametrize("name", ["trace", "tickets", "payload"])
def test_csv_field_over_lines(name: str) -> None:
    read = field("csv-field-over-lines", f"{name}.toml")
    assert (read.rows, read.failed, read.rejected) == (600, 33, [])


# parquet-duplicate-columns


def test_parquet_duplicate_columns() -> None:
    read = field("parquet-duplicate-columns", "monitor.toml")
    (told,) = read.rejected
    assert (told.reason, told.detail) == (
        "duplicate_column",
        "column `status` is there twice; rename one",
    )
    with pytest.raises(SourceError, match="column `status` is there twice; rename one"):
        Read(load(FIELD / "parquet-duplicate-columns" / "monitor.toml", {}), follow=False).look()


# w3c-preamble


@pytest.mark.parametrize("name", ["cloudfront", "iis", "excel"])
def test_w3c_preamble(name: str) -> None:
    read = field("w3c-preamble", f"{name}.toml")
    assert read.rows == 600
    assert read.rejected == []


@pytest.mark.parametrize("format", ["combined", "common", "auto"])
def test_logs_of_web_servers(format: str, tmp_path: Path) -> None:
    line = '10.0.0.1 - - [02/Mar/2026:01:00:00 +0100] "GET /a?b HTTP/1.1" 503 12 "-" "curl/8"\n'
    bad = '10.0.0.1 - - [99/Mar/2026:01:00:00 +0100] "-" 400 0 "-" "-"\n'
    (tmp_path / "log.log").write_text(line * 3 + bad + "nonsense\n")
    source = f'paths = ["log*"]\nformat = "{format}"\nmax_rejected_ratio = 1'
    read = Read(config(tmp_path, source, time="time", attribute="path", unit="")).look()
    assert (read.rows, read.failed) == (3, 3)
    assert str(read.batches[0].events.at[0]) == "2026-03-02T00:00:00.000000"
    assert [one.reason for one in read.rejected] == ["no_match", "bad_time"]


def test_a_pattern_of_ones_own_cannot_hang(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("1772409600 eu 503\n" + "1" * 60_000 + "!\n")
    pattern = r"(?P<at>(?:\\d+)+) (?P<region>\\w+) (?P<status>\\d+)"
    source = f'paths = ["log*"]\npattern = "{pattern}"'
    read = Read(config(tmp_path, source)).look()
    assert (read.rows, read.failed) == (1, 1)
    assert [one.reason for one in read.rejected] == ["no_match"]


# daemon: transient error, wide header, one bad thing, rotation out of sight


def test_a_file_that_cannot_be_opened_now_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log-0.jsonl").write_text(rows(0, 10))
    read = Read(config(tmp_path)).look()
    (tmp_path / "log-1.jsonl").write_text(rows(10, 20))

    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", none_left)
        with pytest.raises(SourceAwayError, match=r"log-1.jsonl: cannot be read now: .*Too many"):
            read.look()
    assert read.look().rows == 20


def test_a_wide_header_does_not_make_the_next_file_the_last_one(tmp_path: Path) -> None:
    header = "at,region,status," + ",".join(f"padding_{i:04}" for i in range(200)) + "\n"

    def hour(first: int, end: int) -> str:
        return header + "".join(
            f"{1_772_409_600 + at},eu,200{',0' * 200}\n" for at in range(first, end)
        )

    (tmp_path / "log-00.csv").write_text(hour(0, 50))
    read = Read(config(tmp_path)).look()
    (tmp_path / "log-00.csv").unlink()
    (tmp_path / "log-01.csv").write_text(hour(50, 150))
    assert read.look().rows == 150


def test_a_first_line_that_begins_like_an_array(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("[INFO] service started\n" + rows(0, 100))
    read = Read(config(tmp_path)).look()
    assert read.rows == 100
    assert [one.reason for one in read.rejected] == ["not_json"]


def test_what_stands_behind_a_line_that_is_too_long_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.blocks.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr("monitor.edge.blocks.MAX_RECORD_BYTES", 1 << 12)
    log = tmp_path / "log.jsonl"
    log.write_text(rows(0, 10) + '{"x":"' + "y" * 20_000)
    read = Read(config(tmp_path)).look()
    with log.open("a") as file:
        file.write('"}\n' + rows(10, 30))
    assert read.look().rows == 30
    assert [one.reason for one in read.rejected] == ["too_long"]


def test_the_end_of_a_log_renamed_out_of_the_paths_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows(0, 10))
    read = Read(config(tmp_path, 'paths = ["log.jsonl"]')).look()
    with log.open("a") as file:
        file.write(rows(10, 20))
    log.rename(tmp_path / "old.1")
    log.write_text(rows(20, 30))
    assert (read.look().rows, read.rejected) == (30, [])


def test_an_end_that_is_lost_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows(0, 10))
    read = Read(config(tmp_path)).look()
    log.write_text(rows(20, 30))
    assert read.look().rows == 20
    assert [one.reason for one in read.rejected] == ["replaced"]


# copytruncate: the log is copied, then emptied


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("paths", ['paths = ["log*"]', 'paths = ["log.jsonl"]'])
def test_a_log_that_is_copied_and_emptied_is_read_once(
    paths: str, packed: bool, tmp_path: Path
) -> None:
    log, copy = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1"
    log.write_text(rows(0, 100))
    read = Read(config(tmp_path, paths)).look()
    for end in (200, 300):
        with log.open("a") as file:
            file.write(rows(end - 100, end - 50))
        copy.write_bytes(log.read_bytes())
        if packed:
            (tmp_path / f"log.jsonl.{end}.gz").write_bytes(gzip.compress(copy.read_bytes()))
            copy.unlink()
        log.write_text(rows(end - 50, end))
        read = read.look()
    assert (read.rows, read.rejected) == (300, [])


def test_a_look_between_copying_and_emptying_reads_nothing_twice(tmp_path: Path) -> None:
    log, copy = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1"
    log.write_text(rows(0, 100))
    read = Read(config(tmp_path)).look()
    with log.open("a") as file:
        file.write(rows(100, 150))
    for share in (2, 1):  # half of it is copied at the first look
        copy.write_bytes(log.read_bytes()[: log.stat().st_size // share])
        assert read.look().rows == 150
    with log.open("a") as file:
        file.write(rows(150, 160))  # not in the copy, but read in time
    assert read.look().rows == 160
    log.write_text(rows(160, 170))
    assert read.look().rows == 170
    log.write_text(rows(160, 180))
    copy.rename(tmp_path / "log.jsonl.2")
    assert read.look().rows == 180
    assert [one.reason for one in read.rejected] == ["replaced"], "something may have been lost"


def test_a_log_whose_first_lines_are_cut_off_is_read_on(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows(0, 100))
    read = Read(config(tmp_path)).look()
    for first, end in ((50, 110), (80, 200)):  # tail -n … log > new; mv new log
        (tmp_path / "new").write_text(rows(first, end))
        (tmp_path / "new").rename(log)
        assert read.look().rows == end
    with log.open("a") as file:
        file.write(rows(200, 210))
    assert (read.look().rows, read.rejected) == (210, [])
    log.write_text(rows(300, 310))
    assert read.look().rows == 220
    assert [one.reason for one in read.rejected] == ["replaced"]


def test_a_copy_that_somebody_made_and_writes_on_is_read_from_there(tmp_path: Path) -> None:
    log, copy = tmp_path / "log.jsonl", tmp_path / "log-2.jsonl"
    log.write_text(rows(0, 100))
    read = Read(config(tmp_path)).look()
    copy.write_bytes(log.read_bytes())
    with capture_logs() as told:
        assert read.look().rows == read.look().rows == 100
    assert [entry["path"] for entry in told] == [str(copy)]
    with copy.open("a") as file:
        file.write(rows(100, 130))
    assert read.look().rows == 130
    assert read.rejected == []


def test_links_within_the_paths_are_not_read_twice(tmp_path: Path) -> None:
    log = tmp_path / "log-2026-03-02.jsonl"
    log.write_text(rows(0, 100))
    (tmp_path / "log-1-hard.jsonl").hardlink_to(log)
    (tmp_path / "log-current.jsonl").symlink_to(log.name)
    read = Read(config(tmp_path))
    with capture_logs() as told:
        assert read.look().rows == read.look().rows == 100
    assert {entry["path"] for entry in told} == {str(log), str(tmp_path / "log-current.jsonl")}
    # Alone it is followed to wherever it leads.
    (tmp_path / "monitor").mkdir()
    alone = Read(config(tmp_path / "monitor", 'paths = ["../log-current.jsonl"]')).look()
    log.with_name("log-2026-03-03.jsonl").write_text(rows(100, 250))
    (tmp_path / "log-current.jsonl").unlink()
    (tmp_path / "log-current.jsonl").symlink_to("log-2026-03-03.jsonl")
    assert alone.look().rows == 250
    assert alone.rejected == []


def test_a_tar_archive_is_told_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(rows(0, 100))
    with tarfile.open(tmp_path / "log.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x.jsonl", "x.jsonl")
    (told,) = Read(config(tmp_path)).look().rejected
    assert (told.reason, told.detail) == ("wrong_format", "is a TAR archive; unpack it")
