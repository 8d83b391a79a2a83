"""What a page has to be for everybody: a screen reader, an eye in the dark, a telephone."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import PHONE


def overflowing(page: Page) -> list[str]:
    """What reaches beyond the right edge, should the page scroll sideways."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
        [...document.querySelectorAll("body *")]
          .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
          .map((e) => e.outerHTML.slice(0, 120))"""
    )
    return found


def violations(page: Page, **options: object) -> list[tuple[str, list[object]]]:
    """Rules of axe-core that the page breaks, and where."""
    result = Axe().run(page, options={"resultTypes": ["violations"], **options})
    found = result.response["violations"]
    return [(v["id"], [node["target"] for node in v["nodes"][:3]]) for v in found]


def for_everybody(page: Page) -> None:
    """Holds a page, opened in the light, to all of it; leaves it dark, on a telephone."""
    assert page.locator("h1").count() == 1
    assert violations(page) == []
    assert overflowing(page) == []
    page.emulate_media(color_scheme="dark")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", colour))) < 3 * 60
    only_colours = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
    assert violations(page, **only_colours) == []
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert overflowing(page) == []
