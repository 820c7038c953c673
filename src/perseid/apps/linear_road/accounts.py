"""Toll assessment and balance account: what cars owe, and the answers to their queries (S7, rules 5 and 7).

Keyed by vid. Both pass on what they do not answer, so the chain stays one stream; ``Accounts`` is both in one stage.
A query of second t sees every charge up to and including t: epochs hold whole seconds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perseid.apps.linear_road import key_table
from perseid.apps.linear_road.calculator import OUTPUT, SCHEMA, column
from perseid.apps.linear_road.lines import BALANCE, DAILY, HISTORY
from perseid.operators.operator import Operator
from perseid.state.fields import state
from perseid.state.partition import Part

Ints = npt.NDArray[Any]

ACCOUNT: Final = np.dtype([("key", "i8"), ("balance", "i8")])  # the key is vid + 1
EXPENDITURE: Final = np.dtype([("key", "i8"), ("toll", "i8")])  # the key is vid, day and xway, plus 1
TOLL, ACCIDENT = 0, 1

ASSESSED: Final = OUTPUT
ANSWERS: Final = (
    "type tinyint, time int, vid int, xway smallint, seg smallint, dir tinyint, lav smallint, value long, qid int"
)
"""0: toll (lav, value) · 1: accident (xway, seg, dir) · 2: balance (qid, value) · 3: daily expenditure (qid, value)."""

_ANSWERS: Final = pa.schema(
    [("type", pa.int8()), ("time", pa.int32()), ("vid", pa.int32()), ("xway", pa.int16()), ("seg", pa.int16()),
     ("dir", pa.int8()), ("lav", pa.int16()), ("value", pa.int64()), ("qid", pa.int32())]
)  # fmt: skip


def _no_accounts() -> Ints:
    return key_table.new_table(ACCOUNT)


def _no_history() -> Ints:
    return key_table.new_table(EXPENDITURE)


def split_accounts(accounts: Ints, part: Part) -> Ints:
    """The accounts of this part's cars."""
    return key_table.kept(
        accounts, lambda found: np.array([part.holds(key - 1) for key in found["key"].tolist()], bool)
    )


def split_history(history: Ints, part: Part) -> Ints:
    """The expenditures of this part's cars."""
    return key_table.kept(
        history, lambda found: np.array([part.holds(key) for key in ((found["key"] - 1) >> 32).tolist()], bool)
    )


class TollAssessment(Operator):
    """Charges cars for the segments they have left, and fills balances into queries (column ``toll``)."""

    accounts: Ints = state(default_factory=_no_accounts, split=split_accounts, merge=key_table.merged)

    def __init__(self) -> None:
        super().__init__()
        self._accounts_fill = key_table.Fill()

    def process(self, rows: pa.Table) -> pa.Table:
        return self.assess(rows)

    def assess(self, rows: pa.Table) -> pa.Table:
        charge = column(rows, "charge")
        charged = np.flatnonzero(charge > 0)
        asked = np.flatnonzero(column(rows, "type") == BALANCE)
        vid, time = column(rows, "vid").astype(np.int64), column(rows, "time").astype(np.int64)
        if len(asked):
            balances = self._balances(vid[asked]) + _sums(vid, time, charge, charged, asked)
            toll = column(rows, "toll").copy()
            toll[asked] = balances
            rows = rows.set_column(SCHEMA.get_field_index("toll"), SCHEMA.field("toll"), pa.array(toll))
        if len(charged):
            self.accounts, at = self._accounts_fill.put(self.accounts, vid[charged] + 1)
            np.add.at(self.accounts["balance"], at, charge[charged])
        return rows

    def _balances(self, vids: Ints) -> Ints:
        at = key_table.find(self.accounts, vids + 1)
        return np.where(at >= 0, self.accounts["balance"][at], 0)


class BalanceAccount(Operator):
    """Knows what cars spent on former days; makes notifications and answers of all that comes."""

    history: Ints = state(default_factory=_no_history, split=split_history, merge=key_table.merged)

    def __init__(self) -> None:
        super().__init__()
        self._history_fill = key_table.Fill()

    def process(self, rows: pa.Table) -> pa.Table:
        return self.answer(rows)

    def answer(self, rows: pa.Table) -> pa.Table:
        kind = column(rows, "type")
        if (kind != TOLL).any():
            self._learn(rows.filter(pa.array(kind == HISTORY)))
            others = [
                _answers(rows.filter(pa.array(kind == BALANCE)), BALANCE, value="toll"),
                self._daily(rows.filter(pa.array(kind == DAILY))),
            ]
            rows = rows.filter(pa.array(kind == TOLL))
        else:
            others = []
        told = rows.filter(pc.greater_equal(rows["lav"], 0))
        accidents = told.filter(pc.greater_equal(told["ahead"], 0))
        return pa.concat_tables(
            [_answers(told, TOLL, value="toll"), _answers(accidents, ACCIDENT, value=None), *others]
        )

    def _learn(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.history, at = self._history_fill.put(self.history, _history_keys(rows))
            self.history["toll"][at] = column(rows, "qid")

    def _daily(self, rows: pa.Table) -> pa.Table:
        at = key_table.find(self.history, _history_keys(rows))
        found = at >= 0
        rows = rows.filter(pa.array(found))
        toll = pa.array(self.history["toll"][at[found]].astype(np.int32))
        rows = rows.set_column(SCHEMA.get_field_index("toll"), SCHEMA.field("toll"), toll)
        return _answers(rows, DAILY, value="toll")


class Accounts(TollAssessment, BalanceAccount):
    """Toll assessment and balance account in one stage: both are keyed by vid."""

    def process(self, rows: pa.Table) -> pa.Table:
        return self.answer(self.assess(rows))


def _sums(vid: Ints, time: Ints, charge: Ints, charged: Ints, asked: Ints) -> Ints:
    """What each query's car was charged in this epoch up to the second of the query."""
    mine = charged[np.isin(vid[charged], vid[asked])]
    keys = (vid[mine] << 32) + time[mine]
    order = np.argsort(keys, kind="stable")
    keys, sums = keys[order], np.concatenate([[0], np.cumsum(charge[mine][order], dtype=np.int64)])
    until = np.searchsorted(keys, (vid[asked] << 32) + time[asked], side="right")
    since = np.searchsorted(keys, vid[asked] << 32, side="left")
    result: Ints = sums[until] - sums[since]
    return result


def _history_keys(rows: pa.Table) -> Ints:
    vid, day, xway = (column(rows, name).astype(np.int64) for name in ("vid", "day", "xway"))
    return (vid << 32) + ((day + 1) << 16) + xway + 2


def _answers(rows: pa.Table, kind: int, *, value: str | None) -> pa.Table:
    count = rows.num_rows
    nothing = pa.array(np.full(count, -1, np.int16))
    columns: dict[str, Any] = {
        "type": pa.array(np.full(count, kind, np.int8)),
        "time": rows["time"],
        "vid": rows["vid"],
        "xway": rows["xway"],
        "seg": rows["ahead"] if kind == ACCIDENT else nothing,
        "dir": rows["dir"],
        "lav": rows["lav"],
        "value": pa.array(np.full(count, -1, np.int64)) if value is None else rows[value].cast(pa.int64()),
        "qid": rows["qid"],
    }
    return pa.table(columns, schema=_ANSWERS)
