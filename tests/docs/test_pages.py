"""The documentation, followed to the letter: files are written, commands run, output compared."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from monitor.config import load
from tests.docs.acting import Stage
from tests.docs.comparing import renamed, same
from tests.docs.pages import ROOT, Page, PageError, all_pages, read_page
from tests.docs.write import LIST, listed

NAMES = [path.relative_to(ROOT).as_posix() for path in all_pages()]


@cache
def page_of(name: str) -> Page:
    return read_page(ROOT / name)


class Folders:
    """Where each page was acted out; what one leaves behind, another may go on from."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._done: dict[str, Path | PageError] = {}

    def after(self, page: Page) -> Path:
        """The folder as it is at the end of the page.

        Raises:
            PageError: the page shows what does not happen.
        """
        if page.name not in self._done:
            folder = self._top / page.name.replace("/", "-").removesuffix(".md")
            if page.goes_on_from is None:
                folder.mkdir()
            else:
                earlier = self.after(page_of(f"docs/{page.goes_on_from}"))
                shutil.copytree(earlier, folder, symlinks=True)
            try:
                Stage(page, folder).act()
                self._done[page.name] = folder
            except PageError as error:
                self._done[page.name] = error
        done = self._done[page.name]
        if isinstance(done, PageError):
            raise done
        return done


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_shows_is_what_happens(name: str, folders: Folders) -> None:
    page = page_of(name)
    missing = [program for program in _needed(page) if shutil.which(program, path=_path()) is None]
    if missing:
        pytest.skip(f"{name} needs {', '.join(missing)}, not on this machine")
    folders.after(page)


def test_what_is_not_run_is_listed_with_its_reason() -> None:
    assert LIST.read_text("utf-8") == listed(map(page_of, NAMES)), "run: python -m tests.docs.write"


def test_the_tutorial_ends_where_the_example_begins(tmp_path: Path) -> None:
    page = page_of("docs/tutorial-own-logs.md")
    last = [b.body for b in page.blocks if b.directive("file") == "monitor.toml"][-1]
    (tmp_path / "monitor.toml").write_text(last)
    mine = load(tmp_path / "monitor.toml", {})
    example = load(ROOT / "examples" / "hotel" / "monitor.toml", {})
    assert mine.settings.schema.attributes == example.settings.schema.attributes
    assert mine.settings.window == example.settings.window
    assert mine.settings.detection == example.settings.detection
    assert mine.time == example.time


def _needed(page: Page) -> list[str]:
    earlier = _needed(page_of(f"docs/{page.goes_on_from}")) if page.goes_on_from else []
    return [*page.needs, *earlier]


def _path() -> str:
    return f"{ROOT}/.tools/usr/bin:{os.environ['PATH']}"


# The mechanism itself


def _act(text: str, folder: Path, **options: bool) -> Stage:
    path = ROOT / "docs" / "made-up.md"
    stage = Stage(read_page(path, text), folder, **options)
    stage.act()
    return stage


def test_a_page_that_shows_another_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"made-up.md:1: \$ echo one\n--- the page shows\ntwo"):
        _act("```console\n$ echo one\ntwo\n```\n", tmp_path)


def test_a_command_that_fails_is_refused_unless_the_page_says_so(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="exit code 3, not 0"):
        _act("```console\n$ exit 3\n```\n", tmp_path)
    assert _act("<!-- exit: 3 -->\n```console\n$ exit 3\n```\n", tmp_path).acted == 1
    with pytest.raises(PageError, match="exit code 0, not 3"):
        _act("<!-- exit: 3 -->\n```console\n$ true\n```\n", tmp_path)


def test_rewriting_puts_what_was_said_in_the_place_of_what_was_shown(tmp_path: Path) -> None:
    text = "a\n\n```console\n$ echo one; \\\n    echo two\nold\n$ echo 0.2 s\n0.1 s\n```\n\nb\n"
    stage = _act(text, tmp_path, rewrite=True)
    assert stage.text == text.replace("old", "one\ntwo")


def test_what_varies_may_differ_and_can_be_named_by_a_later_command(tmp_path: Path) -> None:
    made, named = "echo silence $(printf 5f3a%s 0000)", "echo end 5f3a09c1"
    text = "\n".join([
        "<!-- varies: 5f3a.... -->", "```console",
        f"$ {made}", "silence 5f3a09c1", f"$ {named}", "end 5f3a09c1", "```",
    ])  # fmt: skip
    assert _act(text, tmp_path).acted == 1
    assert renamed("id 5f3a09c1", "id 5f3a0000", "5f3a....") == {"5f3a09c1": "5f3a0000"}


def test_dots_stand_for_what_is_left_out() -> None:
    assert same("a\n…\nz\n", "a\nb\nc\nz\n")
    assert same("ticks … end\n", "ticks in 3 lines end\n")
    assert same("took 17 s\n", "took 5.2 s\n")
    assert not same("a\n…\nz\n", "a\nb\n")
    assert not same("17 rows\n", "18 rows\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```\nmake demo\n```\n", "a fence without a language"),
        ("see\n\n    least-monitor run\n", "fenced `console` block"),
        ("<!-- not rum: no -->\n```sh\nx\n```\n", "unknown directive `not rum`"),
        ("<!-- file: x -->\n\nwords\n", "stands before no block"),
        ("```sh\nmake\n```\n", "nothing is done with `sh`"),
        ("```toml\n[window]\nlenght = '1d'\n```\n", "lenght"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```console\nleast-monitor\n```\n", "begins with"),
        ("<!-- tested by: tests/no.py -->\n```sh\nx\n```\n", "does not exist"),
    ],
)
def test_nothing_on_a_page_escapes(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=message):
        _act(text, tmp_path)
