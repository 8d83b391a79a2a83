"""Acts out a page in a folder: files are written, commands run, programs executed."""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import certifi
import yaml
from typer.testing import CliRunner

from least.cli import app as least
from monitor.cli import app as monitor
from monitor.config import load
from tests.docs.comparing import renamed, same
from tests.docs.pages import ROOT, Block, Page, PageError
from tests.services.brokers import free_port

BESIDE = ("data", "examples", "rules", "dashboards", "deploy")
"""Folders of the repository that a reader who follows a page in a clone has at hand."""

BACKGROUND_SECONDS = 60.0
PORT = ":9469"
_SHELL = re.compile(r"[|&;<>$`*(){}]|^\w+=")
_IN_PROCESS = {"least-monitor": monitor, "least": least}
_OWN_PROCESS = {"run", "once", "demo"}
"""Commands that set up their process: signals, threads of TensorFlow, the log."""

_FRAGMENT = {
    "source": '[source]\npaths = ["*.jsonl"]\n',
    "schema": '[schema]\ntime = "at"\nzone = "UTC"\nattributes = ["airline", "office"]\n'
    'outcomes = ["pay", "reserve"]\n',
}


class Stage:
    """One page being acted out.

    Args:
        page: what to do.
        folder: where; becomes the working directory.
        rewrite: write down what is said instead of comparing.
    """

    def __init__(self, page: Page, folder: Path, *, rewrite: bool = False) -> None:
        self.page, self.folder, self.rewrite = page, folder, rewrite
        self.text = page.text
        self._shift = 0
        self._names: dict[str, str] = {}
        self._python: dict[str, object] = {"__name__": "page"}
        self._background: list[subprocess.Popen[bytes]] = []
        self._port = f":{free_port()}"
        self.acted = 0

    def act(self) -> None:
        """Do all that the page says.

        Raises:
            PageError: something else happens than the page shows.
        """
        for name in BESIDE:
            if (ROOT / name).exists() and not (self.folder / name).exists():
                (self.folder / name).symlink_to(ROOT / name)
        with contextlib.chdir(self.folder):
            try:
                for block in self.page.blocks:
                    self._block(block)
            finally:
                ended = [self._end(process) for process in self._background]
        if any(ended):
            raise PageError(f"{self.page.name}: a daemon ended with {ended} after SIGTERM")

    def _block(self, block: Block) -> None:
        for key, value in block.directives:
            if key == "beforehand":
                self._expect(block, self._run(value)[1], 0, value)
            elif key == "tested by" and not (ROOT / value).exists():
                raise self._error(block, f"{value} does not exist")
        if block.aside is not None:
            return
        self.acted += 1
        name = block.directive("file")
        if name is not None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, "utf-8")
            return
        match block.language:
            case "console":
                self._console(block)
            case "toml":
                self._toml(block)
            case "json":
                json.loads(block.body)
            case "yaml":
                list(yaml.safe_load_all(block.body))
            case "promql":
                if block.body.strip() not in _expressions():
                    raise self._error(block, "no alert rule asks this")
            case "python":
                self._run_python(block)
            case other:
                raise self._error(
                    block, f"nothing is done with `{other}`; say `<!-- not run: WHY -->` before it"
                )

    # Commands and what they say

    def _console(self, block: Block) -> None:
        written = []
        for command, shown in _commands(block.body):
            varies = block.directive("varies")
            if command.endswith("&"):
                said, status = self._start(command[:-1], shown, varies), 0
            else:
                said, status = self._run(command)
            last = command == _commands(block.body)[-1][0]
            wanted = int(block.directive("exit") or 0) if last else 0
            self._expect(block, status, wanted, f"{command}\n{said}")
            self._names |= renamed(shown, said, varies)
            if same(shown, said, varies):
                written.append((command, shown))
            elif self.rewrite:
                written.append((command, said))
            else:
                raise self._error(
                    block,
                    f"$ {command}\n--- the page shows\n{shown}\n--- what happens\n{said}\n"
                    f"(if it is meant: python -m tests.docs.write {self.page.name})",
                )
        body = "".join(f"$ {command}\n{said}" for command, said in written)
        self._replace(block, body)

    def _run(self, command: str) -> tuple[str, int]:
        for old, new in self._names.items():
            command = command.replace(old, new)
        words = shlex.split(command, comments=True) if not _SHELL.search(command) else []
        own = words[1:2] and words[1] in _OWN_PROCESS and "--help" not in words
        if words and words[0] in _IN_PROCESS and not own:
            result = CliRunner().invoke(
                _IN_PROCESS[words[0]], words[1:], env=self._environment(), prog_name=words[0]
            )
            if result.exception and not isinstance(result.exception, SystemExit):
                raise result.exception
            return self._plain(result.output), result.exit_code
        done = subprocess.run(
            ["bash", "-c", command.replace(PORT, self._port)],
            env=os.environ | self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        return self._plain(done.stdout.decode()), done.returncode

    def _start(self, command: str, shown: str, varies: str | None) -> str:
        """Start what runs on, and wait until it has said what the page shows."""
        log = self.folder / f".background-{len(self._background)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.replace(PORT, self._port)}"],
                env=os.environ | self._environment(),
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self._background.append(process)
        until, said, quiet_since = time.monotonic() + BACKGROUND_SECONDS, "", time.monotonic()
        while time.monotonic() < until and process.poll() is None:
            now = self._plain(log.read_text("utf-8"))
            if now != said:
                said, quiet_since = now, time.monotonic()
            if same(shown, said, varies):
                break
            if self.rewrite and said and time.monotonic() - quiet_since > 5:
                break
            time.sleep(0.1)
        return said

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _environment(self) -> dict[str, str]:
        programs = [str(Path(sys.executable).parent), str(ROOT / ".tools" / "usr" / "bin")]
        return {
            "COLUMNS": "100",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
            "LEAST_MONITOR__HTTP__PORT": self._port[1:],
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TZ": "UTC",
        }

    def _plain(self, said: str) -> str:
        """Without what belongs to this machine: folder, port, trailing blanks."""
        said = said.replace(f"{self.folder}/", "").replace(str(self.folder), ".")
        said = said.replace(f"{ROOT}/", "").replace(self._port, PORT)
        return "".join(f"{line.rstrip()}\n" for line in said.splitlines())

    # Other kinds of blocks

    def _toml(self, block: Block) -> None:
        """A configuration, or a piece of one, must be sound; what is missing is added."""
        body = block.body
        if not re.search(r"^\[", body, re.M):
            body = f"{_FRAGMENT['schema'].splitlines()[0]}\n{body}"
            for line in _FRAGMENT["schema"].splitlines()[1:]:
                if not re.search(rf"^{line.split(' = ')[0]} = ", body, re.M):
                    body += f"\n{line}"
        there = tomllib.loads(body)
        for name, lines in _FRAGMENT.items():
            if name not in there:
                body += f"\n{lines}"
        # Files with secrets and certificates are the reader's own: here any that exist will do.
        for kind, content in {
            "urls": "json://127.0.0.1:9",
            "url": "http://127.0.0.1:9",
            "tls_ca": Path(certifi.where()).read_text("utf-8"),
            "secret": "made-up",
        }.items():
            (self.folder / f".{kind}").write_text(content, "utf-8")
        body = re.sub(
            r'^((?:(urls?|tls_ca)|\w+)_file = )"[^"]*"',
            lambda m: f'{m[1]}"{self.folder}/.{m[2] or "secret"}"',
            body,
            flags=re.M,
        )
        path = self.folder / ".fragment.toml"
        path.write_text(body, "utf-8")
        config = load(path, {})
        assert config.settings.schema.attributes

    def _run_python(self, block: Block) -> None:
        if ">>>" not in block.body:
            exec(compile(block.body, f"{self.page.name}:{block.line}", "exec"), self._python)
            return
        test = doctest.DocTestParser().get_doctest(
            block.body, self._python, self.page.name, str(self.page.path), block.line
        )
        said: list[str] = []
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        runner = doctest.DocTestRunner(optionflags=flags)
        runner.run(test, out=said.append, clear_globs=False)
        self._python |= test.globs
        if runner.failures:
            raise self._error(block, "".join(said))

    def _expect(self, block: Block, status: int, wanted: int, said: str) -> None:
        if status != wanted and self.rewrite:
            print(f"look: {self.page.name}:{block.line}: exit code {status}: {said}")
        elif status != wanted:
            raise self._error(block, f"exit code {status}, not {wanted}: {said}")

    def _error(self, block: Block, what: str) -> PageError:
        return PageError(f"{self.page.name}:{block.line}: {what}")

    def _replace(self, block: Block, body: str) -> None:
        body = "".join(block.indent + line for line in body.splitlines(keepends=True))
        start, end = block.start + self._shift, block.end + self._shift
        self.text = self.text[:start] + body + self.text[end:]
        self._shift += len(body) - (end - start)


def _expressions() -> set[str]:
    """Those of the rules; promtool has checked and run them."""
    rules = yaml.safe_load((ROOT / "rules" / "least-monitor.rules.yml").read_text("utf-8"))
    return {rule["expr"].strip() for group in rules["groups"] for rule in group["rules"]}


def _commands(body: str) -> list[tuple[str, str]]:
    """Each command with the lines shown below it."""
    found: list[tuple[str, str]] = []
    lines: Iterator[str] = iter(body.splitlines(keepends=True))
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\\n"):
                command += next(lines)
            found.append((command.removesuffix("\n"), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
        else:
            raise PageError(f"a `console` block begins with `$ COMMAND`, not with {line!r}")
    return found
