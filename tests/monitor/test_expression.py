"""What a `when` means, and what it refuses."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.edge.cells import flags, numbers, words, written_words
from monitor.expression import Expression, ExpressionError, Kind, compile_expression

TABLE = pa.table(
    {
        "delay": pa.array([10, 70, None, 60], pa.int16()),
        "fallback": pa.array([0.0, 0.0, 90.5, float("nan")]),
        "status": ["ok", "timeout", None, ""],
        "gone": pa.array([True, False, None, True]),
        "text_number": ["5", "70", "", "NA"],
        "odd name": [1, 2, 3, 4],
    }
)


def rows(text: str, table: pa.Table = TABLE) -> list[int]:
    """The numbers of the rows in which `text` holds."""
    read = {Kind.NUMBER: numbers, Kind.TEXT: words, Kind.WRITTEN: written_words, Kind.FLAG: flags}
    expression = compile_expression(text)
    mask = expression(lambda name, kind: read[kind](table[name].combine_chunks())[0])
    return [i for i, holds in enumerate(mask.to_pylist()) if holds]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delay >= 60", [1, 3]),
        ("coalesce(delay, fallback) >= 60", [1, 2, 3]),
        ("delay + fallback / 2 > 60", [1]),
        ("-delay < -60", [1]),
        ("60 < delay <= 70", [1]),
        ('status == "timeout"', [1]),
        ('status != "ok"', [1]),
        ('status in ("ok", "timeout")', [0, 1]),
        ('status not in ("ok",)', [1]),
        ("delay in [10, 60]", [0, 3]),
        ("is_null(delay)", [2]),
        ("delay is None or delay is not null and delay > 60", [1, 2]),
        ("not is_null(fallback) and not delay > 60", [0]),
        ("gone", [0, 3]),
        ("gone == false", [1]),
        ("not gone", [1]),
        ("delay", [0, 1, 3]),
        ("text_number >= 70", [1]),
        ("delay > fallback", [0, 1]),
        ("delay > 60 or gone", [0, 1, 3]),
        ('col("odd name") == 2', [1]),
        ("  delay\n  >= 60  ", [1, 3]),
    ],
)
def test_a_missing_value_makes_no_comparison_true(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("delay = 60", 7, "equality is written `==`"),
        ("delay >= ", 8, "not an expression"),
        ("", 1, "empty"),
        ("60 > 5", 1, "reads no column"),
        ("a().b > 5", 1, "`a().b` is not allowed here"),
        ("x[0] > 5", 1, "`x[0]` is not allowed here"),
        ("x > 5 and __import__('os')", 11, "unknown function `__import__`"),
        ("x > (lambda: 5)", 6, "is not allowed here"),
        ("x == 'a' + 1", 6, "text"),
        ("x > true", 1, "have no order"),
        ("x == null", 6, "is never true"),
        ("coalesce(x) > 1", 1, "two or more"),
        ("is_null(x, y)", 1, "one argument"),
        ("x in y", 6, "list of literals"),
        ("x in (1, 'a')", 6, "literals of one kind"),
        ("x ** 9 > 1", 1, "not allowed"),
        ("x if y else z", 1, "not allowed"),
        ("x > 1" + " or x > 1" * 300, 2000, "longer than"),
        ("x > 1" + "0" * 400, 5, "too large"),
    ],
)
def test_what_is_not_understood_is_shown_where_it_stands(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text)
    assert message in str(caught.value)
    assert caught.value.position == position


def test_the_columns_are_known_before_the_first_row() -> None:
    expression = compile_expression("coalesce(a, b) > 1 and c == 'x' and d.e.f or is_null(c)")
    assert isinstance(expression, Expression)
    assert expression.columns == {
        "a": {Kind.NUMBER},
        "b": {Kind.NUMBER},
        "c": {Kind.WRITTEN, Kind.TEXT},
        "d.e.f": {Kind.FLAG},
    }


_ATOMS = st.sampled_from(
    [
        ("delay > 60", lambda r: None if r["delay"] is None else r["delay"] > 60),
        ("gone", lambda r: r["gone"]),
        ('status == "ok"', lambda r: r["status"] == "ok" if r["status"] else None),
        ("is_null(delay)", lambda r: r["delay"] is None),
    ]
)


def _both(left: object, right: object) -> object:
    return False if False in (left, right) else None if None in (left, right) else True


def _either(left: object, right: object) -> object:
    return True if True in (left, right) else None if None in (left, right) else False


_TREES = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        inner.map(
            lambda a: (
                f"not ({a[0]})",
                lambda r: None if a[1](r) is None else not a[1](r),
            )
        ),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) and ({p[1][0]})", lambda r: _both(p[0][1](r), p[1][1](r)))
        ),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) or ({p[1][0]})", lambda r: _either(p[0][1](r), p[1][1](r)))
        ),
    ),
    max_leaves=6,
)


@given(_TREES)
def test_and_or_not_follow_the_logic_of_three_values(tree: tuple) -> None:  # type: ignore[type-arg]
    text, meaning = tree
    assert rows(text) == [i for i, row in enumerate(TABLE.to_pylist()) if meaning(row)]


@given(st.text(max_size=60))
def test_no_text_does_anything_but_compile_or_complain(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert compile_expression(text).columns
