"""A stateful operator: a class whose declared fields live as long as the application (S1).

Each shard is an object of its own and sees one epoch at a time, in order, exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from perseid.state.timers import Timer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from perseid.operators.context import Context
    from perseid.operators.event_time import EventTime
    from perseid.state.fields import StateField
    from perseid.state.keyed import KeyedState
    from perseid.state.timers import Timers


class Operator:
    """A stateful operator: subclass it, write ``process``, and declare what must survive with ``state(...)``.

        class Total(Operator):
            total: int = state(default=0)

            def process(self, rows: pa.Table) -> pa.Table:
                self.total += pc.sum(rows["amount"]).as_py() or 0
                return pa.table({"total": [self.total]})

    The result of an epoch must depend on nothing but the rows, ``self.context`` and the declared fields: no clock, no
    random numbers without a seed in the state, no files. Attributes set in ``__init__`` are configuration.
    """

    ordered: bool = True
    """False: rows of an epoch may come in any order. Faster, right for operators that do not care."""

    state_version: ClassVar[int] = 1
    """Of its fields: one more with every change for which there is a ``@perseid.migrate``."""

    context: Context
    """Epoch, time, watermark, shard and timers of the current call."""

    _by_key: ClassVar[bool] = False
    _whole_epoch: ClassVar[bool] = False  # process() drops late rows and fires timers itself
    _fields: dict[str, StateField]
    _timers: Timers
    _keyed: KeyedState
    _spilling: bool = False
    _moved: Mapping[str, type] = MappingProxyType({})  # what ``perseid.moved`` was told in the driver

    def prepare(self, spark: SparkSession) -> None:
        """In the driver, once, before the application starts: what needs Spark to be found out. Most operators need nothing."""

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        """Of ready operators: the columns it returns, from those of its inputs. Raises ``OperatorMistake``."""
        raise NotImplementedError(f"{type(self).__name__}._output")

    def _variables(self) -> dict[str, str]:
        """What its state consists of beside its fields, and how it is declared. A change of that is a change of the code."""
        return {}

    def _check_state(self) -> None:
        """In the driver, on restored state of earlier code: raise ``GraphChanged`` if this code cannot go on with it."""

    def _mistakes(self, event_time: EventTime | None) -> Iterable[str]:
        """What of its place in the graph does not suit it."""
        return ()

    def process(self, *rows: Any, **inputs: Any) -> Any:
        """Work on one epoch of this shard: ``process(self, rows)``, or one parameter per input, by its name.

        Called in every epoch, with empty tables when no rows came. Returns a table, rows as mappings, or None.
        """
        raise NotImplementedError(f"{type(self).__name__}.process")

    def on_timer(self, timers: Sequence[Timer]) -> Any:
        """Work on the timers due in this epoch, in order; called after ``process``. Returns what ``process`` may."""
        return None
