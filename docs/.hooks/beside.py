"""Pages beside `docs/` join the site; links to files of the repository become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

_LINK = re.compile(r"\[([^\]]*)\]\((\.\.[^)#]*)(#[^)]*)?\)")
_ON_THE_SITE = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The changelog."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    files.append(File.generated(config, "changelog.md", content=text))
    return files


def on_page_markdown(text: str, page: Page, **_: Any) -> str:
    """Links that leave `docs/` name the file instead, after a look whether it is there."""
    here = Path(page.file.abs_src_path or ROOT / "docs" / "x").parent

    def plain(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return link[0]  # MkDocs complains where it is due
        name = target.relative_to(ROOT).as_posix()
        if name in _ON_THE_SITE:
            up = "../" * (page.file.src_uri.count("/"))
            return f"[{link[1]}]({up}{_ON_THE_SITE[name]})"
        return link[1] if name in link[1] else f"{link[1]} (`{name}`)"

    return _LINK.sub(plain, text)
