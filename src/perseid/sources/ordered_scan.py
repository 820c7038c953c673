"""Files read by Spark in the order they are listed, row by row.

Spark's own file scan sorts files by size before it packs them into tasks, so the rows of several files come in an
order that depends on sizes and on the number of cores. Here a slice is cut into groups of neighbouring files: a file
alone in its group is one plain scan (Spark keeps the order within one file, also when it splits it), small neighbours
share one scan whose single task sorts them back by (file, place in the file), and the groups are put together by a
union, which keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

GROUP_BYTES = 16 << 20
"""Small files share a scan up to this size: one task reads and sorts them."""

GROUP_FILES = 32
"""Above this number of paths Spark would start a job only to list them."""

_FILE, _BLOCK, _ROW = "__perseid_file", "__perseid_block", "__perseid_row"
_GLOB = str.maketrans({character: "\\" + character for character in "{}[]*?\\"})
_UNQUOTED = "/_-!.~'()*,;:$&+=@"  # what java.net.URI leaves as it is in a path


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A file, as ``scheme:///path`` without any quoting, and the rows wanted of it (``None``: all of them)."""

    path: str
    size: int
    rows: tuple[int, int] | None = None

    @property
    def escaped(self) -> str:
        """The path for ``spark.read``, which takes every path for a glob."""
        return self.path.translate(_GLOB)


def ordered_scan(
    spark: SparkSession,
    files: Sequence[FileSlice],
    load: Callable[[list[str]], DataFrame],
    schema: StructType,
    *,
    parquet: bool,
) -> DataFrame:
    """The rows of ``files`` in order. ``load`` makes the DataFrame of some paths, which it gets escaped."""
    if not files:
        return empty(spark, schema)
    return _union([_scan(group, load, parquet) for group in _groups(files)])


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, in one partition: Spark must not see that it is empty, or it drops the operators above it."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0, 1, 1, 1).where("id < 0").select(*nulls)


def _groups(files: Sequence[FileSlice]) -> Iterator[list[FileSlice]]:
    group: list[FileSlice] = []
    size = 0
    for file in files:
        alone = file.rows is not None or file.size > GROUP_BYTES // 2
        if group and (alone or size + file.size > GROUP_BYTES or len(group) == GROUP_FILES):
            yield group
            group, size = [], 0
        if alone:
            yield [file]
        else:
            group.append(file)
            size += file.size
    if group:
        yield group


def _scan(group: Sequence[FileSlice], load: Callable[[list[str]], DataFrame], parquet: bool) -> DataFrame:
    df = load([file.escaped for file in group])
    metadata = df.metadataColumn("_metadata")
    if len(group) == 1:
        wanted = group[0].rows
        if wanted is None:
            return df
        first, last = wanted
        return df.where((metadata["row_index"] >= first) & (metadata["row_index"] < last))
    place = [_number_of_file(metadata["file_path"], group).alias(_FILE)]
    if parquet:
        place.append(metadata["row_index"].alias(_ROW))
    else:
        place += [metadata["file_block_start"].alias(_BLOCK), F.monotonically_increasing_id().alias(_ROW)]
    names = [_FILE, _ROW] if parquet else [_FILE, _BLOCK, _ROW]
    return df.select("*", *place).coalesce(1).sortWithinPartitions(*names).drop(*names)


def _number_of_file(path: Column, group: Sequence[FileSlice]) -> Column:
    numbers = F.create_map(*(F.lit(x) for i, file in enumerate(group) for x in (_quoted(file.path), i)))
    unknown = F.raise_error(F.concat(F.lit("Perseid asked Spark for other files than this one: "), path))
    return F.coalesce(F.try_element_at(numbers, path), unknown.cast("int"))


def _quoted(path: str) -> str:
    """The path as Spark's ``_metadata.file_path`` spells it."""
    scheme, separator, rest = path.partition("://")
    return scheme + separator + "".join(c if c > "\x9f" and not c.isspace() else quote(c, _UNQUOTED) for c in rest)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _union(parts[:half]).unionAll(_union(parts[half:]))
