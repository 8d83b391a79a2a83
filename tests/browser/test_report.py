"""The file that `backtest --html` writes, opened as people do: from a disk, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from monitor.domain import Cause
from monitor.edge.report import render
from monitor.scoring import Label
from tests.backtests import FOUND, START, backtest, configuration, incident
from tests.browser.conftest import Opener
from tests.browser.everybody import for_everybody

pytestmark = [pytest.mark.slow, pytest.mark.service]

HOSTILE = '<script>alert("x")</script>\u202eevil' + "ü" * 300


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of one with labels, a quiet day, and a cause of hostile words."""
    folder = tmp_path_factory.mktemp("report")
    label = Label("outage", START + timedelta(hours=50), START + timedelta(hours=60), "reserve",
                  (Cause.of(airline="AC"),), event="the gateway was down")  # fmt: skip
    missed = replace(label, id="storm", start=START + timedelta(hours=80),
                     end=START + timedelta(hours=85), accept=(Cause.of(airline="LH"),))  # fmt: skip
    hostile = replace(FOUND, cause=Cause.of(airline=HOSTILE), path=(f"airline={HOSTILE}", "pay"))
    found = [incident("aa", 51), incident("bb", 71, finding=hostile, causes=(hostile.cause,))]
    text = render(backtest(configuration(folder), found, (label, missed),
                           quiet=(date(2026, 3, 3),)))  # fmt: skip
    path = Path(folder, "report.html")
    path.write_text(text)
    return path.as_uri()


def test_everybody_can_read_it(report: str, open_page: Opener) -> None:
    page = open_page(color_scheme="light")
    page.goto(report)
    for_everybody(page)


def test_it_asks_no_network_and_runs_no_script(report: str, open_page: Opener) -> None:
    page = open_page(offline=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report)
    assert asked == [report]
    assert page.locator("script").count() == 0
    assert "evil" in page.locator("body").inner_text()  # as text; a dialog would fail the test


def test_it_shows_what_was_found_and_what_was_missed(report: str, open_page: Opener) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(report)
    text = page.locator("body").inner_text()
    assert "outage" in text
    assert "storm" in text
    assert page.locator("svg[role=img]").count() >= 2
    for drawing in page.locator("svg[role=img]").all():
        box = drawing.bounding_box()
        assert box is not None
        assert box["width"] > 100
        assert box["height"] > 20
