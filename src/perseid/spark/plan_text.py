"""What cannot be repeated, looked for in the text of a plan: for Spark Connect, where the plan itself is out of reach.

It sees less than ``repeatable``: neither how functions are marked nor what the driver puts in.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

from pyspark.sql import DataFrame

_FIELDS = "spark.sql.debug.maxToStringFields"  # after so many columns Spark cuts the text
_TIME = "use the epoch's: write function(df, epoch) and epoch.time_ms"
_CHANCE = "take a value from the row, such as a hash of its key, or write function(df, epoch) and use epoch.time_ms"
_REFUSED = {
    r"\b(now|current_timestamp|current_date|current_time|localtimestamp)\(": _TIME,
    r"\b(randn?|random|uuid|shuffle|uniform|randstr|monotonically_increasing_id|spark_partition_id)\(": _CHANCE,
    r"\b(reflect|java_method|try_reflect)\(": "write a Python UDF that gives the same value for the same row",
    r"^[\s:+-]*(Sample)\b": "filter by a hash of a column, such as xxhash64(id) % 10 = 0",
}
_NOT_SORTED = r"(?<!sort_array\()(?<!array_sort\()(?<!size\()"
_WARNED = {
    _NOT_SORTED + r"\b(first|last|any_value|collect_list|collect_set)\(": "a shuffle does not keep the order of rows",
    r"^[\s:+-]*(Deduplicate)\b": "by some of the columns any of the rows may be kept",
}


def doubts_in_text(df: DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is refused, and what is warned of."""
    plan = _analysed_text(df)
    warned = [f"{what}, which depends on the order of rows: {why}" for what, why in _found(plan, _WARNED)]
    if re.search(r"^[\s:+-]*(GlobalLimit|Offset)\b", plan, re.MULTILINE) and not re.search(r"Sort \[.*\], true", plan):
        warned.append(
            "limit() without an order, so that any rows may be taken; sort by columns that are unique before it"
        )
    return tuple(f"{what}; {advice}" for what, advice in _found(plan, _REFUSED)), tuple(warned)


def _found(plan: str, patterns: dict[str, str]) -> Iterator[tuple[str, str]]:
    for pattern, advice in patterns.items():
        for name in dict.fromkeys(re.findall(pattern, plan, re.MULTILINE | re.IGNORECASE)):
            yield f"{name.lower()}()", advice


def _analysed_text(df: DataFrame) -> str:
    conf = df.sparkSession.conf
    before = conf.get(_FIELDS)
    text = io.StringIO()
    conf.set(_FIELDS, "100000")
    try:
        with contextlib.redirect_stdout(text):
            df.explain(mode="extended")
    finally:
        conf.set(_FIELDS, before or "25")
    return text.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
