"""One operator without Spark: rows in, rows out, its state, its timers, saved and restored, split and merged.

It calls what a host calls (``run_epoch``, ``fit``, the codec of snapshots, the slots of keys), so an operator that passes here
behaves the same on Spark. An epoch that raises leaves the state as it was before, as the engine restores it.

Invariant: with ``replay=True`` every epoch is run twice, the second time by a new operator restored from a snapshot; both must give the
same rows and the same state. That finds clocks, random numbers and state that was not declared.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from perseid.errors import GraphError, OperatorFailed, PerseidWarning, SettingsError
from perseid.graph.nodes import ROWS, StatefulNode
from perseid.graph.operator_mistakes import operator_mistakes
from perseid.operators.context import Context
from perseid.operators.event_time import END_OF_TIME_MS, EventTime
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.scaling.routing import even_slots
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch, state_bytes
from perseid.state.partition import merge_state, partition_processing_state
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.state.slots import divided
from perseid.state.timers import Timer
from perseid.state.undeclared import UndeclaredState, shared_containers
from perseid.testing.clock import Clock
from perseid.testing.equality import same
from perseid.testing.inputs import Inputs, Rows
from perseid.testing.schemas import schema_of
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange


@dataclass(frozen=True, slots=True)
class HarnessSnapshot:
    """What a checkpoint holds of an operator: the encoded state of each shard, at one epoch."""

    epoch: int
    time_ms: int
    event_times_ms: tuple[tuple[str, int], ...]
    shards: tuple[tuple[SlotRange, tuple[bytes, ...]], ...]

    @property
    def bytes(self) -> int:
        """How large the state is as it would be written."""
        return sum(len(buffer) for _, buffers in self.shards for buffer in buffers)


class OperatorHarness:
    """One operator under test, without Spark.

    words = OperatorHarness(WordCount(), key="word", output="word string, n long")
    assert words.epoch([{"word": "a"}, {"word": "a"}]) == [{"word": "a", "n": 2}]
    """

    def __init__(
        self,
        operator: Operator,
        *,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        output: str | pa.Schema | None = None,
        inputs: Mapping[str, str | pa.Schema | None] | Sequence[str] | None = None,
        schema: str | pa.Schema | None = None,
        event_time: EventTime | None = None,
        shards: int = 1,
        clock: Clock | None = None,
        replay: bool = False,
        name: str = "operator",
    ) -> None:
        """``key``, ``output``, ``event_time`` and ``shards`` as in ``Stream.stateful``.

        ``schema`` are the columns of the rows, needed only if the first epoch has none; ``inputs`` names several inputs, with
        their columns if wanted. ``replay=True`` runs every epoch twice and compares.
        """
        if inputs is None:
            inputs = {ROWS: schema}
        names = tuple(inputs)
        given: Mapping[str, Any] = inputs if isinstance(inputs, Mapping) else dict.fromkeys(names)
        keys = {n: _columns(key[n] if isinstance(key, Mapping) and n in key else key) for n in names}
        self._node = StatefulNode(name, "main", names, names, operator, keys, "declared", shards, event_time)
        if mistakes := list(operator_mistakes(self._node)):
            raise GraphError(*(f"operator '{name}': {mistake}" for mistake in mistakes))
        self.clock = clock or Clock()
        self.output: pa.Table | None = None  # of the last epoch, as Arrow
        self.late_rows = 0  # dropped in all epochs
        self._schema = None if output is None else schema_of(output)
        self._inputs = Inputs(keys, given)
        self._replay = replay
        self._epoch, self._time_ms = 0, 0
        self._ended = self._last = False
        self._event_times_ms: dict[str, int] = {}
        self._shards = [(slots, fresh(operator)) for slots in even_slots(shards)]
        self._undeclared = UndeclaredState(name, operator)
        self._warn(shared_containers(name, operator))

    # -- epochs -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: Rows = None, /, *, at_ms: int | None = None, **inputs: Rows) -> list[dict[str, Any]]:
        """Run the next epoch, also without rows: late rows go, keys expire, rows are processed, timers fire. What came out.

        With several inputs give them by name: ``epoch(left=[…], right=[…])``. The epoch's time is the clock's, moved on to
        ``at_ms`` if that is given.
        """
        tables = self._inputs.tables(rows, inputs)
        if at_ms is not None:
            self.clock.move_to(at_ms)
        time_ms = max(self.clock.now_ms, self._time_ms)
        before = [(slots, _encoded(operator)) for slots, operator in self._shards]
        context: dict[str, Any] = {"time_ms": time_ms, "watermark_ms": self.watermark_ms}
        parts = self._inputs.routed(tables, [slots for slots, _ in self._shards])
        try:
            ran = [
                self._run(i, op, mine, **context)
                for i, ((_, op), mine) in enumerate(zip(self._shards, parts, strict=True))
            ]
            if self._replay:
                self._compare(before, parts, ran, context)
        except OperatorFailed:
            self._shards = [(slots, self._decoded(buffers)) for slots, buffers in before]
            raise
        self._epoch, self._time_ms = self._epoch + 1, time_ms
        for _, operator in self._shards:
            self._warn(self._undeclared.after_epoch(operator))
        for _, said in ran:
            self.late_rows += said.late_rows
            for name, newest_ms in said.max_event_time_ms.items():
                self._event_times_ms[name] = max(newest_ms, self._event_times_ms.get(name, newest_ms))
        tables_out = [table for table, _ in ran if table is not None]
        self.output = pa.concat_tables(tables_out, promote_options="permissive") if tables_out else None
        return [] if self.output is None else self.output.to_pylist()

    def finish(self) -> list[dict[str, Any]]:
        """The input has ended: run the last epoch, in which the watermark is the end of time, so that every window closes."""
        self._ended = self._last = True
        try:
            return self.epoch()
        finally:
            self._last = False

    def _warn(self, found: list[str]) -> None:
        for warning in found:
            warnings.warn(warning, PerseidWarning, stacklevel=3)

    def _run(
        self, index: int, operator: Operator, inputs: Mapping[str, pa.Table], *, time_ms: int, watermark_ms: int | None
    ) -> tuple[pa.Table | None, Context]:
        context = Context(
            epoch=Epoch(self._epoch + 1),
            time_ms=time_ms,
            watermark_ms=watermark_ms,
            shard=ShardId(OperatorName(self._node.name), index),
            key=self._node.key,
            event_time=self._node.event_time,
            last_epoch=self._last,
            output=self._schema,
        )
        table = run_epoch(operator, inputs, context)
        if table is not None and self._schema is not None:
            table = fit(table, self._schema, self._node.name)
        return table, context

    def _compare(
        self,
        before: list[tuple[SlotRange, tuple[bytes, ...]]],
        parts: list[dict[str, pa.Table]],
        ran: list[tuple[pa.Table | None, Context]],
        context: Mapping[str, Any],
    ) -> None:
        for index, ((_, buffers), inputs, (table, _)) in enumerate(zip(before, parts, ran, strict=True)):
            again = self._decoded(buffers)
            other, _ = self._run(index, again, inputs, **context)
            where = f"operator '{self._node.name}', shard {index}, epoch {self._epoch + 1}, run again after a restore:"
            advice = "its result must depend on nothing but its rows, self.context and its declared fields"
            if (table is None or not table.num_rows) != (other is None or not other.num_rows) or (
                table is not None and other is not None and not table.equals(other)
            ):
                first, second = _shown(table), _shown(other)
                raise OperatorFailed(f"{where} other rows came out; {advice}\n  first:  {first}\n  second: {second}")
            if not same(capture(self._shards[index][1]), capture(again)):
                raise OperatorFailed(f"{where} its state is another one; {advice}")

    # -- what there is to look at -------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[Any, Any]:
        """The declared fields by name; of a ``KeyedOperator``, the fields of each key: ``{"ada": {"clicks": 3}}``."""
        captured = self._whole(copy=False).processing
        keyed = captured["keyed"]
        if keyed is None:
            return dict(captured["fields"])
        return {key: dict(zip(keyed["names"], values, strict=True)) for key, values in keyed["values"].items()}

    @property
    def timers(self) -> list[Timer]:
        """The timers that have not fired, shard by shard in the order they were set."""
        return [Timer(*timer) for _, operator in self._shards for timer in capture(operator)["timers"]]

    @property
    def watermark_ms(self) -> int | None:
        """Rows before it are late in the next epoch; None without event time, or before every input had rows."""
        if self._node.event_time is None:
            return None
        if self._ended:
            return END_OF_TIME_MS
        timed = self._inputs.with_column(self._node.event_time.column)
        if not self._event_times_ms or any(name not in self._event_times_ms for name in timed):
            return None
        return min(self._event_times_ms.values()) - self._node.event_time.delay.ms

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return self._epoch

    @property
    def state_bytes(self) -> int:
        """What the engine takes for the size of the state: an estimate from samples (M5a)."""
        return sum(state_bytes(operator) for _, operator in self._shards)

    # -- saved and restored, split and merged -------------------------------------------------------------------------

    def snapshot(self) -> HarnessSnapshot:
        """The state as a checkpoint writes it. It shares nothing with the operator, which may go on."""
        shards = tuple((slots, _encoded(operator)) for slots, operator in self._shards)
        return HarnessSnapshot(self._epoch, self._time_ms, tuple(self._event_times_ms.items()), shards)

    def restore(self, snapshot: HarnessSnapshot) -> None:
        """Go back to a snapshot, also one of another harness of the same operator. The clock stays where it is."""
        self._shards = [(slots, self._decoded(buffers)) for slots, buffers in snapshot.shards]
        self._epoch, self._time_ms = snapshot.epoch, snapshot.time_ms
        self._event_times_ms = dict(snapshot.event_times_ms)

    def split(self, parts: int) -> list[OperatorHarness]:
        """The state cut by key into ``parts`` harnesses of one shard each (scale out); this one stays as it is."""
        first, last = self._slots
        if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= last - first:
            raise SettingsError(f"split({parts!r}): expected a number of parts from 1 to {last - first}")
        types, name = self._inputs.key_types, self._node.name
        ranges = divided(self._slots, parts)
        cut = partition_processing_state(self._whole(), self._node.operator, ranges, key_types=types, name=name)
        return [self._sibling([state]) for state in cut]

    @classmethod
    def merge(cls, parts: Sequence[OperatorHarness]) -> OperatorHarness:
        """The state of several harnesses as one of one shard (scale in); they stay as they are."""
        ordered = sorted(parts, key=lambda part: part._slots)
        if not ordered or any(a._slots[1] != b._slots[0] for a, b in itertools.pairwise(ordered)):
            raise SettingsError(
                f"merge: expected neighbours, got parts with the slots {[part._slots for part in ordered]}"
            )
        first = ordered[0]
        epoch = max(part._epoch for part in ordered)
        copies = [replace(part._whole(), epoch=Epoch(epoch)) for part in ordered]
        whole = first._sibling([merge_state(copies, first._node.operator, name=first._node.name)])
        whole._epoch = epoch
        whole._time_ms = max(part._time_ms for part in ordered)
        for part in ordered:
            whole._inputs.key_types = whole._inputs.key_types or part._inputs.key_types
            for name, at_ms in part._event_times_ms.items():
                whole._event_times_ms[name] = max(at_ms, whole._event_times_ms.get(name, at_ms))
        return whole

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _slots(self) -> SlotRange:
        return self._shards[0][0][0], self._shards[-1][0][1]

    def _whole(self, *, copy: bool = True) -> ShardState:
        """The state of all shards as one's."""
        states = [checkpoint_state(op, Epoch(self._epoch), slots=slots, copy=copy) for slots, op in self._shards]
        return states[0] if len(states) == 1 else merge_state(states, self._node.operator, name=self._node.name)

    def _sibling(self, shards: list[ShardState]) -> OperatorHarness:
        """Another harness of the same operator at the same epoch, with these shards."""
        other = object.__new__(OperatorHarness)
        other.__dict__.update(self.__dict__)
        other._inputs, other._event_times_ms = self._inputs.copy(), dict(self._event_times_ms)
        other._shards = [(state.slots, restore_state(self._node.operator, state)) for state in shards]
        other.output, other.late_rows = None, 0
        return other

    def _decoded(self, buffers: Sequence[bytes]) -> Operator:
        operator = fresh(self._node.operator)
        restore(operator, decode(list(buffers)))
        return operator


def _columns(key: Any) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _copied(captured: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(bytes(buffer) for buffer in encode(captured))


def _encoded(operator: Operator) -> tuple[bytes, ...]:
    return _copied(capture(operator))


def _shown(table: pa.Table | None) -> str:
    return "nothing" if table is None else f"{table.slice(0, 3).to_pylist()!r:.300}"
