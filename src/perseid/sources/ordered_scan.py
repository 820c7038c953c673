"""Files read by Spark in the order they are listed, row by row; or, where nobody looks at the order, all at once.

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

GROUP_BYTES = 2 << 20
"""Small files share a scan up to this size: sorting costs about a microsecond a row, a scan of its own about 20 ms."""

ALONE_BYTES = GROUP_BYTES // 8
"""From this size on, a file has a scan of its own."""

GROUP_FILES = 32
"""Above this number of paths Spark would start a job only to list them."""

MAX_SCANS = 32
"""Groups grow when there would be more scans than about this many: Spark plans many scans slowly."""

_FILE, _BLOCK, _ROW = "__perseid_file", "__perseid_block", "__perseid_row"
_GLOB = str.maketrans({character: "\\" + character for character in "{}[]*?\\"})
_UNQUOTED = "_-!.~'()*,;:$&+=@"  # what java.net.URI leaves as it is


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

    @property
    def name(self) -> str:
        """The name as Spark's ``_metadata.file_name`` spells it, like java.net.URI."""
        raw = self.path.rpartition("/")[2]
        return "".join(c if c > "\x9f" and not c.isspace() else quote(c, _UNQUOTED) for c in raw)


def ordered_scan(
    spark: SparkSession,
    files: Sequence[FileSlice],
    load: Callable[[list[str]], DataFrame],
    schema: StructType,
    *,
    parquet: bool,
) -> DataFrame:
    """The rows of ``files`` in order. ``load`` makes the DataFrame of some paths, which it gets escaped."""
    groups = list(_groups(files))
    if not groups:
        return empty(spark, schema)
    scans = [_scan(group, load, parquet) for group in groups]
    if len(groups) > 1 and all(len(group) > 1 for group in groups):
        # A union of nothing but single partitions is a single partition, too: one task for all. This makes it many.
        scans.append(empty(spark, schema, partitions=2))
    return _union(scans)


def unordered_scan(
    spark: SparkSession, files: Sequence[FileSlice], load: Callable[[list[str]], DataFrame], schema: StructType
) -> DataFrame:
    """The rows of ``files``, all of each, in any order: as few scans as Spark plans without a job of its own."""
    paths = [file.escaped for file in files]
    scans = [load(paths[at : at + GROUP_FILES]) for at in range(0, len(paths), GROUP_FILES)]
    return _union(scans) if scans else empty(spark, schema)


def empty(spark: SparkSession, schema: StructType, *, partitions: int = 1) -> DataFrame:
    """No rows. Spark must not see that it is empty before it runs, or it drops the operators above it."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0, partitions, 1, partitions).where("id < 0").select(*nulls)


def _groups(files: Sequence[FileSlice]) -> Iterator[list[FileSlice]]:
    limit = max(GROUP_BYTES, sum(file.size for file in files) // MAX_SCANS)
    group: list[FileSlice] = []
    names: set[str] = set()
    size = 0
    for file in files:
        alone = file.rows is not None or file.size >= max(ALONE_BYTES, limit // 8)
        full = size + file.size > limit or len(group) == GROUP_FILES or file.name in names
        if group and (alone or full):
            yield group
            group, names, size = [], set(), 0
        if alone:
            yield [file]
        else:
            group.append(file)
            names.add(file.name)
            size += file.size
    if group:
        yield group


def _scan(group: Sequence[FileSlice], load: Callable[[list[str]], DataFrame], parquet: bool) -> DataFrame:
    df = load([file.escaped for file in group])
    wanted = group[0].rows
    if len(group) == 1 and wanted is None:
        return df
    metadata = df.metadataColumn("_metadata")
    if wanted is not None:
        row = metadata["row_index"]
        zero = (row < 0).cast(
            "int"
        )  # numbers from an array are not written into generated code, which then serves all epochs
        bounds = F.array(*(F.lit(number).cast("long") for number in wanted))
        return df.where((row >= F.get(bounds, zero)) & (row < F.get(bounds, zero + 1)))
    place = [_number_of_file(metadata["file_name"], group).alias(_FILE)]
    if parquet:
        place.append(metadata["row_index"].alias(_ROW))
    else:
        place += [metadata["file_block_start"].alias(_BLOCK), F.monotonically_increasing_id().alias(_ROW)]
    names = [_FILE, _ROW] if parquet else [_FILE, _BLOCK, _ROW]
    return df.select("*", *place).coalesce(1).sortWithinPartitions(*names).drop(*names)


def _number_of_file(name: Column, group: Sequence[FileSlice]) -> Column:
    numbers = F.create_map(*(F.lit(x) for number, file in enumerate(group) for x in (file.name, number)))
    unknown = F.raise_error(F.concat(F.lit("Perseid asked Spark for other files than this one: "), name))
    return F.coalesce(F.try_element_at(numbers, name), unknown.cast("int"))


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _union(parts[:half]).unionAll(_union(parts[half:]))
