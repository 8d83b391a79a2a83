"""The tutorial, followed to the letter: its files are written, its commands run, its output real.

After a change that is meant, ``python tests/monitor/test_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config import load

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial-own-logs.md"

_BLOCK = re.compile(r"```(toml|csv|console)\n(.*?)```", re.DOTALL)


def follow(text: str) -> str:
    """The tutorial with the output that its commands give in the current folder."""

    def act(block: re.Match[str]) -> str:
        kind, body = block.groups()
        if kind == "csv":
            Path("typed.csv").write_text(body)
        elif kind == "toml" and body.startswith("[source]"):
            Path("monitor.toml").write_text(body)
        elif kind == "console":
            command = body.split("\n")[0]
            result = CliRunner().invoke(app, command.split()[2:], env={"COLUMNS": "100"})
            said = "\n".join(line.rstrip() for line in result.output.splitlines())
            return f"```console\n{command}\n{said.replace(f'{os.getcwd()}/', '')}\n```"
        return block.group()

    return _BLOCK.sub(act, text)


def test_the_tutorial_shows_what_really_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    text = TUTORIAL.read_text("utf-8")
    assert follow(text) == text


def test_the_tutorial_ends_where_the_example_begins(tmp_path: Path) -> None:
    last = [
        body for kind, body in _BLOCK.findall(TUTORIAL.read_text("utf-8")) if "[source]" in body
    ][-1]
    (tmp_path / "monitor.toml").write_text(last)
    mine = load(tmp_path / "monitor.toml", {})
    example = load(ROOT / "examples" / "hotel" / "monitor.toml", {})
    assert mine.settings.schema.attributes == example.settings.schema.attributes
    assert mine.settings.window == example.settings.window
    assert mine.settings.detection == example.settings.detection
    assert mine.time == example.time


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("data").symlink_to(ROOT / "data")
        TUTORIAL.write_text(follow(TUTORIAL.read_text("utf-8")), "utf-8")
