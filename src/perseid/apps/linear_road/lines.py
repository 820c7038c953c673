"""The benchmark's input format: lines of 15 integers, as a table; what is not such a line is put aside (S7).

    Type,Time,VID,Spd,XWay,Lane,Dir,Seg,Pos,QID,Sinit,Send,DOW,TOD,Day          unused fields are -1

Type 0 is a position report, 2 asks for a balance, 3 for the expenditure of a day, 4 for a travel time (which nobody
answers). Type 9 is Perseid's own: a line of the toll history that comes before all others, with the toll in the field QID.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

REPORT: Final = 0
BALANCE: Final = 2
DAILY: Final = 3
TRAVEL_TIME: Final = 4
HISTORY: Final = 9

FIELDS: Final = (
    "type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod", "day"
)  # fmt: skip

COLUMNS: Final[Mapping[str, str]] = {
    "type": "tinyint", "time": "int", "vid": "int", "spd": "smallint", "xway": "smallint", "lane": "tinyint",
    "dir": "tinyint", "seg": "tinyint", "pos": "int", "qid": "int", "day": "smallint",
}  # fmt: skip
"""The fields that are used, with the smallest type that holds them: fewer bytes on the way to the operators."""

DDL: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

VALID: Final = (
    "vid >= 0 AND xway >= -1 AND day >= -1 AND ((type = 0 AND time >= 0 AND xway >= 0 AND spd BETWEEN 0 AND 1000"
    " AND lane BETWEEN 0 AND 4 AND dir BETWEEN 0 AND 1 AND seg BETWEEN 0 AND 99 AND pos >= 0)"
    " OR (type IN (2, 3, 4) AND time >= 0 OR type = 9) AND spd BETWEEN -1 AND 1000 AND lane BETWEEN -1 AND 4"
    " AND dir BETWEEN -1 AND 1 AND seg BETWEEN -1 AND 99 AND pos >= -1)"
)
"""What a line of integers must fulfil, as SQL. ``_valid`` says the same for Arrow."""

NUMBER: Final = r"^-?[0-9]{1,9}$"

_ARROW: Final = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32()}
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items()])


def parse(text: bytes) -> tuple[pa.Table, list[str]]:
    """The lines as a table of the used columns, and the lines that are none."""
    try:
        return _checked(_read(text, pa.int32(), "error"), [])
    except pa.ArrowInvalid:  # a line is none: look at every field
        return _parse_with_care(text)


def _read(text: bytes, kind: pa.DataType, invalid: object) -> pa.Table:
    return pa.csv.read_csv(
        io.BytesIO(text if text.endswith(b"\n") else text + b"\n"),
        read_options=pa.csv.ReadOptions(column_names=list(FIELDS), use_threads=False),
        parse_options=pa.csv.ParseOptions(invalid_row_handler=invalid if callable(invalid) else None, quote_char=False),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(FIELDS, kind), null_values=[]),
    )


def _parse_with_care(text: bytes) -> tuple[pa.Table, list[str]]:
    aside: list[str] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        aside.append(row.text or "")
        return "skip"

    strings = _read(text, pa.string(), refuse)
    good = None
    for name in FIELDS:
        matches = pc.match_substring_regex(strings[name], NUMBER)
        good = matches if good is None else pc.and_(good, matches)
    aside += [",".join(row.values()) for row in strings.filter(pc.invert(good)).to_pylist()]
    wide = strings.filter(good)
    return _checked(pa.table({name: pc.cast(wide[name], pa.int32()) for name in FIELDS}), aside)


def _checked(table: pa.Table, aside: list[str]) -> tuple[pa.Table, list[str]]:
    valid = _valid(table)
    refused = table.filter(pc.invert(valid)).to_pylist()
    aside += [",".join(map(str, row.values())) for row in refused]
    return table.filter(valid).select(list(COLUMNS)).cast(SCHEMA), aside


def _valid(table: pa.Table) -> pa.ChunkedArray:
    def within(name: str, low: int, high: int) -> pa.ChunkedArray:
        return pc.and_(pc.greater_equal(table[name], low), pc.less_equal(table[name], high))

    highest = {"spd": 1000, "xway": 2**15 - 1, "lane": 4, "dir": 1, "seg": 99, "pos": 10**9}
    limits = {lowest: _all([within(name, lowest, high) for name, high in highest.items()]) for lowest in (0, -1)}
    timed = within("time", 0, 10**9)
    report = _all([pc.equal(table["type"], REPORT), timed, limits[0]])
    query = pc.and_(pc.is_in(table["type"], pa.array([BALANCE, DAILY, TRAVEL_TIME], pa.int32())), timed)
    other = pc.and_(pc.or_(query, pc.equal(table["type"], HISTORY)), limits[-1])
    return _all([pc.or_(report, other), within("vid", 0, 10**9), within("day", -1, 2**15 - 1)])


def _all(conditions: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    result = conditions[0]
    for condition in conditions[1:]:
        result = pc.and_(result, condition)
    return result
