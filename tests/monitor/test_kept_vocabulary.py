"""New values cost what they are, not what there was before them; a restart knows them all."""

from __future__ import annotations

import random

from monitor.domain import Attribute, Schema
from monitor.edge.kept_vocabulary import WHOLE, KeptVocabulary

SCHEMA = Schema((Attribute("app", 0), Attribute("city", 0)), ("failed",))


def test_a_new_value_costs_its_own_length_and_no_restart_forgets_one() -> None:
    state: dict[str, bytes] = {}
    kept, dice = KeptVocabulary(SCHEMA, state), random.Random(7)
    written = values = 0
    for number in range(3_000):
        if number % 97 == 0:
            before = kept.vocabulary.to_json()
            kept = KeptVocabulary(SCHEMA, state)  # killed and started again
            assert kept.vocabulary.to_json() == before
        attribute = dice.randrange(2)
        text = f"{number:05}" * 20
        kept.vocabulary.encode(attribute, [text, text])
        values += len(text)
        changes = kept.changes()
        assert kept.changes() == changes, "a commit that failed is made again"
        state |= changes
        written += sum(map(len, changes.values()))
        kept.written()
        assert kept.changes() == {}
    assert written < 5 * values
    assert KeptVocabulary(SCHEMA, state).vocabulary.to_json() == kept.vocabulary.to_json()


def test_a_vocabulary_of_an_older_release_is_taken_over() -> None:
    kept = KeptVocabulary(SCHEMA, {WHOLE: b'{"app":["v1","v2"],"city":["x"]}'})
    assert kept.changes() == {}
    assert kept.vocabulary.code(0, "v2") == 2
    kept.vocabulary.encode(1, ["y"])
    state = {WHOLE: b'{"app":["v1","v2"],"city":["x"]}'} | kept.changes()
    assert WHOLE not in kept.changes()
    assert KeptVocabulary(SCHEMA, state).vocabulary.code(1, "y") == 2
