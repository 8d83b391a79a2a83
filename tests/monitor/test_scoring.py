"""Incidents against the truth: who is right, how late, how often in vain."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from monitor.domain import Cause, Finding, Incident, Method, State
from monitor.scoring import Label, LabelError, Scores, read_labels, read_quiet_days, score

NEW_YORK = "America/New_York"
TICK = timedelta(minutes=30)
DAY = timedelta(days=1)
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
SPAN = (MARCH, MARCH + 14 * DAY)
AC, MU = Cause.of(airline="AC"), Cause.of(airline="MU")
LABEL = Label("outage", MARCH + 3 * DAY, MARCH + 4 * DAY, "pay", (AC,))


def incident(
    opened_at: datetime,
    cause: Cause = AC,
    points: float = 10.0,
    outcome: str = "pay",
    **more: object,
) -> Incident:
    finding = Finding(
        Method.EXCESS, outcome, cause, (), points, 0.0, 0.0, 9, 1, 9, TICK, opened_at, 0.0, 0.0
    )
    plain = Incident(
        f"{opened_at:%d%H%M}{cause}",
        State.RESOLVED,
        opened_at,
        opened_at,
        opened_at,
        finding,
        finding,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def scored(
    *incidents: Incident, labels: tuple[Label, ...] = (LABEL,), quiet: tuple[date, ...] = ()
) -> Scores:
    return score(incidents, labels, quiet, "UTC", TICK, SPAN)


def test_the_right_cause_in_time_counts_fully() -> None:
    found = scored(incident(LABEL.start + 3 * TICK))
    assert (found.recall_at_1, found.recall_any, found.exact, found.precision) == (1, 1, 1, 1)
    assert found.mean_delay_ticks == 3


def test_the_highest_score_is_first() -> None:
    at = LABEL.start + TICK
    found = scored(incident(at, MU, 20.0), incident(at + TICK, AC, 10.0))
    assert (found.recall_at_1, found.recall_any) == (0, 1)
    assert [i.finding.cause for i in found.cases[0].reported] == [MU, AC]
    assert found.mean_delay_ticks == 2


def test_the_right_answer_to_another_label_of_that_time_is_no_wrong_one() -> None:
    at = LABEL.start + TICK
    found = incident(at, MU, 20.0), incident(at + TICK, AC, 10.0)
    other = replace(LABEL, id="other", accept=(MU,))
    assert scored(*found, labels=(LABEL, other)).recall_at_1 == 1
    later = replace(other, start=LABEL.end, end=LABEL.end + DAY)
    elsewhere = replace(other, outcome="seat")
    for apart in later, elsewhere:
        assert not scored(*found, labels=(LABEL, apart)).cases[0].right_first
    alone = scored(found[0], labels=(LABEL, other))
    assert [case.right_first for case in alone.cases] == [False, True]


@pytest.mark.parametrize(
    ("opened_at", "counts"),
    [
        (LABEL.start, False),  # the tick at the start ends a slice before it
        (LABEL.start + TICK, True),
        (LABEL.end, True),
        (LABEL.end + TICK, False),
    ],
)
def test_only_reports_inside_the_label_count(opened_at: datetime, counts: bool) -> None:
    found = scored(incident(opened_at))
    assert found.recall_any == int(counts)
    assert found.precision == int(counts)


def test_an_old_incident_that_worsens_in_time_counts() -> None:
    at = LABEL.start + 4 * TICK
    found = scored(incident(MARCH + DAY, worsened_at=(at,)))
    assert found.recall_any == 1
    assert found.mean_delay_ticks == 4


def test_the_right_cause_of_another_outcome_is_wrong() -> None:
    found = scored(incident(LABEL.start + TICK, outcome="seat"))
    assert found.recall_any == 0
    assert found.mean_delay_ticks is None


def test_any_accepted_cause_is_right() -> None:
    either = replace(LABEL, accept=(Cause(), MU))
    assert scored(incident(LABEL.start + TICK, MU), labels=(either,)).recall_at_1 == 1
    assert scored(incident(LABEL.start + TICK, Cause()), labels=(either,)).recall_at_1 == 1


def test_alarms_on_quiet_days_are_false() -> None:
    quiet = tuple(date(2026, 3, day) for day in range(1, 8))
    found = scored(
        incident(MARCH + DAY + TICK),
        incident(MARCH + DAY + 2 * TICK, MU),
        incident(MARCH + 9 * DAY),
        quiet=quiet,
    )
    assert (found.quiet_days, found.quiet_days_alarmed) == (7, 1)
    assert found.false_alarms_per_week == 2.0


def test_a_report_at_midnight_belongs_to_the_day_that_ended() -> None:
    midnight = MARCH + 2 * DAY
    assert scored(incident(midnight), quiet=(date(2026, 3, 2),)).quiet_days_alarmed == 1
    assert scored(incident(midnight), quiet=(date(2026, 3, 3),)).quiet_days_alarmed == 0


def test_without_quiet_days_alarms_outside_all_labels_are_false() -> None:
    found = scored(incident(LABEL.start + TICK), incident(MARCH + DAY), incident(MARCH + 8 * DAY))
    assert found.false_alarms_per_week == pytest.approx(1.0)
    assert found.precision == pytest.approx(1 / 3)


def test_labels_and_quiet_days_outside_the_data_are_left_out() -> None:
    before = replace(LABEL, id="before", start=MARCH - DAY, end=MARCH - TICK)
    found = scored(labels=(before,), quiet=(date(2025, 12, 1), date(2026, 3, 2)))
    assert found.cases == ()
    assert found.quiet_days == 1
    assert found.recall_at_1 is None
    assert found.exact is None
    assert found.precision is None


def test_the_day_after_the_data_is_not_a_quiet_one() -> None:
    days = (date(2026, 3, 14), date(2026, 3, 15))
    assert scored(quiet=days).quiet_days == 1


def test_silence_is_scored_too() -> None:
    found = scored()
    assert found.recall_any == 0
    assert found.precision is None
    assert found.false_alarms_per_week == 0


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


GOOD = {
    "id": "x", "start": "2013-04-16", "end": "2013-04-16", "outcome": "cancelled",
    "accept": [{"carrier": ["AA"]}, {}],
}  # fmt: skip


def test_a_day_is_a_local_day_and_its_end_is_inclusive(tmp_path: Path) -> None:
    (label,) = read_labels(write(tmp_path / "labels.jsonl", GOOD, ""), NEW_YORK)
    assert label.start == datetime(2013, 4, 16, 4, tzinfo=UTC)
    assert label.end == datetime(2013, 4, 17, 4, tzinfo=UTC)
    assert label.accept == (Cause.of(carrier="AA"), Cause())
    assert label.partly == ()


def test_a_time_is_taken_as_written(tmp_path: Path) -> None:
    row = GOOD | {
        "start": "2013-04-16T10:30",
        "end": "2013-04-16T12:00:00Z",
        "partly": [{"a": ["b"]}],
    }
    (label,) = read_labels(write(tmp_path / "labels.jsonl", row), NEW_YORK)
    assert label.start == datetime(2013, 4, 16, 14, 30, tzinfo=UTC)
    assert label.end == datetime(2013, 4, 16, 12, tzinfo=UTC)
    assert label.partly == (Cause.of(a="b"),)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{broken", "not a label"),
        ({k: v for k, v in GOOD.items() if k != "end"}, "no field 'end'"),
        (GOOD | {"start": "16.4.2013"}, "not a label"),
        (GOOD | {"accept": ["AA"]}, "not a label"),
        ("[1]", "not a label"),
    ],
    ids=str,
)
def test_a_line_that_is_no_label_is_named(tmp_path: Path, row: object, says: str) -> None:
    path = write(tmp_path / "labels.jsonl", GOOD, row)
    with pytest.raises(LabelError, match=f"labels.jsonl:2: .*{says}"):
        read_labels(path, NEW_YORK)


def test_quiet_days_from_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "quiet.csv", "dataset,date", "nyc,2013-01-04", "nyc,2013-01-05")
    assert read_quiet_days(path) == (date(2013, 1, 4), date(2013, 1, 5))


@pytest.mark.parametrize(
    ("lines", "says"),
    [(("day", "2013-01-04"), "no column `date`"), (("date", "2013-01-04", "soon"), ":3: `date`")],
)
def test_a_table_without_days_says_what_is_missing(tmp_path: Path, lines, says: str) -> None:
    with pytest.raises(LabelError, match=says):
        read_quiet_days(write(tmp_path / "quiet.csv", *lines))
