"""The commands on stored incidents ask the daemon that runs, and else its store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from monitor.cli import app
from tests.services.daemons import Daemon, Logs, launching

pytestmark = [pytest.mark.service, pytest.mark.slow]


def least_monitor(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("asked")
    (folder / "token").write_text("s3cret\n")
    logs = Logs(folder, slices=44, more=f'token_file = "{folder / "token"}"\n')
    logs.appear(logs.slices)
    with launching(Daemon) as launch:
        running = launch(logs, "asked.toml")
        running.until_ready()
        running.until_ticked(logs.slices - 2)
        yield running


def test_the_daemon_answers_while_it_is_up(daemon: Daemon) -> None:
    config = str(daemon.path)
    listed = least_monitor("incidents", "-c", config)
    assert listed.exit_code == 0, listed.output
    assert f"from the daemon at http://127.0.0.1:{daemon.port}" in listed.stderr
    assert "reserve" in listed.stdout
    # The same words as from the store.
    stored = least_monitor("incidents", "--store", daemon.config.store.url, "--json")
    asked = least_monitor("incidents", "-c", config, "--all-methods", "--json")
    assert json.loads(asked.stdout) == json.loads(stored.stdout)
    name = json.loads(stored.stdout)["incidents"][0]["id"]
    told = least_monitor("explain", name[:8], "-c", config)
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0].startswith("reserve fails: ")
    graph = least_monitor("graph", "-c", config, "--json")
    assert set(json.loads(graph.stdout)) == {"at", "nodes", "delta", "fit_status", "edges"}
    missing = least_monitor("explain", "zz", "-c", config)
    assert (missing.exit_code, "no incident 'zz'" in missing.stderr) == (1, True)


def test_a_daemon_is_named_by_its_address(daemon: Daemon) -> None:
    where = f"http://127.0.0.1:{daemon.port}"
    listed = least_monitor("incidents", "--api", where, "--json")
    assert json.loads(listed.stdout)["incidents"]
    away = least_monitor("incidents", "--api", "http://127.0.0.1:1")
    assert away.exit_code == 1
    assert "no daemon answers at http://127.0.0.1:1" in away.stderr
    both = least_monitor("incidents", "--api", where, "--store", "sqlite:///x")
    assert both.exit_code == 2


def test_a_silence_is_made_through_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    config, where = str(daemon.path), f"http://127.0.0.1:{daemon.port}"
    made = least_monitor("silence", "add", "airline=AC", "--for", "2h", "-c", config, "--json")
    assert made.exit_code == 0, made.output
    name = json.loads(made.stdout)["id"]
    listed = least_monitor("silence", "list", "--api", where, "--json")
    assert [s["id"] for s in json.loads(listed.stdout)["silences"]] == [name]
    # Without the token: told what to do, nothing done.
    refused = least_monitor("silence", "expire", name, "--api", where)
    assert refused.exit_code == 1
    assert "changes nothing without its token: give --token-file FILE" in refused.stderr
    (tmp_path / "wrong").write_text("guess")
    wrong = ("--token-file", str(tmp_path / "wrong"))
    refused = least_monitor("silence", "expire", name, "--api", where, *wrong)
    assert refused.exit_code == 1
    assert "refuses: send Authorization: Bearer TOKEN" in refused.stderr
    right = ("--token-file", str(daemon.path.parent.parent / "token"))
    ended = least_monitor("silence", "expire", name, "--api", where, *right)
    assert ended.exit_code == 0, ended.output
    assert f"silence {name} has ended" in ended.stdout


def test_an_incident_is_judged_through_the_daemon(daemon: Daemon) -> None:
    config = str(daemon.path)
    listed = least_monitor("incidents", "-c", config, "--json")
    name = json.loads(listed.stdout)["incidents"][0]["id"]
    judged = least_monitor("label", name[:8], "expected", "--by", "maria", "-c", config)
    assert (judged.exit_code, judged.stdout) == (0, f"{name} is judged expected by maria\n")
    assert f"from the daemon at http://127.0.0.1:{daemon.port}" in judged.stderr
    told = least_monitor("explain", name[:8], "-c", config)
    assert "expected" in told.stdout
    assert "maria" in told.stdout
    # It is over, so nobody can take it on: the daemon says so in the store's words.
    taken = least_monitor("acknowledge", name[:8], "-c", config)
    stored = least_monitor("acknowledge", name[:8], "--store", daemon.config.store.url)
    assert (taken.exit_code, stored.exit_code) == (1, 1)
    assert stored.stderr.strip() in taken.stderr
    missing = least_monitor("label", "zz", "true", "-c", config)
    assert (missing.exit_code, "no incident 'zz'" in missing.stderr) == (1, True)


def test_another_daemon_at_the_address_is_not_asked(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "other.db"
    monkeypatch.setenv("LEAST_MONITOR__STORE__URL", f"sqlite:///{store}")
    listed = least_monitor("incidents", "-c", str(daemon.path))
    assert "has another store. Using the store of this configuration" in listed.stderr
    assert listed.exit_code == 1  # which does not exist
    assert not store.exists()


def test_the_store_answers_when_no_daemon_is_up(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAST_MONITOR__HTTP__PORT", "1")
    listed = least_monitor("incidents", "-c", str(daemon.path))
    assert listed.exit_code == 0
    assert "daemon" not in listed.stderr
    assert "reserve" in listed.stdout
