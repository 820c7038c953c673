"""The analysed plan of a DataFrame as a tree of Python objects: which operators and expressions it is made of.

Spark writes a plan as JSON in one call (``TreeNode.toJSON``), nothing left out, where the text of ``explain`` is cut after 25 columns.
It needs the JVM behind a classic session; there is none on Spark Connect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator or an expression."""

    kind: str  # Spark's class, without its package
    fields: Fields
    children: tuple[PlanNode, ...]

    @property
    def inner(self) -> Iterator[PlanNode]:
        """Trees among its fields: an operator's expressions, the plan of a subquery."""
        for value in self.fields.values():
            yield from _trees_in(value)

    def walk(self) -> Iterator[PlanNode]:
        """It and everything in and below it."""
        yield self
        for part in (*self.inner, *self.children):
            yield from part.walk()


def analysed(df: DataFrame) -> Any | None:
    """Spark's own object of the analysed plan; None where there is no JVM to ask."""
    frame = getattr(df, "_jdf", None)
    return None if frame is None else frame.queryExecution().analyzed()


def tree_of(plan: Any) -> PlanNode:
    """The tree of an analysed plan."""
    return _tree(json.loads(plan.toJSON()))


def _tree(flat: list[Fields]) -> PlanNode:
    """Spark writes a tree as a list, each node before its children."""
    nodes = iter(flat)

    def node() -> PlanNode:
        fields = next(nodes)
        children = tuple(node() for _ in range(fields["num-children"]))
        return PlanNode(fields["class"].rpartition(".")[2], fields, children)

    return node()


def _trees_in(value: Any) -> Iterator[PlanNode]:
    if not isinstance(value, list) or not value:
        return
    if isinstance(value[0], dict) and "num-children" in value[0]:
        yield _tree(value)
    else:
        for part in value:
            yield from _trees_in(part)
