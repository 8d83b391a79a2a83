"""The HTML report of a backtest: whole, harmless, bounded."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.config import Config
from monitor.domain import Cause
from monitor.edge.report import MOST_CARDS, Series, render
from monitor.edge.report.timeline import COLUMNS, HEIGHT, LOW, columns, draw
from monitor.scoring import Label
from tests.backtests import START, STEP, backtest, configuration, incident
from tests.samples import finding


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return configuration(tmp_path)


class Page(HTMLParser):
    """Elements and attributes, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_tells_what_was_found_and_how_it_fits_the_labels(config: Config) -> None:
    right = Label("outage", START + timedelta(hours=50), START + timedelta(hours=60), "reserve",
                  (Cause.of(airline="AC"),), event="the gateway was down")  # fmt: skip
    other = replace(right, id="storm", start=START + timedelta(hours=70),
                    end=START + timedelta(hours=75), accept=(Cause.of(airline="LH"),))  # fmt: skip
    found = [incident("aa", 51), incident("bb", 71), incident("cc", 90)]
    text = render(backtest(config, found, (right, other), quiet=(date(2026, 3, 3),)))
    for words in (
        "3 incidents",
        "12,345 rows",
        "3 × bad_time",
        "names what label outage accepts",
        "label storm accepts airline LH",
        "no label is about this time and outcome",
        "the gateway was down",
        "airline=AC → fare=3 → reserve",
        "440 of 2,100 in 1 h, 23.2 expected",
        "E17",
        "office BKK (60)",
        "recall@1",
        "2026-03-04 10:00 +07",
        "false_alarms_per_week",
    ):
        assert words in text, words
    assert "s3cret" not in text


def test_it_can_do_nothing_but_be_read(config: Config) -> None:
    text = render(backtest(config, [incident("aa", 51)]))
    page = Page(text)
    assert page.open == []
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "form", "object", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in style[1]
    assert "prefers-color-scheme: dark" in style[1]
    assert "@media print" in style[1]
    # For those who do not see it: a language, one h1, tables with headings, pictures with words.
    assert ("html", {"lang": "en"}) in page.tags
    assert [t for t, _ in page.tags].count("h1") == 1
    assert all(a.get("aria-label") or a.get("aria-hidden") for t, a in page.tags if t == "svg")
    assert all("scope" in a for t, a in page.tags if t == "th")
    names = [a["id"] for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names))
    used = [a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a]
    assert set(used) <= set(names)


@pytest.mark.parametrize(
    "attack",
    ['"><script>alert(1)</script>', "</style><script>", "{{ 7 * 7 }}", "x" * 3000, "&lt;", "'\"`="],
)
def test_values_of_the_log_and_of_labels_stay_words(config: Config, attack: str) -> None:
    nasty = finding(outcome="reserve", cause=Cause.of(airline=attack), path=(f"x={attack}", attack),
                    codes=(attack,), chain=(Cause(), Cause.of(airline=attack)),
                    runners_up=((Cause.of(airline=attack), 1.0),))  # fmt: skip
    label = Label(attack, START, START + 9 * STEP, "reserve", (Cause.of(a=attack),), event=attack)
    found = replace(
        backtest(config, [incident("aa", 2, finding=nasty)], (label,)),
        inputs=[attack], rejected={attack: 1},
    )  # fmt: skip
    page = Page(render(found))
    assert page.open == []
    assert not [t for t, _ in page.tags if t == "script"]
    assert "49" not in "".join(re.findall(r"<dd>(.*?)</dd>", render(found))) or attack[0] != "{"


def test_what_reorders_letters_is_shown_as_what_it_is(config: Config) -> None:
    turned = finding(cause=Cause.of(airline="AC\u202eTXT"), path=("airline=AC\u202eTXT", "reserve"))
    text = render(backtest(config, [incident("aa", 2, finding=turned)]))
    assert "\u202e" not in text
    assert "AC⟨U+202E⟩TXT" in text


def test_a_year_of_ticks_and_a_flood_of_incidents_make_a_bounded_page(config: Config) -> None:
    many = [incident(f"n{i:05}", i / 5) for i in range(1500)]
    text = render(backtest(config, many, ticks=365 * 48))
    assert len(text) < 2_500_000
    assert text.count("<article") == MOST_CARDS
    assert "1350 others are only in the table and in the JSON" in text
    assert "the first 1000 of 1500" in text
    assert "stands for 26 ticks" in text
    assert "Up to 900 failures a tick" in text  # one tick of a year


def test_without_a_tick_there_is_still_a_page(config: Config) -> None:
    found = backtest(config, [])
    empty = replace(found, series=Series([], [], [], [[], []], [[], []], [[], []], []))
    assert "No tick." in render(empty)


@given(st.lists(st.floats(0, 1e9), max_size=3 * COLUMNS))
def test_no_extreme_is_lost(values: list[float]) -> None:
    found = columns(values)
    assert len(found) <= COLUMNS
    if values:
        assert max(c.highest for c in found) == max(values)
        assert min(c.lowest for c in found) == min(values)


def test_a_spike_reaches_the_top_of_the_picture() -> None:
    values = np.ones(10_000)
    values[7_777] = 50.0
    drawing = draw(values.tolist(), np.full(10_000, 2.0).tolist())
    assert drawing.top == 50.0
    assert f"V{LOW:.1f}" in drawing.band
    assert f"{HEIGHT - (HEIGHT - LOW) * 2 / 50:.1f}" in drawing.line
