"""Every page in a real browser: both themes, a telephone, no script, a screen reader's rules."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.browser.everybody import for_everybody, overflowing, violations
from tests.browser.site import TOKEN, Site

pytestmark = [pytest.mark.slow, pytest.mark.service]

PAGES = (
    "overview", "incidents", "search", "nothing-found", "incident-open", "incident-acknowledged",
    "incident-resolved", "graph", "node", "node-search", "explore", "silences", "reports",
    "settings", "sign-in", "missing",
)  # fmt: skip


OTHERWISE_ON_A_TELEPHONE = (
    "overview",
    "incident-open",
    "explore",
    "silences",
    "reports",
    "settings",
)
"""Their tables become blocks; the other pages only grow longer."""


def test_the_list_of_pages_is_whole(site: Site) -> None:
    assert set(site.pages) == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_used_by_everybody(site: Site, open_page: Opener, name: str) -> None:
    page = open_page(color_scheme="light")
    page.goto(site.url + site.pages[name])
    for_everybody(page)
    if name in OTHERWISE_ON_A_TELEPHONE:
        assert violations(page, rules={"color-contrast": {"enabled": False}}) == []  # as before


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_whole_without_javascript(site: Site, open_page: Opener, name: str) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(site.url + site.pages[name])
    text = page.locator("main").inner_text()
    assert len(text) > 60
    times = page.locator("main time:visible")
    for shown in times.all_inner_texts()[:3]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", shown)


def test_the_first_screen_of_an_incident_tells_the_story(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    office = site.fresh.finding.cause.selector[0][1][0]
    visible = page.evaluate(
        """() => [...document.querySelectorAll("h1, .lead, .tiles div, .todo li")]
          .filter((e) => e.getBoundingClientRect().bottom <= innerHeight)
          .map((e) => e.innerText).join("\\n")"""
    )
    assert f"reserve fails for agent_office {office}" in visible  # what broke
    assert "since 2026-01-07 0" in visible  # since when, where the reader is
    assert "still going on" in visible
    assert re.search(r"\d+ of \d+ failed where [\d.]+ were expected", visible)  # how badly
    assert f"Look at agent_office {office} first" in visible  # why, and what to do
    assert "Open the runbook of reserve" in visible
    # A telephone's first screen has the headline and the sentence.
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert page.locator(".lead").bounding_box()["y"] < PHONE["height"] / 2  # type: ignore[index]


def test_an_incident_is_drawn_and_told_in_tables_too(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/incidents/{site.over.id}")
    path = site.over.finding.path
    boxes = page.locator(".picture.wide .box").evaluate_all(
        """boxes => boxes.map(
            b => [b.querySelector("title").textContent, b.getBoundingClientRect().x])"""
    )
    placed = dict(boxes)
    assert [placed[name] for name in path] == sorted(placed[name] for name in path)
    assert page.locator(".chart .bar.hot").count() >= 3
    assert page.locator(".chart .span.reference").count() == 1
    assert page.locator(".chart .expected").count() > 20
    page.get_by_text("As a table").first.click()
    rows = page.get_by_role("row").filter(has_text="2026-01-06")
    assert rows.count() >= 20
    strongest = page.locator(".picture .strength").all_text_contents()
    assert all(re.fullmatch(r"-?\d\.\d\d", strength) for strength in strongest)
    assert page.get_by_role("table").filter(has_text="agent_office").count() >= 1  # examples
    assert "airline" not in page.locator("#examples ~ .scroll thead").inner_text()


def test_the_path_leads_into_the_graph(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/incidents/{site.taken.id}")
    page.locator(".picture a").first.click()
    page.wait_for_url("**/graph?node=*")
    expect(page.locator("h1")).to_contain_text("fare_source=FS")
    expect(page.locator(".picture .box.root")).to_have_count(1)
    page.get_by_role("link", name="2 hops").click()
    expect(page.locator(".picture .box").nth(2)).to_be_visible()


def test_times_stand_in_the_readers_zone_with_utc_on_hover(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/incidents/{site.over.id}")
    began = page.locator(".lead time")
    assert began.get_attribute("datetime") == f"{site.over.finding.began:%Y-%m-%dT%H:%M:%SZ}"
    assert began.get_attribute("title") == f"{site.over.finding.began:%Y-%m-%d %H:%M} UTC"
    assert re.search(r"\d\d:\d\d (EST|GMT-5)$", began.inner_text())
    assert "America/New_York, UTC on hover" in page.locator("footer").inner_text()
    ages = page.locator("time + .ago").all_inner_texts()
    assert ages
    assert all(re.fullmatch(r"\((in )?[\d,]+ (min|h|days)( ago)?\)", age) for age in ages)


def test_on_a_telephone_the_path_runs_down_the_page(site: Site, open_page: Opener) -> None:
    page = open_page(viewport=PHONE)
    page.goto(f"{site.url}/incidents/{site.over.id}")
    expect(page.locator(".picture.wide")).to_be_hidden()
    shown = page.locator(".picture.narrow svg").bounding_box()
    assert shown is not None
    assert shown["x"] + shown["width"] <= PHONE["width"]
    page.get_by_role("link", name="Zoom to the incident").click()
    expect(page.get_by_role("link", name="with the days before")).to_be_visible()
    hot, bars = page.locator(".chart .bar.hot").count(), page.locator(".chart .bar").count()
    assert hot >= bars / 3


def test_the_list_is_filtered_without_javascript(site: Site, open_page: Opener) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{site.url}/incidents")
    page.get_by_label("Search").fill("fare_source")
    page.get_by_label("Outcome").select_option("pay")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("text=fare_source"))
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator(".card")).to_have_attribute("href", f"/incidents/{site.taken.id}")
    page.get_by_role("link", name="Clear").click()
    expect(page.locator(".card").nth(2)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_explore_fits_and_a_value_is_a_link(
    site: Site, open_page: Opener, width: int, theme: str
) -> None:
    page = open_page(color_scheme=theme, viewport={"width": width, "height": 900})
    page.goto(f"{site.url}/explore?outcome=pay")
    assert violations(page) == []
    assert overflowing(page) == []
    page.locator(".breakdowns a").first.click()
    expect(page).to_have_url(re.compile("where="))


def test_explore_is_asked_without_javascript(site: Site, open_page: Opener) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{site.url}/explore")
    page.get_by_label("Outcome").select_option("pay")
    cause, values = site.taken.finding.cause.selector[0]
    page.get_by_label("Only rows with").first.fill(f"{cause}={values[0]}")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("h1")).to_have_text("Explore pay")
    expect(page.get_by_role("link", name=f"Remove {cause} {values[0]}")).to_have_count(1)
    expect(page.locator("main table caption").first).to_be_attached()


def test_the_theme_is_switched_without_javascript(site: Site, open_page: Opener) -> None:
    page = open_page(java_script_enabled=False, color_scheme="light")
    page.goto(f"{site.url}/graph")
    page.get_by_role("button", name="Theme: auto").click()
    expect(page.locator("body")).to_have_css("background-color", "rgb(18, 21, 26)")
    expect(page).to_have_url(f"{site.url}/graph")
    page.get_by_role("button", name="Theme: dark").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.get_by_role("button", name="Theme: auto")).to_have_count(1)


def test_a_report_is_shown_and_its_script_does_not_run(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/reports")
    blocked: list[str] = []
    page.context.on("console", lambda said: blocked.append(said.text))
    reader = page.context.new_page()
    reader.goto(f"{site.url}/reports/january.html")
    assert reader.title() == "January"
    assert any("sandbox" in text for text in blocked)
    assert reader.evaluate("getComputedStyle(document.querySelector('h1')).color") == (
        "rgb(0, 128, 128)"
    )


def test_what_is_printed_has_the_story_and_no_buttons(site: Site, open_page: Opener) -> None:
    page = open_page(color_scheme="dark")
    page.goto(f"{site.url}/incidents/{site.over.id}")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".lead").is_visible()
    assert page.locator(".chart").first.is_visible()
    for gone in ("nav[aria-label=Main]", ".actions", ".mine"):
        assert not page.locator(gone).is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


# Acting


def test_nothing_is_changed_without_the_token(site: Site, open_page: Opener) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    page.get_by_text("Acknowledge or judge").click()
    page.get_by_label("Your name").fill("eve")
    page.get_by_label("Token").fill("guess")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("h1")).to_have_text("Not allowed")
    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    assert page.locator(".incident-head .state").inner_text().lower() == "open"


@pytest.mark.parametrize("script", [True, False])
def test_an_operator_signs_in_judges_and_silences(
    site: Site, open_page: Opener, script: bool
) -> None:
    page = open_page(java_script_enabled=script)
    page.goto(f"{site.url}/incidents/{site.over.id}")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Your name").fill("maria")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the right one")
    page.get_by_label("Your name").fill("maria")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{site.url}/incidents/{site.over.id}")
    page.get_by_label("Note").fill(f"looked at it, script {script}")
    page.get_by_label("Verdict").select_option("expected")
    page.get_by_role("button", name="Save verdict").click()
    expect(page.locator(".incident-head")).to_contain_text("judged true, but expected")
    expect(page.locator(".history")).to_contain_text(f"looked at it, script {script}")

    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    page.get_by_role("link", name="Silence its like").click()
    expect(page.get_by_label("Matchers")).to_have_value(re.compile("agent_office="))
    page.get_by_label("Note").fill("being mended")
    page.get_by_role("button", name="Silence").click()
    expect(page.locator("main")).to_contain_text("being mended")
    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    assert "nobody is told until" in page.locator(".incident-head").inner_text()
    page.goto(f"{site.url}/silences")
    page.get_by_role("button", name="End it now").first.click()
    expect(page.locator("main")).to_contain_text("ended by maria")
    page.get_by_role("button", name="Sign out maria").click()
    expect(page.get_by_role("link", name="Sign in")).to_have_count(1)


def test_a_keyboard_is_enough(site: Site, open_page: Opener) -> None:
    page = open_page()
    page.goto(f"{site.url}/incidents/{site.fresh.id}")
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the content"
    expect(skip).to_have_css("top", "0px")  # it slides in, and shows itself
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    seen: list[str] = []
    for _ in range(120):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
              const box = e.querySelector("rect");
              return { what: e.name || e.innerText || e.textContent, tag: e.tagName,
                ring: s.outlineStyle !== "none" ||
                  (box !== null && getComputedStyle(box).strokeWidth === "4px") }; }"""
        )
        if focus["tag"] == "BODY":
            break
        assert focus["ring"], focus
        seen.append(focus["what"].strip())
        if "Acknowledge or judge" in focus["what"]:
            page.keyboard.press("Enter")
        if focus["what"] == "actor":
            page.keyboard.type("keyboard-user")
        if focus["what"] == "token":
            page.keyboard.type(TOKEN)
        if focus["what"] == "note":
            page.keyboard.type("by hand")
        if focus["what"] == "Acknowledge":
            page.keyboard.press("Enter")
            break
    assert "Acknowledge or judge" in seen
    page.wait_for_url(f"**/incidents/{site.fresh.id}")
    assert page.locator(".incident-head .state").inner_text().lower() == "acknowledged"
    assert "by keyboard-user: by hand" in page.locator(".history").inner_text()
