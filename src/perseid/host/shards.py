"""The shards a host holds: restored from snapshots, fed epoch by epoch, each with the answers and the input it keeps (design §3).

Epochs, forks and the coming and going of shards run under the host's lock, one at a time; shards that nobody knows yet are made
without it.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid.channel.rows import split_inputs, within
from perseid.channel.size_messages import answer_message, notice_message, read_ask
from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine.shard import Refusal, ShardLog
from perseid.errors import OperatorMistake, StorageFailed
from perseid.host.answers import Answer, Spill
from perseid.host.apply import OperatorSpec as OperatorSpec
from perseid.host.apply import apply_epoch
from perseid.host.input_log import InputLog, read_entry
from perseid.host.key_load import KeyLoad
from perseid.host.phases import Phases, since
from perseid.host.restore import Fetch, assembled
from perseid.operators.operator import Operator
from perseid.state.buffer import Kept, partition_buffer_state, replay_buffer_state
from perseid.state.shard_state import ShardState, restore_state
from perseid.state.size_estimate import SizeEstimate
from perseid.state.undeclared import UndeclaredState
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange, Version

NO_ROOM = (
    "its machine's disk has no room for all answers since the last checkpoint (1 GiB for each shard), and the oldest were let go;"
    " a host lost below this operator now takes the whole application back to the checkpoint: checkpoint more often"
)


@dataclass(slots=True)
class HeldShard:
    """A shard, its operator, and what it says of its last epoch."""

    log: ShardLog[Answer]
    operator: Operator
    spec: OperatorSpec
    schema: pa.Schema
    input: InputLog
    size: SizeEstimate
    watch: SizeWatch
    load: KeyLoad
    searched: bool = False  # it raised, and there are no rows to blame
    busy_s: float = 0.0  # at its epochs, since the last report of its load
    short_of_room: bool = False  # for its answers
    worked_s: float = 0.0  # on epochs since it was restored
    last: dict[str, Any] = field(default_factory=dict)
    notices: list[dict[str, Any]] = field(default_factory=list)  # of its size, to be told to the controller


class Shards:
    """All shards of one host."""

    def __init__(
        self,
        store: Store,
        copies: Path | None,
        folder: Path,
        specs: Iterable[OperatorSpec],
        fetch: Fetch | None = None,
        *,
        keep_input: bool = True,
    ) -> None:
        self._keep_input = keep_input
        self._store, self._copies, self._folder, self._fetch = store, copies, folder, fetch
        self._specs = {spec.name: spec for spec in specs}
        self._shards: dict[ShardId, HeldShard] = {}
        self._spill = Spill(folder / "spill")
        self._gone = False  # has state been let go since garbage was last collected?
        self._said: dict[OperatorName, set[str]] = {}  # fields whose size is not known, by operator
        self._undeclared: dict[OperatorName, UndeclaredState] = {}

    def __getitem__(self, shard: ShardId) -> HeldShard:
        return self._shards[shard]

    @property
    def empty(self) -> bool:
        return not self._shards

    def clear(self) -> None:
        self._shards.clear()

    # -- restore --------------------------------------------------------------------------------------------------

    def vacate(self, shards: Iterable[ShardId]) -> None:
        """From now on requests to these are refused."""
        for shard in shards:
            self._gone |= self._shards.pop(shard, None) is not None

    def adopt(self, helds: Iterable[HeldShard]) -> None:
        self._shards |= {held.log.shard: held for held in helds}

    def drop(self, shards: Iterable[ShardId]) -> None:
        """Others have taken over: forget these, and the input and answers they kept."""
        for shard in shards:
            held = self._shards.pop(shard, None)
            if held is not None:
                self._gone = True
                held.input.forget()
                for answer in held.log.answers.values():
                    self._spill.forget(answer)

    def restored(self, command: dict[str, Any]) -> tuple[list[HeldShard], Phases]:
        """Shards as a command says: state from snapshots, then the input that was kept on this machine. Needs no lock: nobody else
        knows them yet."""
        phases = Phases()
        states = assembled(self._store, self._copies, command["shards"], self._specs, phases, self._fetch)
        helds = []
        for entry in command["shards"]:
            held = self._held(entry, states, Version(command["version"]), Epoch(command["retain_from"]))
            begun = time.monotonic()
            self._catch_up(held, [Path(home) / "input" for home in entry["homes"]], Epoch(entry["upto"]))
            self._follow(held, entry, command["before"], Epoch(entry["upto"]))
            phases.add("catch_up", begun)
            held.size.now()
            helds.append(held)
        if self._gone:  # what is frozen is never collected; but to look through it holds up shards that are at work
            gc.unfreeze()
            self._gone = False
        gc.collect()
        gc.freeze()
        return helds, phases

    def _held(
        self, entry: dict[str, Any], states: dict[ShardId, ShardState], version: Version, retain: Epoch
    ) -> HeldShard:
        shard = ShardId(entry["operator"], entry["index"])
        spec = self._specs[shard.operator]
        if spec.name not in self._undeclared:
            self._undeclared[spec.name] = UndeclaredState(spec.name, spec.prototype)
        operator = restore_state(spec.prototype, states.pop(shard, None))
        schema = pa.ipc.read_schema(pa.py_buffer(spec.output))
        retain = Epoch(entry["epoch"] + 1) if spec.retained else retain
        log: ShardLog[Answer] = ShardLog(shard, version, Epoch(entry["epoch"]), retain_from=retain)
        size = SizeEstimate(shard.operator, operator, told=self._said.setdefault(shard.operator, set()))
        kept, load = InputLog(self._folder / "input", shard), KeyLoad(spec.inputs, spec.key, spec.key_types)
        return HeldShard(log, operator, spec, schema, kept, size, SizeWatch(shard), load)

    def _catch_up(self, held: HeldShard, homes: list[Path], upto: Epoch) -> None:
        held.input.take_over(homes, held.log.shard, upto)
        self._replay(held, held.input, upto, keep=False)

    def _replay(self, held: HeldShard, kept: Kept[tuple[dict[str, Any], pa.Table]], upto: Epoch, *, keep: bool) -> None:
        for _, (request, rows) in replay_buffer_state(kept, after=held.log.applied, upto=upto):
            again = {  # what is put aside was decided long ago, and when it was sent says nothing of now
                **request,
                "aside": request["aside"] and "read",
                "at_ms": None,
            }
            if isinstance(self._apply(held, again, rows, keep=keep), Refusal):
                break

    def caught_up(self, command: dict[str, Any]) -> list[HeldShard]:
        """Bring new shards further, with the input that the shards before them keep on this machine; they get no requests yet."""
        helds = [self._shards[ShardId(entry["operator"], entry["index"])] for entry in command["shards"]]
        for held, entry in zip(helds, command["shards"], strict=True):
            self._follow(held, entry, command["before"], Epoch(command["upto"]))
        return helds

    def _follow(self, held: HeldShard, entry: dict[str, Any], before: list[dict[str, Any]], upto: Epoch) -> None:
        """Apply what the shards that had these slots before have kept on this machine, as far as it goes."""
        first, last = entry["slots"]
        mine = [b for b in before if b["operator"] == held.spec.name and b["slots"][0] < last and first < b["slots"][1]]
        if mine:
            self._replay(held, _KeptBefore(held, (first, last), mine), upto, keep=True)

    # -- epochs ---------------------------------------------------------------------------------------------------

    def answer(self, request: dict[str, Any], rows: pa.Table) -> tuple[HeldShard, Answer | None] | Refusal:
        """Apply an epoch, or find the answer to one that was applied before (None: nobody looks at it)."""
        shard, epoch = ShardId(request["operator"], request["shard"]), Epoch(request["epoch"])
        held = self._shards.get(shard)
        if held is None:
            return Refusal("stale", f"shard {shard} is not on this host")
        if request["aside"] == "find" and held.log.poisoned and not held.searched:
            # It raised before rows might be put aside, at the same time as another shard: it has its search before it.
            return Refusal("poisoned", f"shard {shard} must be restored first: {held.log.poisoned}")
        recall, wanted = request["recall"], request["wanted"]
        decision = held.log.ask(epoch, Version(request["version"]), None if recall else rows.num_rows, wanted=wanted)
        if isinstance(decision, Refusal):
            return decision
        if decision == "apply":
            if recall:
                return Refusal("gap", f"shard {shard} has not applied epoch {epoch} yet: there is no answer to recall")
            applied = self._apply(held, request, rows, keep=True)
            return applied if isinstance(applied, Refusal) else (held, applied)
        return held, held.log.answers.get(epoch)

    def table(self, held: HeldShard, answer: Answer | None) -> pa.Table:
        return held.schema.empty_table() if answer is None else self._spill.table(answer)

    def _apply(self, held: HeldShard, request: dict[str, Any], rows: pa.Table, *, keep: bool) -> Answer | Refusal:
        """Apply one epoch: all of it, or the shard is poisoned and must be restored."""
        log, epoch = held.log, Epoch(request["epoch"])
        for answer in log.release(Epoch(request["release"])):
            self._spill.forget(answer)
        begun, worked_s = time.monotonic(), time.thread_time()
        inputs = split_inputs(rows, held.spec.inputs)
        try:
            applied = apply_epoch(self._store, held.operator, held.spec, held.schema, log.shard, request, inputs)
        except StorageFailed as error:  # nothing has changed yet
            return Refusal("storage", str(error))
        except Exception as error:
            held.searched = request["aside"] == "find"
            trace = "".join(traceback.format_exception(error.__cause__ or error)[-6:])
            return log.failed(epoch, f"{error}\n{trace}", mistake=isinstance(error, OperatorMistake))
        output, context = applied.output, applied.context
        advice = self._undeclared[held.spec.name].after_epoch(held.operator) if rows.num_rows else ()
        held.notices += [{"kind": "advice", "message": message} for message in advice]
        answer = self._spill.keep(output, log.shard, epoch)
        log.applied_epoch(epoch, answer, rows.num_rows)
        if keep and self._keep_input:
            held.input.keep(epoch, request, rows)
        if held.spec.retained:
            self._shrink(held)
        self._weigh(held, request.get("at_ms"), time.monotonic() - begun)
        held.load.came(rows, begun)
        held.busy_s += time.thread_time() - worked_s
        held.last = {
            "shard": [log.shard.operator, log.shard.index],
            "epoch": epoch,
            "rows_in": sum(t.num_rows for t in inputs.values()) - applied.rows_aside,
            "rows_out": output.num_rows,
            "late_rows": context.late_rows,
            "event_times_ms": context.max_event_time_ms,
            "next_timer_ms": context.timers.next_ms("processing"),
            "next_event_timer_ms": context.timers.next_ms("event"),
            "state_bytes": held.size.bytes,
            "dead_letters": applied.rows_aside,
            "timers_aside": applied.timers_aside,
            "dead_letter_error": applied.error,
            "ms": since(begun),
        }
        held.worked_s += time.monotonic() - begun
        held.last |= {"worked_ms": held.worked_s * 1000, "sizing_ms": held.size.spent_s * 1000}
        return answer

    def _shrink(self, held: HeldShard) -> None:
        """Keep the answers within their bounds: what does not fit is let go, which is said once until all fits again."""
        no_room = self._spill.shrink(held.log.answers)
        if no_room is not None:
            for answer in held.log.release(no_room):
                self._spill.forget(answer)
            if not held.short_of_room:
                held.notices.append({"kind": "warning", "message": f"shard {held.log.shard}: {NO_ROOM}"})
        held.short_of_room = no_room is not None

    def _weigh(self, held: HeldShard, at_ms: int | None, worked_s: float) -> None:
        """Find out the size, if it is worth the time, and what the controller must know of it (M5). Nothing of what is past: where it
        catches up, ``at_ms`` is None."""
        size = held.size.after_epoch(worked_s)
        if size is not None and at_ms is not None:
            held.notices += [notice_message(notice) for notice in held.watch.sized(at_ms, size)]
            held.notices += [{"kind": "warning", "message": message} for message in held.size.warnings()]

    def sizes(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """Answer the controller's question about sizes; None if none of the shards asked about is here."""
        ask = read_ask(command)
        mine = [h for s, h in self._shards.items() if ask.shards is None or s in ask.shards]
        return answer_message(ask.query, [held.watch.answer(ask) for held in mine]) if mine else None

    def loads(self) -> list[dict[str, Any]]:
        """What each shard had to do since it was asked last, and what it saw of its keys."""
        said = []
        for shard, held in self._shards.items():
            said.append({"shard": list(shard), "busy_ms": round(held.busy_s * 1000), **held.load.report()})
            held.busy_s = 0.0
        return said

    def quieten(self, anew: bool = False) -> None:
        for held in self._shards.values():
            held.watch.quieten(anew)

    def covered(self, cuts: dict[str, int]) -> None:
        """A checkpoint was committed: kept input up to it is needed no more (epoch by operator)."""
        for shard, held in self._shards.items():
            held.input.covered(Epoch(cuts.get(shard.operator, 0)))


@dataclass(frozen=True, slots=True)
class _KeptBefore:
    """What the shards before a new one keep of their input, as the new one's (buffer state, S2)."""

    held: HeldShard
    slots: SlotRange
    before: list[dict[str, Any]]

    def get(self, epoch: Epoch, /) -> tuple[dict[str, Any], pa.Table] | None:
        """One epoch as the shards before applied it; None if any of it is not here."""
        spec, shard = self.held.spec, self.held.log.shard
        request: dict[str, Any] = {}
        aside: str | None = None
        rows: dict[int, dict[Epoch, pa.Table]] = {}
        for source in self.before:
            folder, index = source["folder"], source["index"]
            found = folder and read_entry(Path(folder) / "input", ShardId(spec.name, index), epoch)
            if not found:
                return None
            aside = aside or found[0]["aside"]
            request, rows[index] = found[0], {epoch: found[1]}
        slots = {source["index"]: tuple(source["slots"]) for source in self.before}
        mine = partition_buffer_state(rows, slots, {shard.index: self.slots}, self._within)[shard.index][epoch]
        return {**request, "shard": shard.index, "aside": aside}, mine

    def _within(self, rows: pa.Table, slots: SlotRange) -> pa.Table:
        return within(rows, self.held.spec.inputs, self.held.spec.key, self.held.spec.key_types, slots)
