"""The booking world: reproducible, realistic, and honest about what it broke."""

import json
import math
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from monitor.cli import app
from monitor.domain import Cause
from monitor.simulation.files import json_lines, write
from monitor.simulation.plan import KINDS, Planned, Promotion, plan_incidents, plan_promotions
from monitor.simulation.structure import ATTRIBUTES, BASE_RATES, STEPS, Sizes
from monitor.simulation.world import COLUMNS, SLICE, World

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
NOON = MONDAY.replace(hour=12)
WORLD = World(seed=11, rows_per_day=400_000)


def day(world: World, start: datetime = MONDAY) -> pa.Table:
    return pa.concat_tables([world.slice(start + i * SLICE) for i in range(48)])


def equals(column: pa.ChunkedArray, texts: Sequence[str]) -> np.ndarray:
    return pc.is_in(column.cast(pa.string()), pa.array(texts)).to_numpy()


def matching(bookings: pa.Table, cause: Cause) -> np.ndarray:
    mask = np.ones(len(bookings), bool)
    for name, texts in cause.selector:
        mask &= equals(bookings.column(name), texts)
    return mask


def failed_at(bookings: pa.Table, step: str) -> np.ndarray:
    return equals(bookings.column("failed_step"), [step])


def an_incident(**changes: object) -> Planned:
    airline = WORLD.texts("airline")[int(WORLD.shares("airline").argmax())]
    values = {
        "id": "outage",
        "kind": "test",
        "start": NOON,
        "end": NOON + timedelta(minutes=45),
        "outcome": "reserve",
        "strikes": Cause.of(airline=airline),
        "strength": 0.5,
        "accept": (Cause.of(airline=airline),),
    }
    return Planned(**(values | changes))


# -- reproducible ------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.permutations(range(4)))
def test_a_slice_is_the_same_however_one_comes_by_it(seed: int, order: list[int]) -> None:
    sizes = Sizes(airlines=6, fare_sources=4, cities=12, offices=9, codes=8)
    forwards, shuffled = (World(seed, 20_000, sizes) for _ in range(2))
    in_sequence = [forwards.slice(NOON + i * SLICE) for i in range(4)]
    for i in order:
        assert shuffled.slice(NOON + i * SLICE).equals(in_sequence[i])


def test_different_seeds_are_different_worlds() -> None:
    assert not World(1, 10_000).slice(NOON).equals(World(2, 10_000).slice(NOON))


def test_an_incident_changes_no_other_booking() -> None:
    incident = an_incident()
    quiet = WORLD.slice(NOON)
    broken = WORLD.having([incident]).slice(NOON)
    changed = np.array(
        [a != b for a, b in zip(quiet.to_pylist(), broken.to_pylist(), strict=True)], bool
    )
    assert changed.sum() > 100
    assert not (changed & ~matching(quiet, incident.strikes)).any()
    for name in COLUMNS[:-2]:
        assert quiet.column(name).equals(broken.column(name))


def test_a_promotion_only_adds_bookings() -> None:
    airline = an_incident().strikes
    promotion = Promotion("sale", NOON, NOON + SLICE, airline, 4.0)
    quiet, busy = WORLD.slice(NOON), WORLD.having(promotions=[promotion]).slice(NOON)
    ratio = matching(busy, airline).sum() / matching(quiet, airline).sum()
    assert ratio == pytest.approx(4, rel=0.15)
    usual = {tuple(row.values()) for row in quiet.to_pylist()}
    assert usual <= {tuple(row.values()) for row in busy.to_pylist()}
    rate = failed_at(busy, "reserve")[matching(busy, airline)].mean()
    before = failed_at(quiet, "reserve")[matching(quiet, airline)].mean()
    assert rate == pytest.approx(before, abs=4 * math.sqrt(before / matching(quiet, airline).sum()))


@pytest.mark.parametrize("attribute", ["agent_office", "departure_city", "arrival_city", "airline"])
def test_promotions_of_every_attribute_keep_to_the_network(attribute: str) -> None:
    value = WORLD.texts(attribute)[int(WORLD.shares(attribute).argmax())]
    promotion = Promotion("sale", NOON, NOON + SLICE, Cause.of(**{attribute: value}), 5.0)
    busy = WORLD.having(promotions=[promotion]).slice(NOON)
    assert np.all(np.diff(busy.column("time").cast(pa.int64()).to_numpy()) >= 0)
    departures, arrivals = (busy.column(n).to_pylist() for n in ("departure_city", "arrival_city"))
    assert all(a != b for a, b in zip(departures, arrivals, strict=True))
    flown = WORLD.structure.departure_of_airline.probability > 0
    cities, airlines = WORLD.texts("departure_city"), WORLD.texts("airline")
    pairs = set(zip(busy.column("airline").to_pylist(), departures, strict=True))
    assert all(flown[airlines.index(a), cities.index(c)] for a, c in pairs)


# -- realistic ---------------------------------------------------------------------------


def test_a_booking_has_the_promised_columns() -> None:
    bookings = WORLD.slice(NOON)
    assert tuple(bookings.column_names) == COLUMNS
    assert bookings.schema.field("time").type == pa.timestamp("us", tz="UTC")
    times = bookings.column("time").to_pylist()
    assert times == sorted(times)
    assert times[0] >= NOON
    assert times[-1] < NOON + SLICE
    for name in ATTRIBUTES:
        assert bookings.column(name).null_count == 0
    step, code = bookings.column("failed_step"), bookings.column("error_code")
    assert step.is_null().equals(code.is_null())
    assert 0 < len(bookings) - step.null_count < 0.1 * len(bookings)


def test_the_default_world_has_the_size_of_the_papers() -> None:
    bookings = day(WORLD)
    seen = sum(pc.count_distinct(bookings.column(n).cast(pa.string())).as_py() for n in COLUMNS[1:])
    assert 700 <= seen <= 800
    assert len(bookings) == pytest.approx(400_000, rel=0.15)


def test_traffic_and_failures_are_what_the_world_says_to_expect() -> None:
    bookings = day(WORLD)
    airline = WORLD.texts("airline")[3]
    office = WORLD.texts("agent_office")[int(WORLD.shares("agent_office").argmax())]
    city = WORLD.texts("arrival_city")[int(WORLD.shares("arrival_city").argmax())]
    for cause in (
        Cause(),
        Cause.of(airline=airline),
        Cause.of(airline=airline, agent_office=office),
        Cause.of(arrival_city=city),
    ):
        expected = sum(WORLD.expected_rows(MONDAY + i * SLICE, cause) for i in range(48))
        rows = matching(bookings, cause).sum()
        assert rows == pytest.approx(expected, abs=5 * math.sqrt(expected))
    for step, base in zip(STEPS, BASE_RATES, strict=True):
        expected = sum(
            WORLD.expected_failures(MONDAY + i * SLICE, Cause(), step) for i in range(48)
        )
        assert failed_at(bookings, step).sum() == pytest.approx(expected, rel=0.3)
        assert 0.5 * base < expected / len(bookings) < 2 * base


def test_nights_and_weekends_are_quieter() -> None:
    night, noon = (WORLD.expected_rows(MONDAY.replace(hour=h)) for h in (3, 12))
    assert noon > 2 * night
    week = [
        sum(WORLD.expected_rows(MONDAY + timedelta(days=d) + i * SLICE) for i in range(48))
        for d in range(7)
    ]
    assert min(week[:5]) > max(week[5:])


def test_error_rates_wander_more_than_chance_but_come_back() -> None:
    rates = np.concatenate([WORLD.drift.rates(day) for day in range(20_000, 20_060)])
    log = np.log(rates[:, :-1, 0])
    spread = log.std(axis=0)
    assert 0.07 < np.median(spread) < 0.15
    assert 0.25 < spread.max() < 0.45
    assert rates.mean() == pytest.approx(1, abs=0.02)
    centred = log - log.mean(axis=0)

    def correlation(lag: int) -> float:
        return float(np.mean((centred[:-lag] * centred[lag:]).mean(axis=0) / centred.var(axis=0)))

    assert correlation(1) == pytest.approx(0.7 * math.exp(-1 / 12), abs=0.05)
    assert abs(correlation(96)) < 0.05


def test_days_of_drift_join_without_a_seam() -> None:
    slow_steps = np.diff(np.log(WORLD.drift.volume(20_001)))
    seam = np.log(WORLD.drift.volume(20_001)[0] / WORLD.drift.volume(20_000)[-1])
    assert abs(seam) < 4 * slow_steps.std()


def test_error_codes_belong_to_their_step() -> None:
    bookings = day(WORLD)
    by_step: dict[str, set[str]] = {}
    for step, code in zip(
        bookings.column("failed_step").to_pylist(),
        bookings.column("error_code").to_pylist(),
        strict=True,
    ):
        if step:
            by_step.setdefault(step, set()).add(code)
    assert set(by_step) == set(STEPS)
    assert sum(map(len, by_step.values())) == len(set().union(*by_step.values()))


# -- honest about what it broke ----------------------------------------------------------


def test_every_kind_of_the_papers_table_is_planned_and_struck_as_labelled() -> None:
    planned = plan_incidents(WORLD, MONDAY, 4, len(KINDS), seed=5, quiet_days=1)
    assert {incident.kind for incident in planned} == set(KINDS)
    broken = WORLD.having(planned)
    for incident in planned:
        first = incident.start - (incident.start - MONDAY) % SLICE
        slices = [first + i * SLICE for i in range(math.ceil((incident.end - first) / SLICE))]
        quiet, bad = (
            pa.concat_tables([w.slice(at) for at in slices])
            for w in (WORLD, WORLD.having([incident]))
        )
        extra = failed_at(bad, incident.outcome).sum() - failed_at(quiet, incident.outcome).sum()
        assert extra == pytest.approx(
            incident.expected_excess, abs=5 * math.sqrt(incident.expected_excess) + 3
        )
        assert all(c.selector != () or incident.strikes == Cause() for c in incident.accept)
        if incident.codes:
            codes = broken.slice(slices[len(slices) // 2]).column("error_code").to_pylist()
            assert codes.count(incident.codes[0]) > 0


def test_effects_range_from_clear_to_weak_and_say_so() -> None:
    planned = [p for seed in range(4) for p in plan_incidents(WORLD, MONDAY, 7, 10, seed)]
    assert 0.1 < np.mean([not p.detectable for p in planned]) < 0.7
    assert max(p.nats for p in planned) > 200


def test_a_plan_depends_on_its_seed_only() -> None:
    one, same, other = (plan_incidents(WORLD, MONDAY, 7, 6, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_no_incident_spoils_the_quiet_days_or_outlives_the_period() -> None:
    for incident in plan_incidents(WORLD, MONDAY, 5, 10, seed=3, quiet_days=2):
        assert MONDAY + timedelta(days=2) <= incident.start < incident.end
        assert incident.end <= MONDAY + timedelta(days=5)


def test_promotions_stay_inside_the_period() -> None:
    promotions = plan_promotions(WORLD, MONDAY, 3, 6, seed=1)
    assert len(promotions) == 6
    for promotion in promotions:
        assert MONDAY <= promotion.start < promotion.end <= MONDAY + timedelta(days=3)
        assert 2 <= promotion.factor <= 5


def test_a_label_has_the_form_that_backtest_reads() -> None:
    (incident,) = plan_incidents(WORLD, MONDAY, 1, 1, seed=3)
    label = json.loads(orjson.dumps(incident.label()))
    assert label.keys() >= {"id", "start", "end", "outcome", "accept", "partly"}
    assert datetime.fromisoformat(label["start"]) == incident.start
    assert [Cause.from_json(c) for c in label["accept"]] == list(incident.accept)
    assert label["outcome"] in STEPS


# -- files -------------------------------------------------------------------------------


def test_json_and_parquet_hold_the_same_bookings(tmp_path) -> None:
    bookings = WORLD.slice(NOON)
    path = write(bookings, NOON, tmp_path, "parquet")
    assert path.name == "bookings-20260105T1200Z.parquet"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    stored = pq.read_table(path).to_pylist()
    lines = [json.loads(line) for line in json_lines(bookings).splitlines()]
    assert len(lines) == len(stored) == len(bookings)
    for line, row in zip(lines, stored, strict=True):
        assert line | {"time": datetime.fromisoformat(line["time"])} == row


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    def full_disk(*_args: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        write(WORLD.slice(NOON), NOON, tmp_path, "jsonl")
    assert list(tmp_path.iterdir()) == []


def run(*arguments: str):
    return CliRunner().invoke(app, ["simulate", *arguments])


def test_the_demo_is_one_day_with_one_incident(tmp_path) -> None:
    result = run("--demo", "-o", str(tmp_path), "--per", "hour")
    assert result.exit_code == 0, result.output
    (label,) = (json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines())
    assert label["detectable"]
    assert label["id"].startswith("incident-1-")
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == 24
    assert sum(pq.read_metadata(f).num_rows for f in files) == pytest.approx(100_000, rel=0.15)


def test_a_file_per_minute_splits_without_loss(tmp_path) -> None:
    few = ("--rows-per-day", "5000", "--days", "0.05", "--incidents", "0", "--format", "jsonl")
    for per in ("minute", "slice"):
        assert run(*few, "--per", per, "-o", str(tmp_path / per)).exit_code == 0
    minutes, slices = (
        [p.read_bytes() for p in sorted((tmp_path / per).glob("bookings-*"))]
        for per in ("minute", "slice")
    )
    assert (len(minutes), len(slices)) == (60, 2)
    assert b"".join(minutes) == b"".join(slices)


def test_a_paced_world_takes_its_time(tmp_path) -> None:
    began = time.monotonic()
    arguments = ("--days", "0.05", "--incidents", "0", "--rows-per-day", "1000", "--pace", "18000")
    result = run(*arguments, "--start", "2026-01-05T00:30Z", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert time.monotonic() - began >= 0.2  # an hour, 18,000 times faster
    names = sorted(p.name for p in tmp_path.glob("bookings-*"))
    assert names == ["bookings-20260105T0030Z.parquet", "bookings-20260105T0100Z.parquet"]


def test_a_world_faster_than_life_never_tells_the_future(tmp_path) -> None:
    """A monitor sets aside what is stamped more than an hour ahead of the clock."""
    arguments = ("--days", "0.25", "--incidents", "0", "--rows-per-day", "1000", "--pace", "36000")
    assert run(*arguments, "-o", str(tmp_path)).exit_code == 0
    newest = max(
        pq.read_table(path, columns=["time"]).column("time").to_pylist()[-1]
        for path in tmp_path.glob("bookings-*")
    )
    now = datetime.now(UTC)
    assert now - timedelta(hours=1) < newest < now


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("--start", "yesterday"), "no ISO time"),
        (("--start", "2026-01-05T00:00"), "no time zone"),
        (("--start", "2026-01-05T00:10Z"), "half hour"),
        (("--days", "1", "--quiet-days", "1"), "need 2"),
    ],
)
def test_a_wrong_option_is_explained(tmp_path, arguments: tuple[str, ...], advice: str) -> None:
    result = run(*arguments, "-o", str(tmp_path))
    assert result.exit_code == 2
    assert advice in re.sub(r"[\s│]+", " ", result.output)


def test_a_world_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="fare_sources = 1"):
        Sizes(fare_sources=1)
    with pytest.raises(ValueError, match="half hour"):
        WORLD.slice(NOON + timedelta(minutes=1))
    with pytest.raises(ValueError, match="no such attribute"):
        WORLD.share(Cause.of(carrier="AA"))
