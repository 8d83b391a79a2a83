"""The house rules that no type checker knows."""

import ast
import doctest
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = sorted(p for room in ("least", "monitor") for p in (ROOT / room).rglob("*.py"))


def test_imports_only_point_down() -> None:
    # The contracts stand in pyproject.toml: read them there as the drawing of the house.
    # In a process of its own: import-linter keeps consoles and caches that outlive a call.
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["simulate", "--help"]])
def test_help_comes_without_waiting_for_heavy_imports(command: list[str]) -> None:
    program = f"""
import sys
from monitor.cli import main
sys.argv = ["least-monitor", *{command!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {{
    "tensorflow", "statsmodels", "scipy", "pyarrow", "sqlalchemy", "alembic", "kafka", "uvicorn"
}}
print(sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("path", [p for p in CODE if ">>>" in p.read_text()], ids=str)
def test_examples_in_docstrings_show_what_comes_out(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def test_no_room_is_called_misc() -> None:
    vague = {"util", "utils", "common", "base", "helpers", "misc", "tests"}
    names = {path: path.parent.name if path.stem == "__init__" else path.stem for path in CODE}
    assert [str(p) for p, name in names.items() if name in vague] == []


def test_no_file_outgrows_a_readers_patience() -> None:
    long = {str(p): n for p in CODE if (n := len(p.read_text().splitlines())) > 600}
    assert long == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(p) for p in CODE if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []


def test_tests_need_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_deployed_requirements_are_pinned_and_name_no_index() -> None:
    for name in ("requirements.txt", "requirements-dev.txt", ".ci/uv.txt"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|--index|--extra-index|--find-links", text), name
        entries = re.split(r"\n(?=\S)", text.strip())
        assert entries, name
        for entry in entries:
            assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", entry), f"{name}: {entry[:60]}"
            assert "--hash=sha256:" in entry, f"{name}: {entry[:60]}"


def test_requirements_hold_what_the_project_asks_for() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = _pinned("requirements.txt")
    wanted = {_name(r) for r in project["project"]["dependencies"]}
    assert wanted <= runtime, f"run `make requirements`: {wanted - runtime}"
    developers = {_name(r) for r in project["dependency-groups"]["dev"]}
    pinned = _pinned("requirements-dev.txt")
    assert developers | runtime <= pinned, f"run `make requirements`: {developers - pinned}"


def _name(requirement: str) -> str:
    matched = re.match(r"[\w.-]+", requirement)
    assert matched, requirement
    return matched[0].lower().replace("_", "-")


def _pinned(file: str) -> set[str]:
    return {
        m.lower() for m in re.findall(r"^([\w.-]+)(?:\[.*?\])?==", (ROOT / file).read_text(), re.M)
    }


def test_whatever_is_not_python_is_packed_too() -> None:
    # An editable install finds these files anyway, so only a real one would miss them.
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = {
        file
        for package, patterns in project["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for file in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    there = {
        path
        for room in ("least", "monitor")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert there - packed == set()


def test_labels_in_the_box_are_one_json_object_a_line() -> None:
    files = sorted((ROOT / "data").rglob("anomalies*.jsonl"))
    assert files
    for path in files:
        for line in path.read_text().splitlines():
            assert {"id", "start", "end", "outcome", "accept"} <= json.loads(line).keys()
