"""Rows and their columns' names, of arrays and of frames (pandas, polars, Arrow) alike.

No frame library is imported: a frame is whatever names its columns and gives each of them by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from least.problem import ProblemError

ENCODE = "encode it as numbers first (`least fit --one-hot`, pandas.get_dummies), or leave it out"


def numbers_of(X: Any) -> tuple[np.ndarray, list[str] | None]:
    """(n, d) float64 rows, and the columns' names if X is a frame whose columns bear text.

    Raises:
        ProblemError: not two-dimensional, fewer than 2 rows, no column, names that stand twice,
            text, complex numbers, missing or infinite values; it names the column and the row.
    """
    names = names_of(X)
    if names is not None:
        whole = [_numbers(X[name], f"column `{name}`") for name in names]
        rows = np.column_stack(whole) if whole else np.empty((len(X), 0))
    else:
        rows = np.asarray(X)
        if rows.ndim != 2:
            raise ProblemError(
                f"X must be two-dimensional, not {rows.shape}. Reshape your data: "
                "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
            )
        rows = _numbers(rows, "X")
    if rows.shape[1] == 0:
        raise ProblemError(
            f"X has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    if len(rows) < 2:
        raise ProblemError(
            f"X has {len(rows)} rows, n_samples = {len(rows)}; at least 2 are needed"
        )
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        what = "NaN" if np.isnan(rows[row, column]) else str(rows[row, column])
        place = f"X[{row}, {column}]" if names is None else f"column `{names[column]}`, row {row},"
        raise ProblemError(f"{place} is {what}: fill or drop such rows")
    return rows, names


def names_of(X: Any) -> list[str] | None:
    """What a frame calls its columns; None for an array, and for a frame that only numbers them.

    Raises:
        ProblemError: a name that stands twice, or names of which only some are text.
    """
    columns = getattr(X, "column_names", None)  # Arrow
    if columns is None and hasattr(X, "to_numpy"):
        columns = getattr(X, "columns", None)  # pandas, polars
    if columns is None:
        return None
    names = list(columns)
    text = [isinstance(name, str) for name in names]
    if not any(text):
        return None
    if not all(text):
        other = names[text.index(False)]
        raise ProblemError(f"only some columns have names of text, {other!r} has not: rename it")
    unique([str(name) for name in names])
    return names


def unique(names: list[str], where: str = "") -> None:
    """Refuse names that stand twice.

    Raises:
        ProblemError: it names the first.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"{where}column `{name}` is there twice; rename one")
        seen.add(name)


def _numbers(values: Any, place: str) -> np.ndarray:
    """As float64. Objects may be numbers of any kind (decimals, integers with gaps), never text."""
    array = np.asarray(values)
    if np.issubdtype(array.dtype, np.complexfloating):
        raise ProblemError(f"Complex data not supported: {place} holds {array.dtype}")
    if array.dtype == object:
        for value in array.flat:
            if isinstance(value, str | bytes):
                raise ProblemError(f"{place} must hold numbers, not text ({value!r}): {ENCODE}")
        try:
            return array.astype(float)
        except (TypeError, ValueError):
            return np.array([_number(v, place) for v in array.flat], float).reshape(array.shape)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ProblemError(f"{place} must hold numbers, not {array.dtype}: {ENCODE}")
    return array.astype(float)


def _number(value: Any, place: str) -> float:
    if value is None or type(value).__name__ == "NAType":  # pandas.NA
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        # scikit-learn looks for a TypeError with these words.
        raise NotANumberError(
            f"{place} must hold numbers; argument must be a string or a number, not {error}"
        ) from None


class NotANumberError(ProblemError, TypeError):
    """An object stands where a number is needed."""


__all__ = ["NotANumberError", "names_of", "numbers_of", "unique"]
