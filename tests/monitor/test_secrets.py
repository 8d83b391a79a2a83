"""What must not be told: secrets in logs, columns that nobody asked for, a store open to all."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from monitor.edge.readers import Rejects
from monitor.edge.store import Work, open_store
from monitor.edge.store.sql import SqlStore
from monitor.edge.store.upkeep import backup
from tests.monitor.test_pipeline import Desk

BUG = """
import structlog
from monitor.commands.run import _configure_logs
_configure_logs({form!r})
def ask(token):
    raise ZeroDivisionError("a bug")
try:
    ask("s3cret" + "token")
except ZeroDivisionError:
    structlog.get_logger().exception("a request met a bug")
"""


@pytest.mark.parametrize("form", ["human", "json"])
def test_a_traceback_shows_no_variables_no_colours_and_is_in_both_logs(form: str) -> None:
    code = BUG.format(form=form)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    said = done.stdout + done.stderr
    assert "Traceback" in said
    assert "ZeroDivisionError: a bug" in said
    assert "\x1b" not in said  # a pipe
    assert "s3crettoken" not in said
    if form == "json":
        (line,) = done.stdout.splitlines()
        assert "ZeroDivisionError" in json.loads(line)["exception"]


def test_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.touch(0o644)
    (tmp_path / "s.db-wal").touch(0o644)
    (tmp_path / "s.db-wal").unlink()
    store = open_store(f"sqlite:///{path}")
    assert isinstance(store, SqlStore)
    store.take_lease()
    store.commit(Work())
    backup(store._database, tmp_path / "copy.db")
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert {"s.db", "s.db-wal", "copy.db"} <= files.keys()
    assert set(files.values()) == {0o600}
    store.close()


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b'{"at": "2024', b'{"at": "2024'),
        (
            b'{"at": 1, "mail": "ann@x.org", "failed": }',
            b'{"at": 1, "mail": "xxx@x.xxx", "failed": }',
        ),
        (b'{"at": 1, "card": 4711', b'{"at": 1, "card": 9999'),
        (b"user ann card 4711", b"xxxx xxx xxxx 9999"),
        (b'{"a": {"failed": 1, "iban": "DE12"', b'{"a": {"failed": 1, "iban": "xx99"'),
        (b'["DE12", "at", "ann"]', b'["xx99", "xx", "xxx"]'),
        (b'{"mail": "Zo\xc3\xab', b'{"mail": "xxxx'),
    ],
)
def test_of_columns_that_nobody_reads_a_rejected_record_keeps_no_value(
    line: bytes, kept: bytes
) -> None:
    rejects = Rejects(["at", "a.failed"])
    rejects.add("not_json", "x:1", "no JSON", line)
    assert rejects.listed()[0].raw == kept


def test_nor_does_the_store(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write(0)
    with (tmp_path / "log-a.jsonl").open("a") as log:
        log.write('{"at": "2026-03-01", "mail": "ann@example.org", "failed": \n')
    desk.poll()
    (record,) = desk.store.rejected_records()
    assert b"2026-03-01" in record.raw
    assert b"ann" not in record.raw
