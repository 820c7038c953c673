"""Aggregate functions for ``stream.aggregate(…, values={"total": perseid.agg.sum("amount")})``.

All leave out nulls. A function without a value to work on gives null, ``count`` and ``distinct`` give 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from perseid.errors import GraphError
from perseid.ready import functions
from perseid.ready.functions import Function

__all__ = ["Function", "count", "distinct", "first", "function", "last", "max", "mean", "min", "quantile", "sum"]


def count(column: str | None = None) -> Function:
    """How many rows there are; with a column, how many have a value in it."""
    return functions.Count(None if column is None else _column("count", column))


def sum(column: str) -> Function:
    """The sum of a column: a long of integers, a double of floats, a decimal of decimals."""
    return functions.Sum(_column("sum", column))


def mean(column: str) -> Function:
    """The mean of a column, a double."""
    return functions.Mean(_column("mean", column))


def min(column: str) -> Function:
    """The smallest value of a column of any type that has an order. NaN counts as no value."""
    return functions.Least(_column("min", column))


def max(column: str) -> Function:
    """The largest value of a column of any type that has an order. NaN counts as no value."""
    return functions.Greatest(_column("max", column))


def first(column: str) -> Function:
    """The value of the first row that has one: by event time in windows of time, else in the order of rows."""
    return functions.First(_column("first", column))


def last(column: str) -> Function:
    """The value of the last row that has one: by event time in windows of time, else in the order of rows."""
    return functions.Last(_column("last", column))


def distinct(column: str) -> Function:
    """How many different values a column has, exactly. All of them are in the state until their window is out."""
    return functions.Distinct(_column("distinct", column))


def quantile(column: str, share: float) -> Function:
    """The value below which a share of the values lies: ``perseid.agg.quantile("ms", 0.95)``, exactly, as Spark's ``percentile``.

    All values are in the state until their window is out, so it needs a window.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise GraphError(f"agg.quantile({column!r}, {share!r}): expected a share from 0 to 1, such as 0.95")
    return functions.Quantile(_column("quantile", column), float(share))


def function(function: Callable[[pa.Array], Any], column: str, *, type: pa.DataType) -> Function:
    """A function of your own: it gets the values of a window as an Arrow array and returns one value of ``type``.

        spread = perseid.agg.function(lambda values: pc.stddev(values).as_py(), "amount", type=pa.float64())

    It must be deterministic. It is called once for each result. All values are in the state until their window is out, so it
    needs a window.
    """
    if not callable(function):
        raise GraphError(f"agg.function({function!r:.80}): expected a function of an Arrow array")
    if not isinstance(type, pa.DataType):
        raise GraphError(f"agg.function(…, type={type!r:.80}): expected a type of Arrow, such as pa.float64()")
    return functions.OwnFunction(_column("function", column), function, type)


def _column(name: str, column: Any) -> str:
    if not isinstance(column, str) or not column:
        raise GraphError(f'agg.{name}({column!r:.80}): expected the name of a column, such as agg.{name}("amount")')
    return column
