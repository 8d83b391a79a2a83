"""The pictures of docs/console.md: made here with ``SCREENSHOTS=1`` (``make screenshots``).

Without it the tests look that every page and picture is still there, and that no picture is of
anything else.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.conftest import PHONE, Opener
from tests.browser.site import Site

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Shot:
    """One picture: a page of the site, in a theme, through a window."""

    page: str
    theme: str = "light"
    size: tuple[int, int] = (1120, 820)
    shows: str = "h1"
    """A part that the page must have for the picture to be true."""


SHOTS = {
    "console-overview": Shot("overview", shows=".outcomes .chart"),
    "console-incident": Shot("incident-resolved", size=(1120, 1180), shows=".chart .bar.hot"),
    "console-incident-dark": Shot("incident-open", "dark", (1120, 1010), ".todo"),
    "console-incidents": Shot("incidents", size=(1120, 640), shows=".cards .card"),
    "console-explore": Shot("explore", size=(1120, 1100), shows=".breakdowns .weight"),
    "console-graph": Shot("node", "dark", (1120, 760), ".picture .box.root"),
    "console-phone": Shot("incident-open", size=(PHONE["width"], 900), shows=".lead"),
}


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.parametrize("name", SHOTS)
def test_the_page_of_every_picture_exists(site: Site, open_page: Opener, name: str) -> None:
    shot = SHOTS[name]
    width, height = shot.size
    page = open_page(
        viewport={"width": width, "height": height}, color_scheme=shot.theme, timezone_id="UTC"
    )
    page.goto(site.url + site.pages[shot.page])
    assert page.locator(shot.shows).count() >= 1
    if os.environ.get("SCREENSHOTS"):
        page.screenshot(path=DOCS / "images" / f"{name}.png")


def test_the_page_in_the_docs_shows_these_pictures() -> None:
    text = (DOCS / "console.md").read_text("utf-8")
    shown = set(re.findall(r"\(images/(console-[a-z-]+)\.png\)", text))
    made = {path.stem for path in (DOCS / "images").glob("console-*.png")}
    assert shown == made == set(SHOTS)
