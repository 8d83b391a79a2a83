"""Explore: the same answer from rows and from digests, as far as digests know it; and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from monitor.domain import datetime64, utc
from monitor.edge import exploring
from monitor.edge.digesting import BLOCK, part_from_bytes
from monitor.edge.exploring import Answer, Explorer, Question
from monitor.edge.http import make_app
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Store, Work
from monitor.edge.store.memory import MemoryStore
from monitor.evolution import Meaning
from monitor.learning import Learned
from monitor.session import Session
from tests.monitor.test_console import configured
from tests.monitor.towns import SETTINGS, Outage, Town, start_of

HOURS = 31
HERE = "http://127.0.0.1"
TOWN = Town((Outage(30, 62, cause={"airline": "AC"}),), rows=120)
MEANING = Meaning.of(SETTINGS, {})
BEGAN = utc(start_of(0))


class Nothing:
    """Learns no graph: none is looked at here."""

    def __init__(self, *_: object) -> None: ...

    def learn(self, encoding) -> Learned:
        return Learned.nothing(encoding)

    def to_arrays(self) -> dict[str, object]:
        return {}

    def restore(self, arrays: object) -> None: ...


@pytest.fixture(scope="module")
def town() -> Iterator[tuple[Session, Store]]:
    store = MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.session.LeastLearner", Nothing)
        patch.setattr("monitor.edge.digesting._BATCH", 16)  # more than one even here
        session = Session(SETTINGS, store, digests=True)
        for a, values in enumerate(TOWN.vocabulary().to_json().values()):
            session.vocabulary.encode(a, values)
        for number in range(2 * HOURS):
            session.tick(TOWN.slice(number))
            session.commit()
        yield session, store


def ask(store: Store, *conditions: tuple[str, str], hours: tuple[int, int] = (0, HOURS)) -> Answer:
    first, end = (BEGAN + timedelta(hours=h) for h in hours)
    return Explorer(store).ask(MEANING, Question("pay", conditions, first, end), 0)


def counts(answer: Answer) -> dict[str, dict[str, tuple[int, int, float]]]:
    return {
        b.attribute: {v: (c.rows, c.observed, round(c.expected, 2)) for v, c in b.values}
        for b in answer.breakdowns
    }


def test_blocks_that_are_over_have_a_digest(town: tuple[Session, Store]) -> None:
    _, store = town
    blocks = {BEGAN + n * BLOCK for n in range(5)}
    assert store.digested() == blocks


def test_the_worst_value_leads_and_its_rows_are_counted(town: tuple[Session, Store]) -> None:
    _, store = town
    answer = ask(store, hours=(15, HOURS))
    assert answer.breakdowns[0].attribute == "airline"
    value, count = answer.breakdowns[0].values[0]
    assert value == "AC"
    assert count.excess > 0.5 * answer.whole.excess > 0
    inside = ask(store, ("airline", "AC"), hours=(15, HOURS))
    assert (inside.whole.rows, inside.whole.observed) == (count.rows, count.observed)
    assert "airline" not in counts(inside)
    assert sum(p.rows for p in inside.points) == inside.whole.rows


@pytest.mark.parametrize("conditions", [(), (("airline", "AC"),)])
def test_digests_and_rows_say_the_same(
    town: tuple[Session, Store], monkeypatch: pytest.MonkeyPatch, conditions: tuple
) -> None:
    _, store = town
    exact = ask(store, *conditions)
    monkeypatch.setattr(exploring, "MOST_BYTES", 3 << 20)  # less than all, more than the open block
    short = ask(store, *conditions)
    assert short.rounded
    assert not exact.rounded
    assert not short.trouble
    assert short.whole.rows == exact.whole.rows
    assert short.whole.observed == exact.whole.observed
    assert short.whole.expected == pytest.approx(exact.whole.expected, rel=1e-4)
    assert [p.start for p in short.points] == [p.start for p in exact.points]
    assert [p.observed for p in short.points] == [p.observed for p in exact.points]
    for attribute, values in counts(exact).items():
        for value, (rows, observed, _) in values.items():
            if observed:
                assert counts(short)[attribute][value][1] == observed, (attribute, value)
            if observed and not conditions:
                assert counts(short)[attribute][value][0] == rows


def test_two_conditions_over_long_have_a_course_and_say_what_is_missing(
    town: tuple[Session, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = town
    pair = (("airline", "AC"), ("office", "BKK"))
    exact = ask(store, *pair)
    monkeypatch.setattr(exploring, "MOST_BYTES", 3 << 20)
    short = ask(store, *pair)
    assert short.whole.observed == exact.whole.observed
    assert short.length == BLOCK
    assert not short.breakdowns
    assert "choose less time" in short.trouble
    three = ask(store, *pair, ("fare", "F3"))
    assert "more than two conditions" in three.trouble


def test_what_has_no_digest_is_read_row_by_row_or_told(
    town: tuple[Session, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = town
    older = MemoryStore()
    older.commit(Work(slices=store.slices(BEGAN, BEGAN + timedelta(days=9)),
                      state=store.load().state))  # fmt: skip
    monkeypatch.setattr(exploring, "MOST_BYTES", 3 << 20)
    assert "42 slices of this time are not summed up yet" in ask(older).trouble
    assert ask(older).whole.rows < ask(store).whole.rows


def test_late_rows_make_a_digest_untrue_until_the_next_commit(
    town: tuple[Session, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, store = town
    before = ask(store, hours=(12, 18)).whole.rows
    late = TOWN.slice(30)
    assert session.fold(replace(late, start=datetime64(BEGAN + timedelta(hours=15))))
    session.commit()
    monkeypatch.setattr(exploring, "MOST_BYTES", 3 << 20)
    assert ask(store, hours=(12, 18)).whole.rows == before + late.rows
    assert ask(store).whole.rows == ask(store, hours=(0, 30)).whole.rows + sum(
        p.rows for p in ask(store, hours=(30, HOURS)).points
    )


def test_a_digest_of_before_there_were_batches_is_read(town: tuple[Session, Store]) -> None:
    key = MEANING.columns.outcomes[0]
    for blob in town[1].digests(BEGAN, BEGAN + BLOCK, "airline").values():
        table = pa.ipc.open_file(blob).read_all()
        metadata = {k: v for k, v in table.schema.metadata.items() if k != b"codes"}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as writer:
            writer.write_table(table)
        old, new = (part_from_bytes(bytes(b), key, 1) for b in (sink.getvalue(), blob))
        assert old is not None
        assert new is not None
        assert 0 < len(new.sums) < len(old.sums)
        code = new.place[0]
        assert (new.sums[code == 1] == old.sums[old.place[0] == 1]).all()


def test_an_unknown_value_is_told(town: tuple[Session, Store]) -> None:
    assert "airline has no value 'ZZ'" in ask(town[1], ("airline", "ZZ")).trouble


# The page


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    status = Status(stage="", config=configured(tmp_path))
    return TestClient(make_app(LiveState(MemoryStore(), Metrics(), status)), base_url=HERE)


def test_a_page_without_rows_says_so(client: TestClient) -> None:
    page = client.get("/explore")
    assert page.status_code == 200
    assert "No rows here" in page.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("outcome=nobody", "is none of reserve"),
        ("where=airline", "is no attribute=value; attributes are airline, fare"),
        ("where=x%3D1", "is no attribute=value"),
        ("from=yesterday", "is no ISO-8601 time"),
        ("from=2026-03-02T00:00Z&to=2026-03-01T00:00Z", "has to be before"),
        ("&".join(f"where=airline%3D{n}" for n in range(9)), "at most 8 conditions"),
    ],
)
def test_a_wrong_question_is_told_with_the_cure(client: TestClient, query: str, words: str) -> None:
    page = client.get(f"/explore?{query}", headers={"accept": "text/html"})
    assert page.status_code == 400
    assert words in page.text


def test_programs_get_the_same_answer(
    town: tuple[Session, Store], tmp_path: Path, client: TestClient
) -> None:
    config = configured(tmp_path)
    status = Status(stage="", config=replace(config, settings=SETTINGS))
    app = make_app(LiveState(town[1], Metrics(), status))
    end = BEGAN + timedelta(hours=HOURS)
    query = {
        "outcome": "pay",
        "where": "airline=AC",
        "from": BEGAN.isoformat(),
        "to": f"{end:%FT%TZ}",
    }
    said = TestClient(app, base_url=HERE).get("/api/v1/explore", params=query).json()
    answer = ask(town[1], ("airline", "AC"))
    assert said["whole"]["observed"] == answer.whole.observed > 0
    assert said["where"] == ["airline=AC"]
    assert len(said["points"]) == len(answer.points)
    worst = said["attributes"][0]
    assert worst["attribute"] == answer.breakdowns[0].attribute
    assert [one["value"] for one in worst["values"]] == [v for v, _ in answer.breakdowns[0].values]
    wrong = client.get("/api/v1/explore?from=2026-03-01T00:00&wher=airline%3DAC")
    assert wrong.status_code == 400
    assert "did you mean where?" in wrong.json()["detail"]
    assert "append Z for UTC" in wrong.json()["detail"]


def test_a_store_without_its_configuration_cannot_be_explored() -> None:
    app = make_app(LiveState(MemoryStore(), Metrics(), Status()))
    page = TestClient(app, base_url=HERE).get("/explore", headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "only shows a store" in page.text
