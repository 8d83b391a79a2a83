"""The worlds of `benchmarks.truth` keep their own promises: what a label says is in the rows."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from benchmarks.truth import compare, opened
from benchmarks.worlds.domain import SLICES
from benchmarks.worlds.generation import DOMAINS, KINDS, Written, write_world
from monitor.config import load
from monitor.edge.files import FileSource
from monitor.replay import gather
from monitor.scoring import read_labels
from monitor.vocabulary import Vocabulary

WORLDS = ("mixed", "codes", "funnel", "web", "wide")


@dataclass(frozen=True, eq=False)
class Drawn:
    kind: str
    written: Written
    labels: list[dict]
    rows: pa.Table

    @cache  # noqa: B019 - lives as long as the module's worlds
    def texts(self, name: str) -> np.ndarray:
        column = self.rows[name].cast(pa.string()).to_pandas()
        return column.fillna("(missing)").to_numpy(str)

    @property
    def at(self) -> np.ndarray:
        return self.rows["time"].to_numpy().astype("datetime64[us]")

    def of(self, selector: dict[str, list[str]]) -> np.ndarray:
        rows = np.ones(len(self.rows), bool)
        for name, values in selector.items():
            rows &= np.isin(self.texts(name), values)
        return rows

    def failed(self, outcome: str) -> np.ndarray:
        if self.kind == "web":
            slow = self.rows["seconds"].to_numpy() > 2
            return slow if outcome == "slow" else self.rows["status"].to_numpy() >= 500
        if self.kind == "funnel":
            return self.texts(outcome.removesuffix("_failed")) == "failed"
        if self.kind == "wide":
            return self.rows["failed"].to_numpy()
        return self.texts("failed_step") == outcome

    def during(self, label: dict) -> np.ndarray:
        start, end = (
            np.datetime64(datetime.fromisoformat(label[x]).astimezone(UTC).replace(tzinfo=None))
            for x in ("start", "end")
        )
        return (self.at >= start) & (self.at < end)


def drawn(kind: str, folder: Path, seed: int = 3) -> Drawn:
    written = write_world(kind, seed, folder, days=4, rows_per_day=120_000, warm_up=0)
    labels = [json.loads(line) for line in written.labels.read_text("utf-8").splitlines()]
    return Drawn(kind, written, labels, ds.dataset(sorted(folder.glob("*.parquet"))).to_table())


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return drawn(request.param, tmp_path_factory.mktemp(request.param))


def test_what_a_label_counts_is_what_the_rows_hold(world: Drawn) -> None:
    assert len(world.labels) >= 4
    for label in world.labels:
        rows = world.during(label) & world.of(label["accept"][0])
        seen = int((rows & world.failed(label["outcome"])).sum())
        expected = label["expected"] + label["added"]
        assert abs(seen - expected) < 5 * np.sqrt(expected) + 3, (label, seen)
        assert label["detectable"] == (label["nats"] >= 25 and label["added"] >= 15)


def test_all_selectors_that_a_label_accepts_have_the_same_rows(world: Drawn) -> None:
    for label in world.labels:
        when = world.during(label)
        first, *others = (when & world.of(selector) for selector in label["accept"])
        for other in others:
            assert (first & other).sum() >= 0.93 * (first | other).sum(), label


def test_the_detector_reads_all_of_it_by_its_configuration(world: Drawn) -> None:
    config = load(world.written.config, {})
    vocabulary = Vocabulary(config.settings.schema)
    inputs = [str(world.written.folder / "*.parquet")]
    source = FileSource(config, vocabulary, inputs, follow=False)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    data = gather(source.batches(), config.settings.schema, config.settings.window, now)
    assert (data.rows, data.rejected_rows) == (world.written.rows, 0)
    labels = read_labels(world.written.labels, "UTC")
    assert {label.outcome for label in labels} <= set(config.settings.schema.outcomes)
    assert all(world.written.begins <= label.start < world.written.ends for label in labels)
    for outcome in config.settings.schema.outcomes:
        column = config.settings.schema.outcomes.index(outcome)
        assert data.failed[:, column].sum() == world.failed(outcome).sum()


def test_no_two_incidents_of_an_outcome_meet(world: Drawn) -> None:
    for outcome in {label["outcome"] for label in world.labels}:
        mine = sorted(
            (label["start"], label["end"]) for label in world.labels if label["outcome"] == outcome
        )
        assert all(a[1] < b[0] for a, b in pairwise(mine))


def test_a_funnel_writes_a_steps_columns_only_where_the_step_was_reached(tmp_path: Path) -> None:
    funnel = drawn("funnel", tmp_path)
    for column, step in (("warehouse", "cart"), ("bank", "pay")):
        reached = funnel.texts(step) != "(missing)"
        # a failing system may leave a field empty: rows that reached the step may lack it
        assert not (~reached & (funnel.texts(column) != "(missing)")).any()
        assert (funnel.texts(column)[reached] != "(missing)").mean() > 0.98


def test_a_seed_says_everything(tmp_path: Path) -> None:
    def files(seed: int, folder: str) -> list[bytes]:
        write_world("mixed", seed, tmp_path / folder, days=2, rows_per_day=60_000, warm_up=1)
        return [path.read_bytes() for path in sorted((tmp_path / folder).iterdir())]

    assert files(1, "a") == files(1, "b")
    assert files(2, "c") != files(1, "a")


def test_a_promotion_multiplies_traffic_and_not_the_rate(tmp_path: Path) -> None:
    written = write_world("promotions", 1, tmp_path, days=3, rows_per_day=60_000, warm_up=1)
    promotions = [json.loads(x) for x in written.promotions.read_text("utf-8").splitlines()]
    assert len(promotions) == round(100 * 3 / 28)
    assert written.labels.read_text("utf-8") == ""
    rows = ds.dataset(sorted(tmp_path.glob("*.parquet"))).to_table()
    world = Drawn("mixed", written, [], rows)
    one = promotions[0]
    when, of = world.during(one), world.of(one["where"])
    assert of[when].mean() > 1.6 * of[~when].mean()
    hit, usual = when & of, ~when & of
    failing = world.texts("failed_step") != "(missing)"
    assert failing[hit].mean() < 1.3 * failing[usual].mean() + 0.01


def test_every_kind_of_world_has_what_its_name_says() -> None:
    assert set(DOMAINS) == {kind.domain for kind in KINDS.values()}
    assert KINDS["codes"].incidents == KINDS["leaks"].incidents == 40
    assert KINDS["promotions"].promotions == 100
    assert (KINDS["drift2"].drift, KINDS["drift3"].drift) == (2.0, 3.0)
    assert all(kind.incidents == 0 for name, kind in KINDS.items() if kind.cycle == ())
    assert all(KINDS[k].incidents == 20 for k in ("funnel", "web", "wide"))
    assert timedelta(days=1) == SLICES * timedelta(minutes=30)


def test_a_comparison_says_what_was_gained_and_what_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def record(found: dict[str, bool], false: int) -> dict:
        cases = [{"id": i, "found": f, "first": f, "exact": False} for i, f in found.items()]
        world = {
            "kind": "web",
            "seed": 1,
            "without": [],
            "days": 14,
            "rows": 9,
            "false": [1] * false,
        }
        return {"sets": [world | {"cases": cases}]}

    old, new = record({"a": True, "b": False}, 0), record({"a": False, "b": True}, 2)
    compare(new["sets"], old)
    said = capsys.readouterr().out
    assert "web 1 found: 1 → 1 of 2; gained ['b'], lost ['a']" in said
    assert "web 1 exact: 0 → 0 of 2; gained [], lost []" in said
    assert "web 1 false alarms: 0 → 2" in said
    old["sets"][0]["rows"] = 8
    compare(new["sets"], old)
    assert "the older record is of another world (8 rows)" in capsys.readouterr().out


def test_a_world_is_read_as_it_was_written(world: Drawn) -> None:
    data = opened(world.kind, 3, world.written, world.labels)
    assert data.detectable <= {label.id for label in data.labels}
    assert data.detectable
