"""Whatever a record holds: none stops the source, each is counted once, good ones are exact."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.config import Config, load
from monitor.edge.json_records import Decoded, RecordDecoder
from monitor.edge.judge import Judge
from monitor.vocabulary import Vocabulary

RECORDS = int(os.environ.get("FUZZED_RECORDS", "60000"))
"""The long run makes ten million: FUZZED_RECORDS=10000000."""

CONFIG = """
[source]
kind = "kafka"
bootstrap_servers = "nowhere:9092"
topics = "t"
event_id = "id"
[schema]
time = "at"
zone = "UTC"
attributes = [{ name = "region" }, { name = "agent", column = "by.agent" }]
outcomes = [
  { name = "failed", when = "status >= 500" },
  { name = "slow", when = "late" },
]
error_code = "code"
"""
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("fuzz") / "monitor.toml"
    path.write_text(CONFIG)
    return load(path, {})


def good(number: int) -> dict[str, Any]:
    return {
        "at": (NOW - timedelta(seconds=number % 80_000)).isoformat(),
        "id": number,
        "region": ("north", "Łódź", 'a "b"', None)[number % 4],
        "by": {"agent": number % 17},
        "status": (200, 503, 404.0)[number % 3],
        "late": number % 5 == 0,
        "code": "E1" if number % 7 == 0 else None,
    }


STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**63, -(2**63) - 1, 2**64 - 1, 1e308, -0.0, 6.0, "", " ", "NaN",
    "\u0000", "😀" * 50, "x" * 5000, [], [1], {}, {"agent": []}, {"agent": {"a": 1}}, "1e400",
    "2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31", "12:00",
    "2026-03-01T00:00:00", "2026-03-01T00:00:00+99:99", 1767571206, "-5", "true", "north",
)  # fmt: skip
BYTES = (
    b"", b" ", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{", b"}", b"[]", b"null", b"1", b'"a"', b"{}{}",
    b'{"at":NaN}', b'{"at":Infinity}', b'{"a":"\xc3\x28"}', b'{"a":"\\ud800"}', b"{'a':1}",
    b'{"a":1,}', b"[" * 3000 + b"]" * 3000, b'{"a":' * 1500 + b"1" + b"}" * 1500, b"\x00" * 100,
    b"x" * 2_000_000,
)  # fmt: skip


def mutated(dice: random.Random, number: int) -> bytes | None:
    """A record with something wrong with it, or not."""
    match dice.randrange(12):
        case 0:
            return None
        case 1:
            return dice.choice(BYTES[:-1]) if dice.random() < 0.999 else BYTES[-1]
        case 2 | 3:
            data = bytearray(orjson.dumps(good(number)))
            for _ in range(dice.randint(1, 6)):
                at = dice.randrange(len(data))
                data[at : at + dice.randrange(4)] = dice.randbytes(dice.randrange(4))
            return bytes(data)
        case 4 | 5 | 6:
            row = good(number)
            for _ in range(dice.randint(1, 3)):
                row[dice.choice([*row, "other"])] = dice.choice(STRANGE)
            return json.dumps(row).encode()
        case 7:
            row = good(number)
            del row[dice.choice(list(row))]
            return orjson.dumps(row)
    return orjson.dumps(good(number))


def told(decoded: Decoded, vocabulary: Vocabulary) -> list[tuple[object, ...]]:
    """Every record in words: its event, or the reason why it has none."""
    found: dict[int, tuple[object, ...]] = {}
    events = decoded.events
    assert decoded.ids is not None
    for row, at, codes, failed, one in zip(
        decoded.rows.tolist(), events.at, events.values.tolist(), events.failed, decoded.ids,
        strict=True,
    ):  # fmt: skip
        words = [vocabulary.text(i, code) for i, code in enumerate(codes)]
        found[row] = (str(at), *words, *failed.tolist(), one)
    for fault in decoded.faults:
        assert fault.row not in found, "an event or a fault, not both, and only one"
        found[fault.row] = (fault.reason,)
    return [found[row] for row in sorted(found)]


REASONS = {"empty", "too_large", "not_json", "bad_value", "bad_time", "bad_number", "bad_flag"}


def test_none_stops_it_and_each_counts_once(config: Config) -> None:
    dice = random.Random(int(os.environ.get("SEED", "11")))
    vocabulary = Vocabulary(config.settings.schema)
    decoder = RecordDecoder(config, vocabulary, "id")
    reasons: Counter[str] = Counter()
    events = done = 0
    while done < RECORDS:
        size = min(dice.choice((1, 3, 500, 8000)), RECORDS - done)
        values = [mutated(dice, done + i) for i in range(size)]
        decoded = decoder.decode(values)
        reasons.update(fault.reason for fault in decoded.faults)
        assert len(decoded.events) + len(decoded.faults) == size
        rows = sorted([*decoded.rows.tolist(), *(fault.row for fault in decoded.faults)])
        assert rows == list(range(size))
        for row, record_id in zip(decoded.rows.tolist(), decoded.ids or (), strict=True):
            value = values[row]
            if value == orjson.dumps(good(done + row)):
                assert record_id == str(done + row)
        untouched = {i for i, v in enumerate(values) if v == orjson.dumps(good(done + i))}
        assert untouched <= set(decoded.rows.tolist()), "good records are never refused"
        events += len(decoded.events)
        done += size
    assert set(reasons) <= REASONS
    assert len(reasons) >= 6, reasons
    assert events > RECORDS / 3
    print(f"{done:,} records: {events:,} events, {dict(reasons.most_common())}")


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(STRANGE),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_row = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("at", "region", "by", "status", "late", "code", "id"), _json)
)


def _dumps(row: Any) -> bytes:
    try:
        return orjson.dumps(row)
    except (TypeError, orjson.JSONEncodeError):  # lone surrogates, integers beyond 64 bits
        return repr(row).encode("utf-8", "replace")


@settings(max_examples=150, deadline=None)
@given(
    records=st.lists(
        st.one_of(
            _row.map(_dumps),
            st.integers(0, 50).map(lambda n: orjson.dumps(good(n))),
            st.binary(max_size=12),
            st.sampled_from(BYTES[:-1]),
            st.none(),
        ),
        max_size=12,
    ),
    cut=st.integers(0, 12),
)
def test_a_record_means_the_same_whatever_it_comes_with(
    records: list[bytes | None], cut: int, config: Config
) -> None:
    """A restart cuts the stream elsewhere: the same rows have to come out."""
    vocabulary = Vocabulary(config.settings.schema)
    decoder = RecordDecoder(config, vocabulary, "id")
    together = told(decoder.decode(records), vocabulary)
    alone = [told(decoder.decode([one]), vocabulary)[0] for one in records]
    apart = told(decoder.decode(records[:cut]), vocabulary)
    apart += told(decoder.decode(records[cut:]), vocabulary)
    assert together == alone == apart


def test_a_stream_of_rubbish_is_judged_as_such(config: Config, tmp_path: Path) -> None:
    decoder = RecordDecoder(config, Vocabulary(config.settings.schema), "id")
    dice = random.Random(3)
    values = [mutated(dice, i) if i % 2 else b"\xff" for i in range(400)]
    decoded = decoder.decode(values)
    judge = Judge(0.2)
    assert judge.too_bad(len(values), Counter(fault.reason for fault in decoded.faults))
