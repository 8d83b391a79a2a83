"""The peers that the detection benchmark compares with must be what they claim to be."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import _detectors as peers
from benchmarks._calibration import BINS, distance, joined, picture
from monitor.domain import Attribute, Cause, Schema, Settings
from monitor.replay import Input
from monitor.vocabulary import Vocabulary

SCHEMA = Schema((Attribute("carrier"), Attribute("city")), ("late",))
SETTINGS = Settings(SCHEMA)
START = np.datetime64("2026-01-05T00:00", "us")


def days(count: int, bad_from: int, seed: int = 0) -> tuple[Input, Vocabulary]:
    """40 rows a half hour, 5 % late; from slice `bad_from` on half of carrier k1's are."""
    rng = np.random.default_rng(seed)
    slices, each = count * 48, 40
    vocabulary = Vocabulary(SCHEMA)
    carriers = vocabulary.encode(0, ["k0", "k1", "k2"])
    cities = vocabulary.encode(1, ["c0", "c1", "c2", "c3"])
    carrier, city = rng.integers(0, 3, slices * each), rng.integers(0, 4, slices * each)
    values = np.column_stack([carriers[carrier], cities[city]]).astype(np.int32)
    at = np.repeat(np.arange(slices), each)
    rate = np.where((carrier == 1) & (at >= bad_from), 0.5, 0.05)
    failed = (rng.random(len(at)) < rate)[:, None]
    starts = START + np.arange(slices) * np.timedelta64(30, "m")
    return Input(starts, np.arange(slices + 1) * each, values, failed, (), 0), vocabulary


def test_the_tail_is_the_binomials() -> None:
    n, rate = np.array([50.0, 200.0, 1000.0]), np.array([0.02, 0.1, 0.3])
    observed = np.array([6.0, 35.0, 370.0])
    exact = -binom.logsf(observed - 1, n, rate)
    assert peers.tail(observed, n, rate) == pytest.approx(exact, rel=1e-6)
    assert peers.tail(np.array([4.0]), np.array([5.0]), np.array([0.01]))[0] == 0  # too few
    far = peers.tail(np.array([900.0]), np.array([1000.0]), np.array([0.01]))[0]
    assert 600 < far < 5000  # beyond what a float can hold as a probability


def test_adtributor_chooses_the_values_that_explain_the_change() -> None:
    expected = np.array([50.0, 20.0, 30.0])
    observed = np.array([24.0, 21.0, 30.0])
    ((value, surprise),) = peers.elements(observed, expected, 75.0, 100.0)
    assert value == 0
    assert surprise > 0
    assert peers.elements(expected, expected, 100.0, 100.0) == []


@pytest.mark.parametrize("name", ["binomial, 28 days", "Adtributor", "MacroBase-style"])
def test_a_peer_finds_what_is_plain_to_see(name: str) -> None:
    data, vocabulary = days(5, bad_from=4 * 48)
    orders = [peers.cells_of(data, SETTINGS, vocabulary, order) for order in range(3)]
    alarms = peers.PEERS[name](orders)
    found = peers.incidents(alarms, 20.0, data, SCHEMA, SETTINGS.window)
    assert found, name
    best = max(found, key=lambda i: i.finding.score)
    assert best.finding.cause == Cause.of(carrier="k1")
    began = datetime(2026, 1, 9, tzinfo=UTC)
    assert began < best.opened_at < began + timedelta(hours=6)


def test_nobody_says_anything_about_ordinary_days() -> None:
    data, vocabulary = days(5, bad_from=10**6)
    orders = [peers.cells_of(data, SETTINGS, vocabulary, order) for order in range(3)]
    for name, detect in peers.PEERS.items():
        said = peers.incidents(detect(orders), 20.0, data, SCHEMA, SETTINGS.window)
        assert said == [], name


def test_alarms_that_go_on_are_one_incident_and_a_pause_ends_it() -> None:
    data, _ = days(2, bad_from=10**6)
    cause = Cause.of(carrier="k1")
    ticks = [10, 11, 13, 30, 31]
    alarms = [peers.Alarm(t, 0, cause, 20.0 + t) for t in ticks]
    first, second = peers.incidents(alarms, 20.0, data, SCHEMA, SETTINGS.window)
    assert first.opened_at == datetime(2026, 1, 5, 5, 30, tzinfo=UTC)
    assert first.finding.score == 33
    assert second.opened_at == datetime(2026, 1, 5, 15, 30, tzinfo=UTC)
    assert peers.incidents(alarms, 100.0, data, SCHEMA, SETTINGS.window) == []


def test_the_calibration_is_drawn_against_the_diagonal() -> None:
    flat, steep = [10] * BINS, [190, *[0] * (BINS - 2), 10]
    both = joined([{"counts": {"1 h": flat}}, {"counts": {"1 h": flat, "24 h": steep}}])
    assert both["1 h"].tolist() == [20] * BINS
    assert distance(both["1 h"]) == pytest.approx(0)
    assert distance(both["24 h"]) == pytest.approx(0.9)
    drawn = ElementTree.fromstring(picture({"quiet days": both}))
    assert drawn.tag.endswith("svg")
    assert "24 h, D = 0.900" in "".join(drawn.itertext())
