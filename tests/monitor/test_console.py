"""The console without a browser: signing in, secrets, reports, pictures and charts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from monitor.config import Config, load
from monitor.config.listing import SECRET, listing
from monitor.domain import Cause, Edge, Incident, State
from monitor.edge.console import picture
from monitor.edge.console.charts import chart
from monitor.edge.console.layout import BOX_HEIGHT, BOX_WIDTH, lay_out
from monitor.edge.console.leading import MOST_BEHIND
from monitor.edge.http import make_app
from monitor.edge.http.signing import COOKIE, Sessions, local_path
from monitor.edge.metrics import Metrics
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from monitor.exhibits import Example, Exhibit, Link, Material, Point
from tests.samples import NOON, finding, tick

HALF_HOUR = timedelta(minutes=30)
FINDING = finding()


def configured(folder: Path, more: str = "") -> Config:
    (folder / "token").write_text("t0p-s3cret")
    (folder / "monitor.toml").write_text(
        """
        [schema]
        time = "at"
        attributes = ["airline", "fare"]
        outcomes = [{ name = "reserve", when = "failed == 1" }]
        [http]
        token_file = "token"
        """
        + more
    )
    return load(folder / "monitor.toml", {})


@pytest.fixture
def state() -> LiveState:
    store = MemoryStore()
    one = Incident("a1b2", State.OPEN, NOON, NOON, NOON, FINDING, FINDING, causes=(FINDING.cause,))
    store.commit(Work(incidents=(one,)))
    return LiveState(store, Metrics(), Status(stage="", diagnosis=tick(FINDING)))


@pytest.fixture
def client(state: LiveState) -> Iterator[TestClient]:
    with TestClient(make_app(state, token="s3cret"), base_url="http://localhost") as client:
        yield client


def sign_in(client: TestClient, token: str = "s3cret", **fields: str) -> Response:
    sent = {"actor": "maria", "token": token, "next": "/silences", **fields}
    return client.post("/sign-in", data=sent, follow_redirects=False)


def csrf(client: TestClient) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/silences").text)
    assert found
    return found[1]


# Signing in


def test_who_has_signed_in_acts_without_giving_the_token_again(
    state: LiveState, client: TestClient
) -> None:
    answer = sign_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/silences")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "s3cret" not in cookie
    page = client.get("/incidents/a1b2").text
    assert "Sign out" in page
    assert 'name="token"' not in page
    fields = {"csrf": csrf(client), "note": "on it"}
    assert client.post("/incidents/a1b2/acknowledge", data=fields).status_code == 200
    entry = state.store.audit("a1b2")[-1]
    assert (entry.kind, entry.actor, entry.note) == ("acknowledged", "maria", "on it")


def test_another_site_cannot_use_the_session(state: LiveState, client: TestClient) -> None:
    sign_in(client)
    for wrong in ({"note": ""}, {"csrf": ""}, {"csrf": "0" * 32}, {"csrf": "ä"}):
        sent = client.post("/incidents/a1b2/acknowledge", data={**wrong, "actor": "eve"})
        assert sent.status_code == 403
        assert client.post("/sign-out", data=wrong).status_code == 403
    assert state.store.incident("a1b2").state is State.OPEN


def test_programs_cannot_change_anything_by_cookie(state: LiveState, client: TestClient) -> None:
    sign_in(client)
    sent = client.post("/api/v1/incidents/a1b2/acknowledge", json={"actor": "x"})
    assert sent.status_code == 401


def test_signing_out_ends_it(client: TestClient) -> None:
    sign_in(client)
    mark = csrf(client)
    client.post("/sign-out", data={"csrf": mark})
    page = client.get("/incidents/a1b2").text
    assert "Sign in" in page
    assert 'name="token"' in page
    assert client.post("/incidents/a1b2/acknowledge", data={"csrf": mark}).status_code == 403


@pytest.mark.parametrize("wrong", [{"token": "S3cret"}, {"token": ""}, {"actor": ""}])
def test_a_wrong_token_signs_nobody_in(client: TestClient, wrong: dict[str, str]) -> None:
    answer = sign_in(client, **wrong)
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text


def test_a_cookie_is_good_for_half_a_day_and_for_one_token() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    request = Request(scope | {"server": ("localhost", 80), "scheme": "http"})
    answer, sessions = Response(), Sessions("one")
    sessions.start(answer, request, "maría ✈", noon)
    value = re.search(f"{COOKIE}=([^;]+)", answer.headers["set-cookie"])[1]
    later = noon + timedelta(hours=11)
    assert sessions.signed_in({COOKIE: value}, later).actor == "maría ✈"
    assert sessions.signed_in({COOKIE: value}, noon + timedelta(hours=12)) is None
    assert Sessions("two").signed_in({COOKIE: value}, later) is None
    assert Sessions(None).signed_in({COOKIE: value}, later) is None
    until, rest = value.split(".", 1)
    for forged in (f"{int(until) + 99}.{rest}", value[:-1], value + "0", "", "...", "x" * 9999):
        assert sessions.signed_in({COOKIE: forged}, later) is None


@pytest.mark.parametrize(
    "elsewhere",
    ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "", "/a\nb", "/ü"],
)
def test_signing_in_leads_to_no_other_site(client: TestClient, elsewhere: str) -> None:
    assert local_path(elsewhere) == "/"
    assert sign_in(client, next=elsewhere).headers["location"] == "/"
    theme = client.post("/theme", data={"theme": "dark", "next": elsewhere}, follow_redirects=False)
    assert theme.headers["location"] == "/"


def test_through_a_proxy_reading_asks_for_the_token_as_from_elsewhere(state: LiveState) -> None:
    app = make_app(state, token="s3cret", public_url="https://monitor.example")
    client = TestClient(app, base_url="https://monitor.example")
    assert client.get("/").status_code == 401
    browser = {"Accept": "text/html,*/*"}
    asked = client.get("/incidents?state=open", headers=browser, follow_redirects=False)
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/sign-in?next=%2Fincidents%3Fstate%3Dopen",
    )
    assert client.get("/sign-in").status_code == 200
    assert client.get("/console.css").status_code == 200
    answer = sign_in(client)
    assert "secure" in answer.headers["set-cookie"].lower()
    assert client.get("/").status_code == 200
    assert client.get("/api/v1/status").status_code == 200
    other = TestClient(app, base_url="https://evil.example")
    assert other.get("/").status_code == 421


def test_a_standby_shows_and_signs_in_but_changes_nothing(
    state: LiveState, client: TestClient
) -> None:
    state.status = replace(state.status, standby="host-b, process 7")
    assert sign_in(client).status_code == 303
    page = client.get("/incidents/a1b2").text
    assert "host-b, process 7" in page
    assert 'action="/incidents' not in page
    sent = client.post("/incidents/a1b2/acknowledge", data={"csrf": csrf(client)})
    assert sent.status_code == 409
    assert "change it there" in sent.text
    assert "<h1" in sent.text


def test_the_theme_is_remembered_by_the_browser(client: TestClient) -> None:
    assert 'data-theme="auto"' in client.get("/").text
    for theme in ("dark", "light"):
        back = client.post("/theme", data={"theme": theme, "next": "/graph"})
        assert back.url.path == "/graph"
        assert f'data-theme="{theme}"' in back.text
    assert 'data-theme="auto"' in client.post("/theme", data={"theme": "auto"}).text
    assert client.post("/theme", data={"theme": "neon"}).status_code == 400


# Settings


def test_settings_are_shown_and_secrets_are_not(
    state: LiveState, client: TestClient, tmp_path: Path
) -> None:
    for name in ("hook", "mail", "ping", "db"):
        (tmp_path / name).write_text(
            f"https://user:{name}-s3cret@{name}.example/key-s3cret?x=s3cret"
        )
    (tmp_path / "db").write_text("postgresql://monitor:db-s3cret@db/monitor")
    config = configured(
        tmp_path,
        """
        [store]
        url_file = "db"
        [heartbeat]
        url_file = "ping"
        [window]
        slice_length = "15m"
        [[notifiers]]
        kind = "webhook"
        url = "https://hooks.example/services/path-s3cret"
        secret_file = "hook"
        """,
    )
    state.status = replace(state.status, config=config)
    page = client.get("/settings").text
    assert "s3cret" not in page
    assert SECRET in page
    assert "https://hooks.example/…" in page
    assert ">15m<" in page
    assert "A diagnosis runs at the end of each slice." in page
    groups = {group.name: group for group in listing(config)}
    window = {one.key: one for one in groups["[window]"].settings}
    assert (window["slice_length"].default, window["length"].default) == (False, True)
    http = {one.key: one.value for one in groups["[http]"].settings}
    assert http["token_file"] == SECRET


def test_the_demo_has_no_settings(client: TestClient) -> None:
    assert "There is no configuration here" in client.get("/settings").text


# Reports


def test_reports_are_listed_and_can_do_nothing(
    state: LiveState, client: TestClient, tmp_path: Path
) -> None:
    assert "No folder is configured" in client.get("/reports").text
    folder = tmp_path / "reports"
    folder.mkdir()
    config = configured(tmp_path, '[console]\nreports = "reports"')
    state.status = replace(state.status, config=config)
    assert "The folder is empty" in client.get("/reports").text
    text = "<h1>March</h1><script>alert(1)</script>"
    (folder / "march 2013 <b>.html").write_text(text)
    (folder / "notes.txt").write_text("not a report")
    (tmp_path / "outside.html").write_text("secret")
    os.symlink(tmp_path / "outside.html", folder / "link.html")
    (folder / "folder.html").mkdir()
    state.change()
    page = client.get("/reports").text
    assert re.findall('href="(/reports/[^"]+)"', page) == ["/reports/march%202013%20%3Cb%3E.html"]
    answer = client.get("/reports/march%202013%20%3Cb%3E.html")
    assert answer.text == text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    for name in ("link.html", "folder.html", "notes.txt", "..%2Foutside.html", "nope.html"):
        missing = client.get(f"/reports/{name}")
        assert missing.status_code == 404
        assert "secret" not in missing.text


# Pages that need data


def test_an_old_incident_says_what_was_not_kept(client: TestClient) -> None:
    page = client.get("/incidents/a1b2").text
    assert "kept no course of it" in page
    assert "kept no graph of it" in page


def test_the_page_shows_course_changes_and_allowed_examples(
    state: LiveState, client: TestClient, tmp_path: Path
) -> None:
    start = NOON - 96 * HALF_HOUR
    points = [Point(start + n * HALF_HOUR, 100, 30 if n > 93 else 1, 1.0) for n in range(97)]
    since = NOON - HALF_HOUR
    exhibit = Exhibit(
        NOON,
        links=(Link("airline=AC", "fare=3", 0.61, since), Link("fare=3", "reserve", 0.3, None)),
        came=(Link("airline=AC", "fare=3", 0.61, since),),
        columns=("airline", "fare"),
        examples=(Example(("AC", "FARE-THREE"), 12, since),),
    )
    shown = Material({"a1b2": {p.start: p for p in points}}, exhibits={"a1b2": exhibit})
    state.store.commit(Work(material=shown))
    allowed = (
        '[console]\nexample_columns = ["airline"]\nrunbook_url = "https://wiki.example/{outcome}"'
    )
    state.status = replace(state.status, config=configured(tmp_path, allowed))
    page = client.get("/incidents/a1b2").text
    assert page.count('class="bar hot"') == 3
    assert 'class="span reference" x="0.0%"' in page
    assert "0.61" in page
    assert "2026-03-01 11:30 UTC" in page
    assert 'href="https://wiki.example/reserve"' in page
    # Kept when two columns were allowed; now it is one.
    assert "FARE-THREE" not in page
    assert ">12<" in page


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("?text=airline%3DAC+E17", "/incidents/a1b2"),
        ("?text=nobody", "No incident matches"),
        ("?severity=critical", "No incident matches"),
        ("?since=2026-03-01T11:00&until=2026-03-01T13:00", "/incidents/a1b2"),
        ("?until=2026-03-01T11:00Z", "No incident matches"),
        ("?outcome=unheard-of", 'value="unheard-of" selected'),
    ],
)
def test_the_list_is_searched_by_its_address(
    state: LiveState, client: TestClient, question: str, words: str
) -> None:
    one = state.store.incident("a1b2")
    coded = replace(FINDING, codes=("E17",))
    state.store.commit(Work(incidents=(replace(one, finding=coded),)))
    assert words in client.get(f"/incidents{question}").text


def test_a_wrong_question_gets_a_page_that_helps(client: TestClient) -> None:
    wrong = client.get("/incidents?since=yesterday")
    assert wrong.status_code == 400
    assert "since=&#39;yesterday&#39; is no ISO-8601 time" in wrong.text
    missing = client.get("/incidents/ffff")
    assert missing.status_code == 404
    assert 'name="text"' in missing.text
    assert client.get("/graph?hops=9").status_code == 400


def test_a_bug_is_a_page_that_names_itself(state: LiveState, client: TestClient) -> None:
    class Buggy(MemoryStore):
        def silences(self, *_: object, **__: object) -> list[Silence]:
            raise RuntimeError("boom")

    state.store = Buggy()
    page = client.get("/silences", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert re.search("its log has it under urn:uuid:[0-9a-f-]{36}", page.text)
    assert "boom" not in page.text
    assert client.get("/silences").headers["content-type"] == "application/problem+json"


def test_nodes_are_found_and_shown_with_their_neighbours(
    state: LiveState, client: TestClient
) -> None:
    edges = tuple(Edge(f"office={n:02}", "airline=AC", 0.1) for n in range(60))
    edges += (Edge("airline=AC", "reserve", 0.5),)
    state.status = replace(state.status, diagnosis=tick(FINDING, edges=edges))
    assert "60 nodes" in client.get("/graph?q=office").text
    assert "<h1><bdi>reserve</bdi></h1>" in client.get("/graph?q=reserve").text
    near = client.get("/graph?node=reserve").text
    assert "office=" not in near.split("<main")[1].split('<div class="picture')[1]
    far = client.get("/graph?node=reserve&hops=2").text
    assert "Only the strongest of its neighbours are drawn" in far
    assert far.count('<g class="box') == picture.MOST_NODES


def test_signs_that_reorder_text_are_written_out(state: LiveState, client: TestClient) -> None:
    nasty = "safe\u202etxt.exe"
    found = finding(cause=Cause.of(airline=nasty), path=(f"airline={nasty}", "reserve"))
    one = state.store.incident("a1b2")
    state.store.commit(Work(incidents=(replace(one, finding=found, latest=found),)))
    state.store.acknowledge("a1b2", NOON, "ma\u2066ria", "line\nbreak")
    silence = Silence.of(
        ["outcome=\u202epay"], NOON + timedelta(days=1), NOON, "x\u200b", "n\u202e"
    )
    state.store.add_silence(silence)
    for path in ("/", "/incidents", "/incidents/a1b2", "/silences"):
        text = client.get(path).text
        assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text), path
    assert "⟨U+202E⟩" in client.get("/incidents/a1b2").text


# Pictures


def test_a_layout_has_causes_on_the_left_and_no_box_upon_another() -> None:
    nodes = ["a", "b1", "b2", "b3", "end", "alone"]
    edges = [(a, b) for b in ("b1", "b2", "b3") for a, b in (("a", b), (b, "end"))]
    edges += [("a", "end"), ("a", "a"), ("a", "nowhere"), ("a", "b1")]
    layout = lay_out(nodes, edges)
    x = {name: place[0] for name, place in layout.boxes.items()}
    assert x["a"] < x["b1"] == x["b2"] == x["b3"] < x["end"]
    places = list(layout.boxes.values())
    for i, (x1, y1) in enumerate(places):
        assert 0 <= x1 <= layout.width - BOX_WIDTH
        assert 0 <= y1 <= layout.height - BOX_HEIGHT
        for x2, y2 in places[i + 1 :]:
            assert abs(x1 - x2) >= BOX_WIDTH or abs(y1 - y2) >= BOX_HEIGHT
    assert len(layout.curves) == 7
    assert lay_out(nodes, edges) == layout


def test_a_graph_with_a_cycle_is_drawn_too() -> None:
    layout = lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a")])
    assert len(layout.curves) == 3


def test_a_picture_of_an_incident_marks_path_root_and_outcome() -> None:
    path = ("airline=AC", "fare=3", "reserve")
    links = [
        Link("airline=AC", "fare=3", 0.5, NOON),
        Link("airline=AC", "fare=9", 0.4, None),
        Link("fare=9", "reserve", 0.4, None),
    ]
    drawn, narrow = picture.of_incident(path, ["airline=AC"], links)
    assert {box.name for box in narrow.boxes} == {box.name for box in drawn.boxes}
    kinds = {box.name: box.kind for box in drawn.boxes}
    assert kinds == {
        "airline=AC": "root",
        "fare=3": "path",
        "reserve": "outcome",
        "fare=9": "other",
    }
    lines = {(line.source, line.target): line for line in drawn.lines}
    assert lines["airline=AC", "fare=3"].fresh
    assert lines["airline=AC", "fare=3"].width > lines["fare=9", "reserve"].width
    assert not lines["fare=3", "reserve"].learned  # the graph has forgotten it
    assert sum(line.on_path for line in drawn.lines) == 2
    assert len(picture.of_incident(("reserve",), [], [])[0].boxes) == 1
    everything, _ = picture.of_incident(("everything", "reserve"), [], [])
    assert [box.kind for box in everything.boxes] == ["root", "outcome"]


def test_the_path_leads_and_rivals_are_only_in_the_table() -> None:
    path = ("carrier=AC", "code=E1", "reserve")
    links = [Link("carrier=AC", f"carrier=R{n}", -1.0, None) for n in range(9)]
    links += [Link("carrier=AC", "code=E1", 0.2, None), Link("code=E1", "reserve", 0.3, None)]
    links += [Link("carrier=AC", f"code=E{n}", 0.1, None) for n in range(2, 12)]
    links += [Link(f"code=E{n}", "reserve", 0.1 * n, None) for n in range(2, 12)]
    wide, narrow = picture.of_incident(path, ["carrier=AC"], links)
    assert not any("=R" in box.name for box in wide.boxes)
    assert len(wide.boxes) == 3 + MOST_BEHIND
    assert wide.left_out == 9 + 2 * (10 - MOST_BEHIND)
    at = {box.name: (box.x, box.y) for box in wide.boxes}
    assert len({at[name][1] for name in path}) == 1, "the path is a straight line"
    assert [at[name][0] for name in path] == sorted(at[name][0] for name in path)
    assert all(at[box.name][1] > at["reserve"][1] for box in wide.boxes if box.kind == "other")
    below = {box.name: (box.x, box.y) for box in narrow.boxes}
    assert narrow.width < 340, "a telephone's width"
    assert [below[name][1] for name in path] == sorted(below[name][1] for name in path)
    for drawn in (wide, narrow):
        for one, other in combinations(drawn.boxes, 2):
            beside = abs(one.x - other.x) >= drawn.box_width
            assert beside or abs(one.y - other.y) >= drawn.box_height


def test_a_cause_of_two_values_and_edges_that_run_back_are_drawn() -> None:
    path = ("a=1", "b=2", "c=3", "pay")
    links = [Link("c=3", "b=2", 0.2, None), Link("b=2", "pay", 0.2, None)]
    for drawn in picture.of_incident(path, ["a=1", "z=9"], links):
        assert {box.name for box in drawn.boxes} == {*path, "z=9"}
        assert len(drawn.lines) == 5
        assert all(0 <= line.x <= drawn.width for line in drawn.lines)


# Charts


def points(count: int, observed: int = 4, rows: int = 100) -> list[Point]:
    return [Point(NOON + n * HALF_HOUR, rows, observed, 2.0) for n in range(count)]


def test_a_chart_is_in_per_cent_and_tells_its_parts() -> None:
    drawn = chart(
        points(4),
        HALF_HOUR,
        100,
        hot=[(NOON + HALF_HOUR, NOON + 2 * HALF_HOUR)],
        spans=[("judged", NOON, NOON + HALF_HOUR), ("reference", NOON - HALF_HOUR, NOON)],
        marks=[(NOON + HALF_HOUR, "reported"), (NOON - HALF_HOUR, "long ago")],
    )
    assert drawn is not None
    assert [bar.hot for bar in drawn.bars] == [False, True, False, False]
    assert [(s.kind, s.x, s.width) for s in drawn.spans] == [("judged", 0.0, 25.0)]
    assert [m.label for m in drawn.marks] == ["reported"]
    assert drawn.bars[0].height == 100
    assert not drawn.rate
    assert drawn.expected[0].y1 == 50
    assert drawn.bars[0].title == "2026-03-01 12:00–12:30 UTC: 4 failed, 4.0 % of 100, 2 expected"
    assert chart([], HALF_HOUR, 100) is None


def test_a_chart_has_the_rate_above_the_counts() -> None:
    drawn = chart([*points(2), *points(4, 8, 400)[2:]], HALF_HOUR, 200, head=20, rate=60)
    assert drawn is not None
    rate, floor = drawn.floors
    assert all(20 <= step.y1 <= rate for step in drawn.rate)
    assert all(rate < bar.y < floor for bar in drawn.bars)
    assert drawn.rate[0].y1 < drawn.rate[-1].y1, "half the rate, though twice the failures"
    assert [level.label for level in drawn.rate_levels] == ["4.0 %"]


def test_a_long_course_is_drawn_with_fewer_bars_and_loses_no_failure() -> None:
    long = points(1440)
    drawn = chart(long, HALF_HOUR, 100)
    assert drawn is not None
    assert len(drawn.bars) <= 144
    assert sum(p.observed for p in drawn.points) == sum(p.observed for p in long)
    assert len(drawn.ticks) <= 8


def test_a_gap_in_the_data_is_a_gap_in_the_chart() -> None:
    whole = points(10)
    drawn = chart([*whole[:3], *whole[7:]], HALF_HOUR, 100)
    assert drawn is not None
    assert [round(bar.x) for bar in drawn.bars] == [1, 11, 21, 71, 81, 91]


@pytest.mark.parametrize("top", [1, 2, 7, 10, 99, 12_345])
def test_the_levels_lie_within_the_chart(top: int) -> None:
    drawn = chart(points(3, observed=top, rows=top), HALF_HOUR, 100, head=30)
    assert drawn is not None
    assert 1 <= len(drawn.levels) <= 2
    assert all(30 <= level.y < 100 for level in drawn.levels)


def test_many_pictures_are_drawn_at_once() -> None:
    """Readers come in threads; what draws the layers keeps its place in a class."""
    graphs = [
        (
            [f"{g}.{i}" for i in range(12)],
            [(f"{g}.{i}", f"{g}.{j}") for i in range(6) for j in (6, 11)],
        )
        for g in range(40)
    ]
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda graph: lay_out(*graph), graphs))
    assert all(len(layout.boxes) == 12 for layout in drawn)
    assert len({tuple(layout.boxes.values()) for layout in drawn}) == 1
