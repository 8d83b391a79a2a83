"""Values, notes and names that want to be markup, or to turn a page around, stay what they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from monitor.domain import (
    Cause,
    Change,
    Edge,
    Incident,
    Notification,
    OutcomeCount,
    Rejected,
    State,
)
from monitor.edge.http import serve
from monitor.edge.metrics import Metrics
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Verdict, Work, open_store
from monitor.exhibits import Example, Exhibit, Gone, Link, Material, Point
from tests.browser.conftest import PHONE, Opener
from tests.browser.everybody import overflowing, violations
from tests.samples import HOUR, NOON, finding, tick

pytestmark = [pytest.mark.slow, pytest.mark.service]

HOSTILE = {
    "markup": "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "quotes": "\"'`><b onmouseover=alert(3)>&amp;&lt;{{7*7}}${7*7}",
    "turned": "safe\u202egnp.exe\u2066\u200b\u200f\ufeff",
    "lines": "one\ntwo\r\n\tthree\x00\x1b[31m",
    "long": "x" * 300,
    "arabic": "خطوط الطيران שלום " * 12,
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that shows an incident of every kind of hostile value, everywhere a value goes."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    incidents, shown = [], Material()
    for number, (name, text) in enumerate(HOSTILE.items()):
        found = finding(
            outcome=text, cause=Cause.from_json({text: [text, f"{text}2"]}),
            path=(f"{text}={text}", f"mediator={text}", text), codes=(text,),
            chain=(Cause(), Cause.from_json({text: [text]})),
            runners_up=((Cause.from_json({text: [text]}), 3.0),),
        )  # fmt: skip
        at = NOON - number * HOUR
        incidents.append(
            Incident(name, State.OPEN, at, at, at, found, found, causes=(found.cause, Cause()))
        )
        path = found.path
        links = (Link(path[0], path[1], 0.4, at), Link(path[1], path[2], -0.2, None))
        shown.exhibits[name] = Exhibit(
            at, links, links[:1], (Gone(path[0], text, 0.1, at),), (text,),
            (Example((text,), 3, at),),
        )  # fmt: skip
        shown.series[name] = {at: Point(at, 10, 5, 1.0)}
        shown.totals[text] = {NOON - HOUR: Point(NOON - HOUR, 10, 5, 1.0)}
    store.commit(
        Work(
            incidents=tuple(incidents),
            material=shown,
            notifications=tuple(Notification(i, Change.OPENED, NOON) for i in incidents),
            notifiers=("log",),
            rejected=tuple(
                Rejected(text[:100].replace("\0", ""), text, text) for text in HOSTILE.values()
            ),
        )
    )
    now = datetime.now(UTC)
    for item in store.due(NOON):
        store.failed(item, HOSTILE["markup"] + HOSTILE["turned"], None)
    for name, text in HOSTILE.items():
        clean = text.replace("\0", "")
        store.acknowledge(name, NOON, clean, clean)
        store.label(name, Verdict.FALSE, NOON, clean, clean)
        store.add_silence(Silence.of([f"outcome={text}"], now + HOUR, now, clean, clean))
    edges = tuple(
        Edge(source, target, 0.5)
        for text in HOSTILE.values()
        for source, target in ((f"{text}={text}", f"mediator={text}"), (f"mediator={text}", text))
    )
    status = Status(
        stage="", source=HOSTILE["markup"], standby="", started_at=NOON, watermark=NOON,
        diagnosis=tick(
            finding(), edges=edges,
            outcomes=tuple(OutcomeCount(text, 5, 1.0) for text in HOSTILE.values()),
            unexplained=dict.fromkeys(HOSTILE.values(), 0.5),
        ),
    )  # fmt: skip
    handle = serve(LiveState(store, Metrics(), status), token="token")
    yield handle.url
    handle.stop()
    store.close()


def addresses() -> list[str]:
    texts = [quote(text) for text in HOSTILE.values()]
    return [
        "/", "/incidents", "/silences", "/graph",
        *(f"/incidents/{name}" for name in HOSTILE),
        *(f"/incidents/{text}" for text in texts[:3]),
        *(f"/incidents?text={text}&outcome={text}&since={text}" for text in texts[:2]),
        *(f"/graph?node={quote(f'mediator={text}')}&hops=2" for text in HOSTILE.values()),
        *(f"/graph?q={text}" for text in texts[:2]),
        *(f"/silences?match={text}" for text in texts[:3]),
        *(f"{page}{texts[0]}" for page in ("/sign-in?next=", "/reports/", "/nowhere/")),
    ]  # fmt: skip


def test_hostile_values_are_shown_and_do_nothing(hostile: str, open_page: Opener) -> None:
    page = open_page(viewport=PHONE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in addresses():
        answer = page.goto(hostile + path)
        assert answer is not None
        assert answer.status in (200, 400, 404), path
        scripts = page.locator("script").evaluate_all("all => all.map(s => s.getAttribute('src'))")
        assert [s.split("?")[0] for s in scripts] == ["/console.js"], path
        assert page.locator("img, b, iframe, object").count() == 0, path
        assert overflowing(page) == [], path
        text = page.locator("body").inner_text()
        for sign in "\u202e\u2066\u200b\u200f\ufeff\x1b":
            assert sign not in text, (path, hex(ord(sign)))
    assert all(url.startswith((hostile, "data:")) for url in asked)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_of_hostile_values_still_has_its_form(
    hostile: str, open_page: Opener, name: str
) -> None:
    page = open_page()
    page.goto(f"{hostile}/incidents/{name}")
    if name in ("markup", "long"):
        assert violations(page) == []
    text = page.locator("main").inner_text()
    if name == "turned":
        assert "safe⟨U+202E⟩gnp.exe" in text
    elif name == "lines":
        assert "one⟨U+000A⟩two" in text
    elif name == "long":
        assert "x" * 300 in text
    else:
        assert HOSTILE[name].strip() in text
    # What a form is filled with survives the way there and back.
    page.locator("#act summary").click()
    page.get_by_role("link", name="Silence its like").click()
    first = HOSTILE[name].splitlines()[0]
    assert first[:40] in page.get_by_label("Matchers").input_value()
