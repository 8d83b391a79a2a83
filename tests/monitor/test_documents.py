"""Documents say exactly what the nouns say, and equal nouns give equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from monitor.domain import (
    Cause,
    Change,
    Diagnosis,
    Edge,
    Finding,
    Incident,
    Method,
    Notification,
    OutcomeCount,
    State,
)
from monitor.edge import documents

texts = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.floats(allow_nan=False)
times = st.datetimes(
    min_value=datetime(1990, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
counts = st.integers(0, 2**53)
causes = st.dictionaries(texts, st.lists(texts, min_size=1, max_size=3), max_size=3).map(
    Cause.from_json
)
findings = st.builds(
    Finding,
    method=st.sampled_from(Method),
    outcome=texts,
    cause=causes,
    path=st.lists(texts, max_size=3).map(tuple),
    score=numbers,
    p_value=numbers,
    q_value=numbers,
    observed=numbers,
    expected=numbers,
    rows=counts,
    horizon=st.timedeltas(timedelta(0), timedelta(days=400)),
    began=times,
    rate_before=numbers,
    rate_now=numbers,
    ended=st.booleans(),
    fresh=st.booleans(),
    chain=st.lists(causes, max_size=2).map(tuple),
    codes=st.lists(texts, max_size=2).map(tuple),
    runners_up=st.lists(st.tuples(causes, numbers), max_size=2).map(tuple),
)
incidents = st.builds(
    Incident,
    id=texts,
    state=st.sampled_from(State),
    opened_at=times,
    updated_at=times,
    last_seen_at=times,
    finding=findings,
    latest=findings,
    resolved_at=st.none() | times,
    worsened_at=st.lists(times, max_size=2).map(tuple),
    told_excess=numbers,
    causes=st.lists(causes, max_size=2).map(tuple),
)
diagnoses = st.builds(
    Diagnosis,
    at=times,
    rows=counts,
    clean_rows=counts,
    outcomes=st.lists(st.builds(OutcomeCount, texts, counts, numbers), max_size=2).map(tuple),
    learning=st.booleans(),
    gap=st.booleans(),
    fit_status=texts,
    fit_steps=counts,
    delta=numbers,
    nodes=counts,
    rare_nodes=counts,
    edges=st.lists(st.builds(Edge, texts, texts, numbers), max_size=2).map(tuple),
    edges_added=counts,
    edges_removed=counts,
    paths_truncated=st.booleans(),
    findings=st.lists(findings, max_size=1).map(tuple),
    unexplained=st.dictionaries(texts, numbers, max_size=2),
    seconds=st.dictionaries(texts, numbers, max_size=2),
)


@given(incidents)
def test_an_incident_comes_back_from_its_document(incident: Incident) -> None:
    text = documents.dumps(documents.incident_document(incident))
    assert documents.incident_from(documents.loads(text)) == incident


@given(incidents)
def test_a_document_of_the_first_days_is_still_read(incident: Incident) -> None:
    document = documents.loads(documents.dumps(documents.incident_document(incident)))
    del document["told_excess"], document["finding"]["fresh"], document["latest"]["fresh"]
    assert documents.incident_from(document) == replace(
        incident,
        told_excess=0.0,
        finding=replace(incident.finding, fresh=True),
        latest=replace(incident.latest, fresh=True),
    )


@given(diagnoses)
def test_a_diagnosis_comes_back_from_its_document(diagnosis: Diagnosis) -> None:
    text = documents.dumps(documents.diagnosis_document(diagnosis))
    assert documents.diagnosis_from(documents.loads(text)) == diagnosis


@given(incidents, st.sampled_from(Change), times)
def test_a_notification_comes_back_from_its_document(
    incident: Incident, change: Change, at: datetime
) -> None:
    notification = Notification(incident, change, at)
    text = documents.dumps(documents.notification_document(notification, "http://x"))
    assert documents.notification_from(documents.loads(text)) == notification


@given(incidents)
def test_documents_are_json_that_anyone_can_read(incident: Incident) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = documents.dumps(documents.incident_document(incident))
    json.loads(text, parse_constant=refuse)


def test_equal_incidents_give_equal_bytes_whatever_the_zone_they_were_written_in() -> None:
    at = datetime(2013, 4, 16, 13, 30, tzinfo=timezone(timedelta(hours=-4)))
    assert documents.time_text(at) == "2013-04-16T17:30:00Z"
    assert documents.time_text(at.astimezone(UTC)) == "2013-04-16T17:30:00Z"
    assert documents.time_from("2013-04-16T17:30:00Z") == at


def test_what_is_not_a_number_stays_so() -> None:
    text = documents.dumps({"infinite": documents._number(float("inf"))})
    assert text == b'{"infinite":"inf"}'
    assert float(documents.loads(text)["infinite"]) == float("inf")
    assert documents._number(float("nan")) == "nan"
