"""The configuration is read anew by a running daemon: all of it or nothing, and it is told."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.daemons import COMMAND, Daemon, Logs, launching

BEARER = {"Authorization": "Bearer s3cret"}
WORKED = "config_last_reload_successful"
ANOTHER = "the schema is not the one the store was written under"
WHEN = "config_last_reload_success_timestamp_seconds"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "token").write_text("s3cret")
    logs = Logs(tmp_path, slices=40, rows_per_day=2_000)
    logs.appear(30)
    with launching(lambda: Daemon(logs, "live", more=f'token_file = "{tmp_path}/token"')) as launch:
        started = launch()
        started.until_ready()
        started.logs = logs
        yield started


def rewrite(daemon: Daemon, change: Callable[[str], str]) -> None:
    daemon.path.write_text(change(daemon.path.read_text()))


def reload(daemon: Daemon, **how: Any) -> Any:
    import httpx2

    how = {"headers": BEARER, "timeout": 60} | how
    return httpx2.post(f"http://127.0.0.1:{daemon.port}/-/reload", **how)


def command(daemon: Daemon) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "reload", "-c", str(daemon.path)], capture_output=True, text=True, timeout=90
    )


def test_a_reload_goes_on_from_the_store_under_the_new_configuration(daemon: Daemon) -> None:
    began = daemon.metric(WHEN)
    assert daemon.metric(WORKED) == 1
    more = '\n[[maintenance]]\nat = "00:00"\nlength = "24h"\nnote = "moving"\n'
    rewrite(daemon, lambda text: text + more)
    assert reload(daemon, headers={}).status_code == 401
    answer = reload(daemon)
    assert (answer.status_code, answer.json()) == (200, {"reloaded": True})
    daemon.until_ready()
    assert daemon.metric(WORKED) == 1
    assert daemon.metric(WHEN) > began
    shown = daemon.get("/api/v1/silences")
    assert shown is not None
    assert shown.json()["maintenance"][0]["note"] == "moving"
    daemon.logs.appear(36)
    daemon.until_ticked(34)
    done = command(daemon)
    assert (done.returncode, done.stdout) == (0, "reloaded\n"), done.stderr
    daemon.stop()
    rows, _ = daemon.logs.held(daemon.config)
    assert rows == daemon.logs.undisturbed()[0], "no row is lost or counted twice"


def test_sighup_reloads_and_a_bad_file_leaves_the_old_one_running(daemon: Daemon) -> None:
    good = daemon.path.read_text()
    rewrite(daemon, lambda text: text.replace("[window]", "[windows]"))
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until("refused", lambda: daemon.metric(WORKED) == 0)
    (line,) = daemon.told("the configuration is not reloaded; the one that runs stays, whole")
    assert any("[window" in problem or "windows" in problem for problem in line["problems"])
    answer = reload(daemon)
    assert (answer.status_code, "windows" in answer.json()["detail"]) == (422, True)
    assert command(daemon).returncode == 78
    assert daemon.ready() == "ready"
    daemon.path.write_text(good)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until("reloaded", lambda: daemon.metric(WORKED) == 1)
    daemon.logs.appear(36)
    daemon.until_ticked(34)
    daemon.stop()


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("store.db", "other.db", "[store] url"),
        ('lease = "15s"', 'lease = "20s"', "[store] lease"),
        ("token_file", 'host = "127.0.0.2"\ntoken_file', "[http] host"),
        ("[http]", '[http]\npublic_url = "http://x.example"', "[http] public_url"),
    ],
)
def test_what_needs_a_restart_is_refused_by_name(
    daemon: Daemon, old: str, new: str, key: str
) -> None:
    rewrite(daemon, lambda text: text.replace(old, new) + "\n[console]\nexample_columns = []\n")
    answer = reload(daemon)
    assert answer.status_code == 422
    assert f"{key} has changed, which needs a restart" in answer.json()["detail"]
    assert daemon.ready() == "ready"


def test_a_store_of_other_slices_leaves_the_old_one_running(daemon: Daemon) -> None:
    good = daemon.path.read_text()
    rewrite(daemon, lambda text: text.replace("[window]", '[window]\nslice_length = "15m"'))
    answer = reload(daemon)
    assert (answer.status_code, answer.json()["type"][-13:]) == (422, "configuration")
    assert "slice" in answer.json()["detail"]
    daemon.path.write_text(good)
    daemon.until_ready()
    daemon.logs.appear(36)
    daemon.until_ticked(34)
    daemon.stop()


def test_another_schema_is_taken_with_the_history_that_means_the_same(daemon: Daemon) -> None:
    rewrite(daemon, lambda text: text.replace('length = "12h"', 'length = "11h"'))
    assert reload(daemon).status_code == 200
    assert any("window.length" in line["change"] for line in daemon.told(ANOTHER))
    daemon.until_ready()
    daemon.logs.appear(36)
    daemon.until_ticked(34)
    daemon.stop()
