"""The site builds strictly, opens offline, and a broken link would be noticed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


def build(where: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target],
        cwd=where,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(ROOT, target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name.replace("README.html", "index.html")).exists(), name


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\" >]+)", text)
        fetched += re.findall(r"<link\b[^>]*rel=\"?stylesheet\"?[^>]*href=\"?([^\" >]+)", text)
        fetched += re.findall(r"<link\b[^>]*href=\"?([^\" >]+)\"?[^>]*rel=\"?stylesheet", text)
        assert fetched, page.name
        away = [one for one in fetched if re.match(r"(https?:)?//", one)]
        assert away == [], page.name


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("[gone](gone.md)", "gone.md"),
        ("[no such part](concepts.md#nowhere)", "nowhere"),
    ],
)
def test_a_broken_link_fails(words: str, complaint: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs" / "faq.md").open("a") as page:
        page.write(f"\n{words}\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr
