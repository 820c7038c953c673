"""Requests that concern a running application's state, from its own program: what comes of them (S2)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.errors import RequestFailed
from perseid.graph.graph import Graph
from perseid.standby.modes import Standby
from perseid.state.shard_state import ShardState
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.persisted import persist, persisted
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store
from perseid.vocabulary import OperatorName


@dataclass(frozen=True, slots=True)
class TakenCheckpoint:
    """A durable checkpoint, from ``Running.checkpoint_state``: what it holds, and its state as values."""

    id: int
    epochs: Mapping[str, int]  # by unit: the newest epoch that it reflects
    snapshots: tuple[ShardSnapshot, ...]
    store: Store

    @property
    def bytes(self) -> int:
        """The size of all its snapshots."""
        return sum(snapshot.file.bytes for snapshot in self.snapshots)

    def state(self, operator: str) -> list[ShardState]:
        """The state of an operator's shards, in the order of their slots. It is read from the root, as long as that keeps the
        checkpoint; the running shards know nothing of it."""
        return [persisted(self.store, snapshot.file)[1] for snapshot in self._of(operator)]

    def persist(self, operator: str, root: str) -> list[SnapshotFile]:
        """Write the state of an operator's shards to another place, where no newer checkpoint lets it go."""
        place = Store.at(root)
        files = []
        for snapshot in self._of(operator):
            shard, state = persisted(self.store, snapshot.file)
            files.append(persist(state, shard, place, f"{operator}-{shard.index}.snapshot"))
        return files

    def _of(self, operator: str) -> list[ShardSnapshot]:
        mine = sorted((s for s in self.snapshots if s.operator == operator), key=lambda s: s.slots)
        if not mine:
            names = ", ".join(sorted({repr(str(s.operator)) for s in self.snapshots})) or "none"
            raise RequestFailed(f"checkpoint {self.id} has no state of an operator {operator!r}; it has: {names}")
        return mine


class StateRequests:
    """All requests of one run."""

    def __init__(self, graph: Graph, store: Store, post: Callable[[on.Event], None]) -> None:
        self._graph, self._store, self._post = graph, store, post
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[CompletedCheckpoint | None]] = {}
        self._lock = threading.Lock()

    def checkpoint(self, timeout_s: float | None) -> TakenCheckpoint:
        """Returns when there is one that covers all that has been processed by now."""
        found = self._ask(lambda number: on.CheckpointRequested(number), "checkpoint", timeout_s)
        assert found is not None
        snapshots = tuple(s for _, s in sorted(found.shards.items()) if isinstance(s, ShardSnapshot))
        epochs: dict[str, int] = {str(unit): epoch for unit, epoch in found.cuts.items()}
        return TakenCheckpoint(found.id, epochs, snapshots, self._store)

    def restore(self, operator: str, timeout_s: float | None) -> None:
        """Returns when the operator's shards are where they were, from the newest checkpoint and what came since."""
        self._known(operator, "restore")
        self._ask(lambda number: on.RestoreRequested(number, OperatorName(operator)), "restore", timeout_s)

    def standby(self, operator: str, standby: Standby, timeout_s: float | None) -> str:
        """Returns when the operator's shards have it; for one without state, why that does nothing."""
        stateless = [node.name for node in self._graph.nodes if node not in self._graph.operators]
        if operator in stateless:
            return f"{operator!r} has no state: Spark runs it again wherever it is lost, so standby does nothing for it"
        self._known(operator, "give standby")
        self._ask(lambda number: on.StandbyRequested(number, OperatorName(operator), standby), "standby", timeout_s)
        return ""

    def _known(self, operator: str, what: str) -> None:
        names = [node.name for node in self._graph.operators]
        if operator not in names:
            raise RequestFailed(f"there is no stateful operator {operator!r} to {what}; there are: {names}")

    def _ask(self, event: Callable[[int], on.Event], what: str, timeout_s: float | None) -> CompletedCheckpoint | None:
        number, future = next(self._numbers), Future[CompletedCheckpoint | None]()
        with self._lock:
            self._waiting[number] = future
        self._post(event(number))
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            raise RequestFailed(f"no {what} within {timeout_s:g} s; it is still on its way") from error

    def told(self, answer: do.Answered) -> None:
        with self._lock:
            future = self._waiting.pop(answer.number, None)
        if future is not None and answer.error is not None:
            future.set_exception(RequestFailed(answer.error))
        elif future is not None:
            future.set_result(answer.checkpoint)

    def ended(self, error: str | None) -> None:
        """Nothing will come of those that are left."""
        with self._lock:
            left, self._waiting = list(self._waiting.values()), {}
        for future in left:
            future.set_exception(RequestFailed(f"the application has ended: {error or 'it is finished'}"))
