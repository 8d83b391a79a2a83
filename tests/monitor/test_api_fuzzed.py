"""The interface against what Schemathesis makes of its own description.

The real application over a real store. Every operation is called with what the description
allows, and with what it forbids; answers must be as described, never a 5xx, and nothing forbidden
may pass. The run is the same every time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.domain import Incident, Rejected, State
from monitor.edge.http import serve
from monitor.edge.http.openapi import document
from monitor.edge.metrics import Metrics
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Work, open_store
from tests.samples import finding, tick

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
EXAMPLES = int(os.environ.get("FUZZED_REQUESTS", "10"))
"""An operation; `make soak` asks for more."""


def state(folder: Path) -> LiveState:
    found = finding()
    usual = Incident("a1b2", State.OPEN, NOON, NOON, NOON, found, found, causes=(found.cause,))
    store = open_store(f"sqlite:///{folder / 'monitor.db'}")
    others = tuple(
        replace(usual, id=f"n{i}", opened_at=NOON - timedelta(hours=i)) for i in range(9)
    )
    rejected = Rejected("bad_time", "x:1", "no zone", 2, b"\xff")
    store.commit(Work(incidents=(usual, *others), rejected=(rejected,)))
    store.add_silence(Silence.of(["airline=AC"], NOON + timedelta(days=1), NOON, "maria"))
    return LiveState(store, Metrics(), Status(stage="", started_at=NOON, diagnosis=tick(found)))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    live = state(tmp_path)
    server = serve(live, token="s3cret")
    yield server.url
    server.stop()
    live.store.close()


def test_every_operation_keeps_its_promise(address: str, tmp_path: Path) -> None:
    """Also that every change is refused without the token, and with a wrong one."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
            *("run", str(DESCRIPTION), "--url", address),
            *("--header", "Authorization: Bearer s3cret"),
            *("--max-examples", str(EXAMPLES), "--workers", "1", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    operations = sum(len(item) for item in document()["paths"].values())
    assert f"Tested: {operations}" in done.stdout
    generated = re.search(r"([0-9,]+) generated", done.stdout)
    assert generated is not None
    assert int(generated[1].replace(",", "")) > 20 * operations
