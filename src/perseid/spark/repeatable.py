"""What a DataFrame function computes differently when Spark computes it again: found in its analysed plan before the start.

Spark may run a lost stage again after some shards have applied the epoch; the rows must then be the same. What certainly differs is
refused: values of the clock, of chance, of the place a row happens to have, functions marked as non-deterministic. What may differ is
warned of: operators that depend on the order of rows, which a shuffle does not keep. An order that is given is trusted to be unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame

from perseid.spark.plan_text import doubts_in_text
from perseid.spark.plan_tree import PlanNode, analysed, tree_of

_TIME = "use the epoch's: write function(df, epoch) and epoch.time_ms"
_CHANCE = "take a value from the row, such as a hash of its key, or write function(df, epoch) and use epoch.time_ms"
_REFUSED = {
    "CurrentTimestamp": ("current_timestamp()", _TIME),
    "Now": ("now()", _TIME),
    "CurrentDate": ("current_date()", _TIME),
    "CurrentTime": ("current_time()", _TIME),
    "LocalTimestamp": ("localtimestamp()", _TIME),
    "Rand": ("rand()", _CHANCE),
    "Randn": ("randn()", _CHANCE),
    "Uuid": ("uuid()", _CHANCE),
    "Shuffle": ("shuffle()", _CHANCE),
    "RandStr": ("randstr()", _CHANCE),
    "Uniform": ("uniform()", _CHANCE),
    "MonotonicallyIncreasingID": ("monotonically_increasing_id()", _CHANCE),
    "SparkPartitionID": ("spark_partition_id()", _CHANCE),
    "CallMethodViaReflection": ("reflect()", "write a Python UDF that gives the same value for the same row"),
}
_SPECIAL_TIMES = frozenset({"now", "today", "yesterday", "tomorrow"})  # texts that Spark casts to what they are now
_REPEATED = frozenset(
    {"InputFileName"}
)  # Spark calls it non-deterministic; a slice of a source is the same files again
_BY_PLACE = {
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
    "AttachDistributedSequence": "zipWithIndex()",
}
_BY_ORDER = {
    "First": "first()",
    "Last": "last()",
    "AnyValue": "any_value()",
    "CollectList": "collect_list()",
    "CollectSet": "collect_set()",
    "ListAgg": "listagg()",
}
_NUMBERING = {
    "RowNumber": "row_number()",
    "NTile": "ntile()",
    "Lag": "lag()",
    "Lead": "lead()",
    "NthValue": "nth_value()",
}
_ORDER_GONE = frozenset(
    {"SortArray", "ArraySort", "Size"}
)  # above a collected array: its order does not matter any more
_KEEP_ORDER = frozenset({"Project", "Filter", "GlobalLimit", "LocalLimit", "Offset", "SubqueryAlias"})


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is refused, and what is warned of."""

    refused: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()

    def without(self, other: Doubts) -> Doubts:
        """Those that the other has not."""
        return Doubts(
            tuple(text for text in self.refused if text not in other.refused),
            tuple(text for text in self.warned if text not in other.warned),
        )


def doubts_of(df: DataFrame, again: Callable[[], DataFrame] | None = None) -> Doubts:
    """What in a DataFrame cannot be repeated. ``again`` makes it once more: the driver, too, has to give the same plan."""
    plan, tree = _plan_and_tree(df)
    if tree is None:
        return Doubts(*doubts_in_text(df))
    refused = list(_refused(tree))
    kinds = {node.kind for node in tree.walk()}
    if not refused and not kinds & (_REPEATED | _BY_PLACE.keys()) and not plan.deterministic():
        refused.append(f"an expression that Spark calls non-deterministic; {_CHANCE}")
    if not refused and again is not None:
        other, other_tree = _plan_and_tree(again())
        if other_tree is not None and not plan.sameResult(other):
            refused += _changing(tree, other_tree)
    warned = [*_warned(tree, ()), *(_subsets(plan) if "Deduplicate" in kinds else ())]
    return Doubts(tuple(dict.fromkeys(refused)), tuple(dict.fromkeys(warned)))


def _plan_and_tree(df: DataFrame) -> tuple[Any, PlanNode | None]:
    plan = analysed(df)
    try:
        return plan, None if plan is None else tree_of(plan)
    except Exception:  # a plan that Spark cannot write, or one deeper than Python's stack
        return plan, None


def _refused(tree: PlanNode) -> Iterator[str]:
    for node in tree.walk():
        if node.kind in _REFUSED:
            yield "{}; {}".format(*_REFUSED[node.kind])
        elif node.fields.get("udfDeterministic") is False:
            name = node.fields.get("name") or node.fields.get("udfName") or "of Scala"
            yield f"the function {name}, which is marked as non-deterministic; write one that gives the same for the same row"
        elif node.kind == "Cast" and node.fields.get("dataType") in ("date", "timestamp", "timestamp_ntz"):
            text = str(node.children[0].fields.get("value")).strip().lower()
            if node.children[0].kind == "Literal" and text in _SPECIAL_TIMES:
                yield f"the text '{text}' as a {node.fields['dataType']}; {_TIME}"


def _changing(first: PlanNode, second: PlanNode) -> Iterator[str]:
    """Values that the function itself put into the plan, others in each call."""
    for a, b in zip_longest(first.walk(), second.walk()):
        if a is None or b is None or a.kind != b.kind:
            return  # other plans altogether, such as of a table made anew: nothing can be said
        if a.kind == "Sample" and a.fields.get("seed") != b.fields.get("seed"):
            yield "sample() without a seed; write sample(fraction=0.5, seed=1), since PySpark drops the seed of sample(0.5, seed=1)"
        elif a.kind == "Literal" and a.fields.get("value") != b.fields.get("value"):
            one, other = a.fields.get("value"), b.fields.get("value")
            yield f"a value that is another one in each call (first {one!s:.40}, then {other!s:.40}); {_CHANCE}"


def _warned(node: PlanNode, above: tuple[str, ...]) -> Iterator[str]:
    if node.kind in ("GlobalLimit", "Offset") and not _ordered(node):
        name = "limit()" if node.kind == "GlobalLimit" else "offset()"
        yield f"{name} without an order, so that any rows may be taken; sort by columns that are unique before it"
    elif node.kind == "Sample":
        yield "sample(), which depends on how rows lie in partitions; filter by a hash of a column, such as xxhash64(id) % 10 = 0"
    elif node.kind in _BY_PLACE:
        yield f"{_BY_PLACE[node.kind]}, which depends on how rows lie in partitions; take a value from the row"
    elif node.kind == "WindowExpression":
        yield from _window(node)
        return
    elif node.kind in _BY_ORDER and not _sorted_later(node, above):
        yield _order_matters(_BY_ORDER[node.kind])
    for part in (*node.inner, *node.children):
        yield from _warned(part, (*above, node.kind)[-2:])


def _sorted_later(node: PlanNode, above: tuple[str, ...]) -> bool:
    """``sort_array(collect_list(…))``, ``listagg(…) within group (order by …)``: above the function is only its aggregate expression."""
    sorted_array = node.kind in ("CollectList", "CollectSet") and above[0:1] and above[0] in _ORDER_GONE
    return bool(sorted_array or node.fields.get("orderExpressions"))


def _window(node: PlanNode) -> Iterator[str]:
    function, spec = node.children
    if any(_by_a_column(child) for child in spec.children if child.kind == "SortOrder"):
        return
    names = {**_BY_ORDER, **_NUMBERING}
    for part in function.walk():
        if part.kind in names:
            yield f"{names[part.kind]} over a window without an order; order it by columns that are unique"


def _order_matters(name: str) -> str:
    return (
        f"{name}, which depends on the order of rows, and a shuffle does not keep it; use min, max, max_by or min_by, or sort what is"
        " collected: sort_array(collect_list(…))"
    )


def _ordered(node: PlanNode) -> bool:
    """Do its rows come from a sort of all of them?"""
    while node.kind in _KEEP_ORDER and len(node.children) == 1:
        node = node.children[0]
    order = [part for part in node.inner if part.kind == "SortOrder"]
    return node.kind == "Sort" and node.fields.get("global") is True and any(map(_by_a_column, order))


def _by_a_column(order: PlanNode) -> bool:
    """Not by a constant, by which all rows are equal."""
    return any(part.kind == "AttributeReference" for part in order.walk())


def _subsets(plan: Any) -> Iterator[str]:
    """``dropDuplicates`` by some of the columns: which row is kept?"""
    if plan.getClass().getSimpleName() == "Deduplicate" and plan.keys().size() < plan.child().output().size():
        keys = ", ".join(plan.keys().apply(at).name() for at in range(plan.keys().size()))
        yield (
            f"dropDuplicates() by {keys} only, so that any of the rows may be kept; use all columns, or a row_number() over an"
            " order that is unique"
        )
    children = plan.children()
    for at in range(children.size()):
        yield from _subsets(children.apply(at))
