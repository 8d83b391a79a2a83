"""One Chromium and one site for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.site import Site, running
from tests.services.brokers import TOOLS, brought_libraries, cannot

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1200, "height": 900}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    brought = TOOLS / "usr/lib/chromium/chromium"
    program = shutil.which("chromium")
    if brought.exists() and (program is None or Path(program).is_relative_to(TOOLS)):
        program = str(brought)  # not its wrapper, which reads /etc
    if program is None:
        cannot("no Chromium (Debian package chromium)")
    environment = dict(os.environ)
    if program == str(brought):
        environment["LD_LIBRARY_PATH"] = brought_libraries()
        if not Path("/etc/fonts/fonts.conf").exists():
            fonts = tmp_path_factory.mktemp("fonts") / "fonts.conf"
            fonts.write_text(f"<fontconfig><dir>{TOOLS}/usr/share/fonts</dir></fontconfig>")
            environment["FONTCONFIG_FILE"] = str(fonts)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox"] if os.getuid() == 0 else [],  # it refuses to sandbox for root
            env=environment,
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("site")) as found:
        yield found


Opener = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Pages of a reader in New York; whatever a page complains of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(**options: object) -> Page:
        usual = {"viewport": DESK, "timezone_id": "America/New_York", "locale": "en-US"}
        context = browser.new_context(**(usual | options))  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{page.url}: {said.text}")
                # A page that is missing on purpose is no complaint.
                if said.type == "error" and "status of 40" not in said.text
                else None
            ),
        )
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
