"""Write anew what commands say on pages, and the list of what is not run: after a meant change.

`python -m tests.docs.write [docs/PAGE.md …]`; without pages only the list. Review the diff.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.docs.acting import Stage
from tests.docs.pages import ROOT, Page, all_pages, read_page

LIST = ROOT / "docs" / "not-run.md"

_HEAD = """\
# What on these pages is not run

<!-- Written by `python -m tests.docs.write`; change the pages, not this list. -->

Every command on these pages is run by a test, in a folder of its own, and what it says is compared
with what the page shows; files are written as shown, configurations checked, programs executed.
The exceptions, with their reasons:

"""


def listed(pages: Iterable[Page]) -> str:
    """The document that counts and lists what is not run."""
    rows, count = [], 0
    for page in pages:
        for block in page.blocks:
            if block.aside is not None:
                count += 1
                first = block.body.strip().splitlines()[0].replace("|", "\\|").replace("`", "'")
                rows.append(f"| `{page.name}` | `{first[:60].strip()}` | {block.aside} |")
    table = ["| Page | Block | Why |", "|---|---|---|", *rows]
    return _HEAD + "\n".join(table) + f"\n\n{count} blocks.\n"


def main(names: list[str]) -> None:
    """Act the pages out, put down what is said."""
    for name in names:
        with tempfile.TemporaryDirectory() as top:
            _write(read_page(ROOT / name), Path(top).resolve())
    LIST.write_text(listed(map(read_page, all_pages())), "utf-8")


def _write(page: Page, top: Path) -> None:
    stage = Stage(page, _begin(page, top), rewrite=True)
    stage.act()
    page.path.write_text(stage.text, "utf-8")


def _begin(page: Page, top: Path) -> Path:
    folder = top / page.path.stem
    if page.goes_on_from is None:
        folder.mkdir()
        return folder
    earlier = read_page(ROOT / "docs" / page.goes_on_from)
    before = _begin(earlier, top)
    Stage(earlier, before).act()
    shutil.copytree(before, folder, symlinks=True)
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
