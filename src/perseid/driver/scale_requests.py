"""Requests to scale an operator: checked before the controller hears of them, and what became of them (S3).

They come from the program that runs the application, and from other processes by way of the root.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from perseid.driver.loads import Loads
from perseid.engine import events as on
from perseid.engine import notices
from perseid.errors import ScaleFailed, StorageFailed
from perseid.graph.graph import Graph
from perseid.graph.nodes import StatefulNode
from perseid.scaling.machine import ScaleRequest
from perseid.scaling.routing import RoutingTable
from perseid.state.partition import obstacles
from perseid.storage import requests
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, OperatorName


@dataclass(frozen=True, slots=True)
class Scaled:
    """An operator has other shards now: what ``Running.scale`` returns."""

    operator: str
    before: int
    shards: int
    pause_ms: int  # so long its input stood still
    duration_ms: int  # from the request to the change

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)


class ScaleRequests:
    """All requests of one run."""

    def __init__(
        self, graph: Graph, loads: Loads, routing: Callable[[], RoutingTable], post: Callable[[on.Event], None]
    ) -> None:
        self._graph, self._loads, self._routing, self._post = graph, loads, routing, post
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Scaled]] = {}
        self._lock = threading.Lock()

    def ask(self, operator: str, shards: int, reason: str = "asked for") -> Future[Scaled]:
        """What comes of it. Raises ``ScaleFailed`` at once if nothing can."""
        name = self.checked(operator, shards)
        slots = self._loads.division(self._routing(), name, shards)
        request = ScaleRequest(next(self._numbers), name, slots, reason)
        future: Future[Scaled] = Future()
        with self._lock:
            self._asked[request.number] = future
        self._post(on.ScaleRequested(request))
        return future

    @property
    def scalable(self) -> frozenset[OperatorName]:
        """Operators whose state can be divided."""
        return frozenset(OperatorName(node.name) for node in self._graph.operators if not obstacles(node.operator))

    def checked(self, operator: str, shards: int) -> OperatorName:
        node = next((node for node in self._graph.nodes if node.name == operator), None)
        stateful = ", ".join(repr(node.name) for node in self._graph.operators) or "none"
        if node is None:
            raise ScaleFailed(f"there is no operator {operator!r} to scale; stateful operators: {stateful}")
        if not isinstance(node, StatefulNode):
            kind = type(node).__name__.removesuffix("Node").lower()
            raise ScaleFailed(
                f"{operator!r} is a {kind} and has no state: Spark runs it in as many tasks as it likes; only stateful"
                f" operators have shards: {stateful}"
            )
        if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= SLOTS:
            raise ScaleFailed(f"operator {operator!r}: shards={shards!r}: expected a number from 1 to {SLOTS}")
        found = obstacles(node.operator)
        if found:
            raise ScaleFailed(f"operator {operator!r}: its state cannot be divided by key: " + "; ".join(found))
        return OperatorName(operator)

    def told(self, notice: notices.Scaled | notices.ScaleGivenUp) -> None:
        """The controller says how one ended."""
        match notice:
            case notices.Scaled(request, before, pause_ms, duration_ms):
                shards = len(request.slots)
                self._future(request).set_result(Scaled(request.operator, before, shards, pause_ms, duration_ms))
            case notices.ScaleGivenUp(request, reason, False):
                error = ScaleFailed(f"operator {request.operator!r} keeps its shards: {reason}")
                self._future(request).set_exception(error)

    def ended(self, error: str | None) -> None:
        """Nothing will come of those that are left."""
        with self._lock:
            left, self._asked = list(self._asked.values()), {}
        for future in left:
            future.set_exception(ScaleFailed(f"the application has ended: {error or 'it is finished'}"))

    def take_up(self, store: Store, name: str, request: Mapping[str, Any]) -> None:
        """A request that another process has put on the root."""

        def answered(future: Future[Scaled]) -> None:
            error = future.exception()
            said = {"error": str(error)} if error is not None else {"scaled": future.result().as_dict()}
            with contextlib.suppress(StorageFailed):  # whoever asked hears nothing, and will look
                requests.answer(store, name, said)

        try:
            self.ask(str(request.get("scale")), request.get("shards", 0)).add_done_callback(answered)
        except ScaleFailed as error:
            requests.answer(store, name, {"error": str(error)})

    def _future(self, request: ScaleRequest) -> Future[Scaled]:
        with self._lock:
            return self._asked.pop(request.number, None) or Future()
