"""What is released: built from the committed files, installed where nothing else is, and run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from monitor import __version__

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"

pytestmark = pytest.mark.slow


def run(*command: str | Path, where: Path | None = None, **environment: str) -> str:
    """What it says; it must succeed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path
    of_the_tree: Path
    lean: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """From a copy of the files that git knows, so that nothing left lying about gets in."""
    top = tmp_path_factory.mktemp("release")
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", where=ROOT)
    for name in filter(None, names.split("\0")):
        source = ROOT / name
        if source.is_file() and not name.startswith(("data/", "docs/")):
            (top / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, top / "tree" / name)
    build = [
        UV,
        "build",
        "--quiet",
        "--offline",
        "--no-build-isolation",
        "--python",
        sys.executable,
    ]
    run(*build, "--out-dir", top / "dist", top / "tree")  # the sdist, and the wheel from it
    run(*build, "--wheel", "--out-dir", top / "direct", top / "tree")
    run(*build, "--wheel", "--out-dir", top / "library", top / "tree" / "packages" / "least")
    (wheel,), (sdist,) = (top / "dist").glob("*.whl"), (top / "dist").glob("*.tar.gz")
    (direct,), (library,) = (top / "direct").glob("*.whl"), (top / "library").glob("*.whl")
    return Built(wheel, sdist, direct, library)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the pinned requirements and the wheel, and nothing else."""
    venv = tmp_path_factory.mktemp("empty") / "venv"
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    install = [UV, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    requirements = ["--require-hashes", "-r", ROOT / "requirements.txt"]
    # Whoever set up this environment has them in the cache; a mirror is asked otherwise.
    cached = subprocess.run(
        [*map(str, [*install, "--offline", *requirements])], capture_output=True, timeout=300
    )
    if cached.returncode:
        mirror = run(sys.executable, "-m", "pip", "config", "list")
        index = re.search(r"index-url='([^']+)'", mirror)
        run(*install, *requirements, **({"UV_DEFAULT_INDEX": index[1]} if index else {}))
    run(*install, "--no-deps", "--offline", built.wheel)
    return venv


def contents(wheel: Path) -> dict[str, str]:
    """File → digest, but for the record of digests."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.endswith("/RECORD")
        }


def test_there_is_one_version(built: Built, installed: Path) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", __version__)
    assert built.wheel.name.startswith(f"least_monitor-{__version__}-")
    assert run(installed / "bin" / "least-monitor", "--version") == f"least-monitor {__version__}\n"
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[(Unreleased|" + re.escape(__version__) + r")\]", changelog, re.M)


def test_the_wheel_from_the_sdist_is_the_wheel_of_the_tree(built: Built) -> None:
    assert contents(built.wheel) == contents(built.of_the_tree)


def test_the_wheel_holds_the_program_and_no_more(built: Built) -> None:
    names = contents(built.wheel).keys()
    assert {name.split("/")[0] for name in names} == {
        "least", "monitor", f"least_monitor-{__version__}.dist-info",
    }  # fmt: skip
    assert "monitor/demo/nyc2013_february_april.parquet" in names
    assert f"least_monitor-{__version__}.dist-info/licenses/LICENSE" in names
    assert [n for n in names if re.search(r"(^|/)(tests/|test_|conftest)", n)] == []
    assert built.wheel.stat().st_size < 3_000_000
    in_tree = {
        path.relative_to(ROOT).as_posix()
        for room in ("least", "monitor")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert in_tree - names == set()


def test_the_library_installs_without_the_monitor(built: Built, tmp_path: Path) -> None:
    """With numpy and scipy alone it says what it lacks; with numba it learns."""
    files, both = contents(built.lean), contents(built.wheel)
    assert {name.split("/")[0] for name in files} == {
        "least", f"least_learner-{__version__}.dist-info",
    }  # fmt: skip
    library = {name: digest for name, digest in both.items() if name.startswith("least/")}
    assert {n: d for n, d in files.items() if n.startswith("least/")} == library
    assert f"least_learner-{__version__}.dist-info/licenses/LICENSE" in files

    venv = tmp_path / "venv"
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    install = [UV, "pip", "install", "--quiet", "--offline", "--python", venv / "bin" / "python"]
    pins = [f"{name}=={version(name)}" for name in ("numpy", "scipy", "numba", "llvmlite")]
    run(*install, built.lean, *pins[:2])
    there = json.loads(
        run(UV, "pip", "list", "--format", "json", "--python", venv / "bin" / "python")
    )
    assert {package["name"] for package in there} == {"least-learner", "numpy", "scipy"}
    program = """
import numpy as np
from least import Least
rain = np.random.default_rng(0).normal(size=500)
rows = np.column_stack([rain, 1.2 * rain + np.random.default_rng(1).normal(size=500)])
for settings in {}, {"backend": "sparse"}:
    try:
        print(Least(**settings).fit(rows).edges_)
    except ImportError as error:
        print(error)
"""
    said = run(venv / "bin" / "python", "-c", program, where=tmp_path, PYTHONPATH="")
    assert "pip install tensorflow-cpu (the extra [dense]" in said
    assert "pip install numba (the extra [sparse]" in said
    run(*install, *pins)
    said = run(venv / "bin" / "python", "-c", program, where=tmp_path, PYTHONPATH="")
    assert "[Edge(source=0, target=1, weight=1.19" in said


def test_the_sdist_can_be_read_by_itself(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= names
    assert not any(name.startswith(("data/", "docs/", "benchmarks/", ".")) for name in names)


def test_the_demo_runs_where_nothing_else_is(installed: Path, tmp_path: Path) -> None:
    said = run(
        installed / "bin" / "least-monitor", "demo", "--short", "--no-serve",
        where=tmp_path, HOME=str(tmp_path), PYTHONPATH="", COLUMNS="120", TF_CPP_MIN_LOG_LEVEL="2",
    )  # fmt: skip
    assert re.search(r"nyc-nemo .* everything \(\d+\).* first", said), said
    left = {path.name for path in tmp_path.iterdir()} - {".keras"}  # Keras' own settings
    assert left == set(), "it leaves nothing behind"


def test_what_a_release_is_made_of_is_told(installed: Path, tmp_path: Path) -> None:
    bill = tmp_path / "sbom.json"
    run(
        Path(sys.executable).parent / "cyclonedx-py", "environment", installed, "--pyproject",
        ROOT / "pyproject.toml", "--output-reproducible", "--sv", "1.6", "-o", bill,
    )  # fmt: skip
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.read_text()) is None
    document = json.loads(bill.read_text())
    assert document["metadata"]["component"]["name"] == "least-monitor"
    named = {(c["name"].lower().replace("_", "-"), c["version"]) for c in document["components"]}
    pinned = re.findall(
        r"^([\w.-]+)(?:\[.*?\])?==(\S+)(?: ;.*)? \\$", (ROOT / "requirements.txt").read_text(), re.M
    )
    here = {(name.lower(), version) for name, version in pinned} & named
    assert len(here) > 60
    silent = [
        c["name"] for c in document["components"]
        if not c.get("licenses") and c["name"] != "least-monitor"
    ]  # fmt: skip
    # Theirs stands in a file or in words of their own: Apache-2.0, Apache-2.0, BSD-3-Clause.
    assert set(silent) <= {"keras", "namex", "protobuf"}, "without a licence"
