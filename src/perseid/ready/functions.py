"""Aggregate functions over whole columns: of the rows of an epoch by group, of two parts of a group, of several groups as one.

Most keep a few numbers for each group (*folds*): what they keep of two parts of a group can be joined into what they keep of the whole,
so a pane of a sliding window is worked out once. Others need the values themselves (*keeps*): those are kept until their window is out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.errors import OperatorFailed, OperatorMistake
from perseid.operators.grouping import stable_order
from perseid.ready.batch import Batch
from perseid.ready.columns import Array, Numbers, Segments, dtype_of, to_arrow, to_values

_MOST = 1 << 62
_EXACT = 1 << 53  # a double counts so far without a gap


@dataclass(frozen=True)
class Function:
    """One aggregate: of a column, or of rows as such."""

    column: str | None
    name: ClassVar[str] = ""
    ordered: ClassVar[bool] = False  # its result depends on the order of rows
    of_all: ClassVar[bool] = True  # it is possible without a window

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        """The type of its result for a column of this type. Raises ``OperatorMistake`` for one that it cannot take."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.name}({'' if self.column is None else repr(self.column)})"

    def _refuse(self, kind: pa.DataType | None, expected: str) -> OperatorMistake:
        return OperatorMistake(f"{self}: column '{self.column}' has type {kind}; expected {expected}")


class Fold(Function):
    """Keeps columns of one value for each group."""

    def initial(self, batch: Batch) -> list[Array]:
        """What it keeps of the rows of an epoch, for each group."""
        raise NotImplementedError

    def joined(self, old: Sequence[Array], new: Sequence[Array]) -> list[Array]:
        """What it keeps of groups of which one part came before the other."""
        return [ufunc(a, b) for ufunc, a, b in zip(self._ufuncs(old), old, new, strict=True)]

    def merged(self, kept: Sequence[Array], segments: Segments) -> list[Array]:
        """What it keeps of several groups as one, in the order of time."""
        return [
            ufunc.reduceat(column[segments.order], segments.starts)
            for ufunc, column in zip(self._ufuncs(kept), kept, strict=True)
        ]

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        """The values of its column of the output."""
        raise NotImplementedError

    def _ufuncs(self, kept: Sequence[Array]) -> tuple[Any, ...]:
        return (np.add,) * len(kept)


class Count(Fold):
    """How many rows there are, or how many have a value in the column."""

    name = "count"

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def initial(self, batch: Batch) -> list[Array]:
        return [batch.counts(self.column)]

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        return pa.array(kept[0])


class Sum(Fold):
    """The sum of the values; null if there is none."""

    name = "sum"

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        if kind is not None and pa.types.is_decimal(kind):
            return pa.decimal128(min(38, kind.precision + 10), kind.scale)
        if kind is not None and pa.types.is_floating(kind):
            return pa.float64()
        if kind is not None and pa.types.is_integer(kind):
            return pa.int64()
        raise self._refuse(kind, "a number")

    def initial(self, batch: Batch) -> list[Array]:
        sums = _sums(batch, str(self.column))
        if sums.dtype == np.int64 and not _small(numbers := batch.values(str(self.column)).values):
            self._check(sums, np.bincount(batch.codes, numbers, minlength=batch.groups))
        return [sums, batch.counts(self.column)]

    def joined(self, old: Sequence[Array], new: Sequence[Array]) -> list[Array]:
        sums = super().joined(old, new)
        if sums[0].dtype == np.int64:
            self._check(sums[0], old[0].astype(np.float64) + new[0])
        return sums

    def merged(self, kept: Sequence[Array], segments: Segments) -> list[Array]:
        sums = super().merged(kept, segments)
        if sums[0].dtype == np.int64:
            self._check(sums[0], np.add.reduceat(kept[0][segments.order].astype(np.float64), segments.starts))
        return sums

    def _check(self, sums: Numbers, about: Array) -> None:
        """Sums that are too large for 64 bits have wrapped around, and differ by far from what they are about."""
        if (np.abs(sums - about) > _MOST).any():
            raise OperatorFailed(
                f"{self}: a sum is too large for a long: cast the column to decimal(38, 0) in a transform before"
            )

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        return to_arrow(kept[0], kept[1] > 0, self.output(kind))


class Mean(Sum):
    """The mean of the values; null if there is none."""

    name = "mean"

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        Sum.output(self, kind)
        return pa.float64()

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        sums, counts = kept[0].astype(np.float64), kept[1]
        return to_arrow(sums / np.maximum(counts, 1), counts > 0, pa.float64())


class Least(Fold):
    """The smallest value, without nulls and NaN; null if there is none."""

    name = "min"
    _numeric: ClassVar[Any] = np.minimum
    _of_two: ClassVar[Any] = min

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        if kind is None or pa.types.is_nested(kind) or pa.types.is_null(kind):
            raise self._refuse(kind, "a type that has an order")
        return kind

    def _ufuncs(self, kept: Sequence[Array]) -> tuple[Any, ...]:
        if kept[0].dtype != object:
            return self._numeric, np.add
        pick = self._of_two
        either = np.frompyfunc(lambda a, b: b if a is None else a if b is None else pick(a, b), 2, 1)
        return either, np.add

    def initial(self, batch: Batch) -> list[Array]:
        column = str(self.column)
        kind = batch.rows.schema.field(column).type
        if dtype_of(kind).hasobject:
            return self._by_rank(batch, column)
        values, there = batch.values(column)
        if values.dtype == np.float64:
            numbers = ~np.isnan(values)
            there = numbers if there is None else there & numbers
        codes, values = _where(there, batch.codes, values)
        found = np.full(batch.groups, self._nothing(values.dtype), values.dtype)
        self._numeric.at(found, codes, values)
        return [found, np.bincount(codes, minlength=batch.groups)]

    def _by_rank(self, batch: Batch, column: str) -> list[Array]:
        """Of texts and the like: by their places among the distinct ones."""
        encoded = pc.dictionary_encode(batch.column(column))
        ranks = np.empty(len(encoded.dictionary), np.int64)
        places = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks[places] = np.arange(len(places))
        codes, rows = _where(batch.values_there(column), batch.codes, np.arange(batch.rows.num_rows))
        found = np.full(batch.groups, self._nothing(np.dtype(np.int64)), np.int64)
        numbers = encoded.indices.fill_null(0).to_numpy().astype(np.int64)
        self._numeric.at(found, codes, ranks[numbers[rows]])
        counts = np.bincount(codes, minlength=batch.groups)
        picked = np.where(counts > 0, found, -1)
        values = np.empty(batch.groups, object)
        some = picked >= 0
        values[some] = to_values(encoded.dictionary.take(pa.array(places[picked[some]]))).values
        return [values, counts]

    def _nothing(self, dtype: np.dtype[Any]) -> Any:
        return np.inf if dtype == np.float64 else np.iinfo(np.int64).max

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        values, there = kept[0], kept[1] > 0
        return to_arrow(np.where(there, values, 0) if values.dtype != object else values, there, self.output(kind))


class Greatest(Least):
    """The largest value, without nulls and NaN; null if there is none."""

    name = "max"
    _numeric = np.maximum
    _of_two = max

    def _nothing(self, dtype: np.dtype[Any]) -> Any:
        return -np.inf if dtype == np.float64 else np.iinfo(np.int64).min


class First(Fold):
    """The value of the first row that has one: by event time where the window is of time, else as the rows come."""

    name = "first"
    ordered = True
    _nothing: ClassVar[int] = np.iinfo(np.int64).max

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        if kind is None or pa.types.is_null(kind):
            raise self._refuse(kind, "a column of values")
        return kind

    def initial(self, batch: Batch) -> list[Array]:
        column = str(self.column)
        codes, rows = _where(batch.values_there(column), batch.codes, np.arange(batch.rows.num_rows))
        picked = self._picked(codes, batch.place[rows])
        groups, chosen = codes[picked], rows[picked]
        values = to_values(batch.column(column).take(pa.array(chosen))).values
        found = np.full(batch.groups, None) if values.dtype == object else np.zeros(batch.groups, values.dtype)
        place = np.full(batch.groups, self._nothing, np.int64)
        found[groups], place[groups] = values, batch.place[chosen]
        return [place, found]

    def joined(self, old: Sequence[Array], new: Sequence[Array]) -> list[Array]:
        other = self._wins(new[0], old[0])
        return [np.where(other, b, a) for a, b in zip(old, new, strict=True)]

    def merged(self, kept: Sequence[Array], segments: Segments) -> list[Array]:
        codes = np.empty(len(kept[0]), np.int64)
        lengths = np.diff(np.append(segments.starts, len(codes)))
        codes[segments.order] = np.repeat(np.arange(len(lengths)), lengths)
        picked = self._picked(codes, kept[0])
        return [column[picked] for column in kept]

    def result(self, kept: Sequence[Array], kind: pa.DataType | None) -> pa.Array:
        return to_arrow(kept[1], kept[0] != self._nothing, self.output(kind))

    def _picked(self, codes: Numbers, place: Numbers) -> Numbers:
        """Of every code the row that counts, by ascending code."""
        order = np.lexsort((place, codes))
        ordered = codes[order]
        return order[np.flatnonzero(np.append([True], ordered[1:] != ordered[:-1])[: len(ordered)])]

    def _wins(self, new: Numbers, old: Numbers) -> Any:
        return new < old


class Last(First):
    """The value of the last row that has one: by event time where the window is of time, else as the rows come."""

    name = "last"
    _nothing = np.iinfo(np.int64).min

    def _picked(self, codes: Numbers, place: Numbers) -> Numbers:
        order = np.lexsort((place, codes))
        ordered = codes[order]
        return order[np.flatnonzero(np.append(ordered[1:] != ordered[:-1], [True])[-len(ordered) or 1 :])]

    def _wins(self, new: Numbers, old: Numbers) -> Any:
        return (new >= old) & (new != self._nothing)


class Keep(Function):
    """Needs the values of a whole window."""

    def values(self, batch: Batch) -> tuple[Numbers, pa.Array]:
        """What is to be kept of the rows of an epoch: the group of each value, and the values, in the order of rows."""
        column = batch.column(str(self.column))
        there = batch.values_there(str(self.column))
        if there is None:
            return self.fewer(batch.codes, column)
        return self.fewer(batch.codes[there], column.filter(pa.array(there)))

    def fewer(self, codes: Numbers, values: pa.Array) -> tuple[Numbers, pa.Array]:
        """The same without what changes no result."""
        return codes, values

    def results(self, codes: Numbers, values: pa.Array, groups: int) -> pa.Array:
        """The values of its column of the output, one for each group."""
        raise NotImplementedError


class Distinct(Keep):
    """How many different values there are, exactly, without nulls."""

    name = "distinct"

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        if kind is None or pa.types.is_nested(kind):
            raise self._refuse(kind, "a column that is no list, map or struct")
        return pa.int64()

    def fewer(self, codes: Numbers, values: pa.Array) -> tuple[Numbers, pa.Array]:
        encoded = pc.dictionary_encode(values)
        if len(codes) and int(codes.max()) >= _MOST // max(1, len(encoded.dictionary)):
            of = pc.dictionary_encode(pa.array(codes))
            codes, distinct = of.indices.to_numpy().astype(np.int64), of.dictionary.to_numpy()
        else:
            distinct = None
        pairs, width = self._pairs(codes, encoded)
        codes = pairs // width
        return codes if distinct is None else distinct[codes], encoded.dictionary.take(pa.array(pairs % width))

    def results(self, codes: Numbers, values: pa.Array, groups: int) -> pa.Array:
        pairs, width = self._pairs(codes, pc.dictionary_encode(values))
        return pa.array(np.bincount(pairs // width, minlength=groups))

    def _pairs(self, groups: Numbers, encoded: pa.DictionaryArray) -> tuple[Numbers, int]:
        """The pairs of group and value that occur, each as one number: group * width + value."""
        width = max(1, len(encoded.dictionary))
        pairs = groups * np.int64(width) + encoded.indices.to_numpy().astype(np.int64)
        found: Numbers = pc.unique(pa.array(pairs)).to_numpy()
        return found, width


@dataclass(frozen=True)
class Quantile(Keep):
    """The value below which a share of the values is, exactly; between two values in proportion, as Spark's ``percentile``."""

    share: float
    of_all: ClassVar[bool] = False
    name: ClassVar[str] = "quantile"

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        if kind is None or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise self._refuse(kind, "a number")
        return pa.float64()

    def __str__(self) -> str:
        return f"quantile({self.column!r}, {self.share})"

    def results(self, codes: Numbers, values: pa.Array, groups: int) -> pa.Array:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes, minlength=groups)
        some = counts > 0
        if not len(numbers):
            return pa.nulls(groups, pa.float64())
        by_number = np.argsort(numbers)
        ordered = numbers[by_number[stable_order(codes[by_number], groups)]]
        place = (counts[some] - 1) * self.share
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, counts[some] - 1)
        starts = (np.cumsum(counts) - counts)[some]
        found = np.zeros(groups)
        below, above = ordered[starts + low], ordered[starts + high]
        with np.errstate(invalid="ignore"):
            between = below + (above - below) * (place - low)
        found[some] = np.where(below == above, below, between)
        return to_arrow(found, some, pa.float64())


@dataclass(frozen=True)
class OwnFunction(Keep):
    """A function of the user's: gets the values of a window as an Arrow array, in their order, and returns one."""

    function: Callable[[pa.Array], Any]
    type: pa.DataType
    name: ClassVar[str] = "function"
    of_all: ClassVar[bool] = False
    ordered: ClassVar[bool] = True

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        return self.type

    def __str__(self) -> str:
        return f"function({getattr(self.function, '__name__', 'function')}, {self.column!r}, {self.type})"

    def results(self, codes: Numbers, values: pa.Array, groups: int) -> pa.Array:
        order = np.argsort(codes, kind="stable")
        values = values.take(pa.array(order))
        ends = np.cumsum(np.bincount(codes, minlength=groups)).tolist()
        found = [self.function(values.slice(a, b - a)) for a, b in zip([0, *ends], ends, strict=False)]
        try:
            return pa.array(found, self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise OperatorFailed(
                f"{self}: its results {found[:3]!r:.100} do not become {self.type}: {error}"
            ) from error


def _where(there: Any, codes: Numbers, values: Array) -> tuple[Numbers, Array]:
    return (codes, values) if there is None else (codes[there], values[there])


def _sums(batch: Batch, column: str) -> Array:
    """The sum of every group: exact for integers and decimals."""
    kind = batch.rows.schema.field(column).type
    if pa.types.is_decimal(kind):
        wide = batch.column(column).cast(pa.decimal128(38, kind.scale))
        table = pa.table({"group": batch.codes, "value": wide})
        sums = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
        found = np.zeros(batch.groups, object)
        listed = np.empty(len(sums), object)
        listed[:] = [value or 0 for value in sums["value_sum"].to_pylist()]
        found[sums["group"].to_numpy()] = listed
        return found
    values = batch.values(column).values  # 0 where there is none
    if values.dtype == np.int64 and not _small(values):
        return np.add.reduceat(values[batch.segments.order], batch.segments.starts)
    sums = np.bincount(batch.codes, values, minlength=batch.groups)
    return sums.astype(np.int64) if values.dtype == np.int64 else sums


def _small(values: Numbers) -> bool:
    """Is every sum of these exact as a double?"""
    if not len(values):
        return True
    return max(abs(int(values.min())), abs(int(values.max()))) * len(values) < _EXACT
