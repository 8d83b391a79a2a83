"""The same story in slices of any length: what is told, and when; and what it costs to learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.baseline import SAMPLE_ROWS
from monitor.config import load
from monitor.diagnosis import Monitor, Tick
from monitor.domain import Change, Settings, State
from monitor.encoding import Encoding
from monitor.learning import Learned
from monitor.slices import Slice, aggregate, slice_starts
from tests.monitor.towns import HALF_HOUR, MIDNIGHT, SCHEMA, Outage, Town

MINUTE = timedelta(minutes=1)
BEGINS, ENDS = MIDNIGHT + 6 * HALF_HOUR, MIDNIGHT + 8 * HALF_HOUR


def configured(tmp_path: Path, text: str) -> Settings:
    """The settings of a configuration, for the town."""
    path = tmp_path / "monitor.toml"
    schema = '[schema]\ntime = "at"\nattributes = ["office"]\noutcomes = ["pay"]\n'
    path.write_text(schema + text)
    settings = load(path, {}).settings
    detection = replace(settings.detection, learning=timedelta(hours=2))
    return replace(settings, schema=SCHEMA, detection=detection)


def cut(town: Town, settings: Settings, half_hours: int, first: int = 0) -> Iterator[Slice]:
    """The town's bookings in the slices of the settings."""
    step = np.timedelta64(settings.window.slice_length)
    for number in range(first, half_hours):
        events = town.events(number)
        starts = slice_starts(events.at, settings.window)
        begin = np.datetime64((MIDNIGHT + number * HALF_HOUR).replace(tzinfo=None), "us")
        for start in np.arange(begin, begin + np.timedelta64(HALF_HOUR), step):
            rows = starts == start
            ones = np.ones(int(rows.sum()), np.int64)
            yield aggregate(start, events.values[rows], events.failed[rows], ones)


class Counting:
    """A learner that learns nothing, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.asked = 0

    def learn(self, encoding: Encoding) -> Learned:
        self.asked += 1
        return Learned.nothing(encoding)

    def recall(self, encoding: Encoding) -> Learned | None:
        return Learned.nothing(encoding) if self.asked else None

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...


@pytest.mark.parametrize(("minutes", "rows"), [(1, 3000), (5, 1500), (10, 1500), (30, 1500)])
def test_an_outage_is_told_at_the_first_slice_that_shows_it(
    tmp_path: Path, minutes: int, rows: int
) -> None:
    settings = configured(tmp_path, f'[window]\nslice_length = "{minutes}m"\n')
    town = Town((Outage(6, 7, cause={"airline": "AC"}),), rows=rows)
    length = 10 if minutes == 1 else 16  # half hours; ticks of a minute are many
    learner = Counting()
    watcher = Monitor(settings, town.vocabulary(), learner)
    ticks: list[Tick] = [watcher.tick(piece) for piece in cut(town, settings, length)]
    news = [n for tick in ticks for n in tick.news]
    assert news[0].at == BEGINS + minutes * MINUTE
    assert news[0].change is Change.OPENED
    opened = {str(n.incident.finding.cause): n.at for n in news if n.change is Change.OPENED}
    # a single minute may not tell the airline from everything yet
    assert opened.keys() - {"everything"} == {"airline=AC"}
    assert opened["airline=AC"] <= BEGINS + max(minutes, 5) * MINUTE
    if minutes > 1:
        assert len(opened) == 1
        (incident,) = ticks[-1].incidents
        assert incident.state is State.RESOLVED
        assert ENDS < incident.resolved_at <= ENDS + timedelta(hours=3)
    # the graph is learned every half hour, however many ticks there are
    assert length <= learner.asked <= length + 1
    failures = sum(lesson.failures.sum() for lesson in watcher.history.taught)
    assert failures == sum(int((p.weight @ p.failed).sum()) for p in cut(town, settings, length))


def test_history_samples_exposure_by_time(tmp_path: Path) -> None:
    town = Town(rows=6000)
    kept, shares = {}, {}
    for minutes in (1, 5, 30):
        settings = configured(tmp_path, f'[window]\nslice_length = "{minutes}m"\n')
        watcher = Monitor(settings, town.vocabulary())
        for piece in cut(town, settings, 4):
            watcher.tick(piece)
        lessons = watcher.history.taught
        kept[minutes] = sum(int((lesson.exposure > 0).sum()) for lesson in lessons)
        exposure = np.concatenate([lesson.exposure for lesson in lessons])
        values = np.concatenate([lesson.values for lesson in lessons])
        shares[minutes] = np.bincount(values[:, 1], exposure, 6) / exposure.sum()
        assert exposure.sum() == pytest.approx(4 * 6000)
    assert kept[30] <= kept[1] <= 1.1 * 4 * SAMPLE_ROWS  # of 24,000
    assert kept[30] <= kept[5] <= 1.1 * 4 * SAMPLE_ROWS
    np.testing.assert_allclose(shares[1], shares[30], atol=0.03)


def test_an_empty_minute_is_no_gap_where_minutes_are_empty_now_and_then(tmp_path: Path) -> None:
    settings = configured(tmp_path, '[window]\nslice_length = "1m"\n')
    settings = replace(settings, detection=replace(settings.detection, learning=timedelta(days=9)))
    seldom, often = Town(rows=40), Town(rows=400)
    for town, expected in ((seldom, False), (often, True)):
        watcher = Monitor(settings, town.vocabulary())
        # two noons and a third; what lies in between is of no interest
        ticks = [
            watcher.tick(piece)
            for day in (0, 1)
            for piece in cut(town, settings, 48 * day + 25, 48 * day + 24)
        ]
        assert not any(tick.diagnosis.gap for tick in ticks)
        last = next(cut(town, settings, 48 * 2 + 25, 48 * 2 + 24))
        nothing = Slice(last.start, last.values[:0], last.failed[:0], last.weight[:0])
        assert watcher.tick(nothing).diagnosis.gap is expected


def test_an_old_configuration_keeps_its_meaning(tmp_path: Path) -> None:
    plain = configured(tmp_path, "")
    assert plain.detection.horizons == (1, 2, 4, 12, 48)
    assert plain.incidents.resolve_after == 4
    assert plain.window.allowed_lateness == timedelta(minutes=5)
    counted = configured(
        tmp_path,
        '[window]\nslice_length = "1h"\n[detection]\nhorizons = [1, 2, 6, 24]\n'
        "[incidents]\nresolve_after = 3\n",
    )
    assert counted.detection.horizons == (1, 2, 6, 24)
    assert counted.incidents.resolve_after == 3
    told = configured(
        tmp_path,
        '[window]\nslice_length = "10m"\n[detection]\nhorizons = ["10m", "1h", "1d"]\n'
        '[incidents]\nresolve_after = "2h"\n',
    )
    assert told.detection.horizons == (1, 6, 144)
    assert told.incidents.resolve_after == 12


@pytest.mark.parametrize(
    ("minutes", "horizons"),
    [
        (1, (1, 5, 30, 120, 360, 1440)),
        (5, (1, 6, 24, 72, 288)),
        (10, (1, 3, 12, 36, 144)),
        (20, (1, 2, 6, 18, 72)),
        (60, (1, 2, 4, 12, 24)),
    ],
)
def test_what_is_not_given_scales_with_the_slice(
    tmp_path: Path, minutes: int, horizons: tuple[int, ...]
) -> None:
    settings = configured(tmp_path, f'[window]\nslice_length = "{minutes}m"\n')
    assert settings.detection.horizons == horizons
    assert settings.window.allowed_lateness == min(5, minutes) * MINUTE
