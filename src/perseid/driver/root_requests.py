"""Requests that other processes put on the root of a running application: scale, checkpoint, standby, stop.

The driver looks once a second. Invariant: a request is taken up once, and answered once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from perseid.driver.scale_requests import ScaleRequests
from perseid.driver.state_requests import StateRequests
from perseid.engine import events as on
from perseid.errors import PerseidError, StorageFailed
from perseid.standby.modes import standby_mode
from perseid.storage import requests
from perseid.storage.store import Store

WAIT_S = 120.0


class RootRequests:
    """Takes them up and answers them."""

    def __init__(self, scale: ScaleRequests, state: StateRequests, post: Callable[[on.Event], None]) -> None:
        self._scale, self._state, self._post = scale, state, post
        self._taken: set[str] = set()

    def look(self, store: Store) -> None:
        """Take up what is new."""
        for name, request in requests.pending(store):
            if name not in self._taken:
                self._taken.add(name)
                self._take_up(store, name, request)

    def _take_up(self, store: Store, name: str, request: Mapping[str, Any]) -> None:
        match request:
            case {"scale": _}:
                self._scale.take_up(store, name, request)
            case {"checkpoint": _}:
                self._answer(store, name, self._checkpoint)
            case {"standby": operator, "mode": mode}:
                self._answer(store, name, lambda: self._standby(str(operator), mode))
            case {"stop": _}:
                requests.answer(store, name, {"stopping": True})
                self._post(on.StopRequested())
            case _:
                known = "scale, checkpoint, standby, stop"
                requests.answer(store, name, {"error": f"unknown request {sorted(request)}; known: {known}"})

    def _checkpoint(self) -> dict[str, Any]:
        taken = self._state.checkpoint(WAIT_S)
        return {"checkpoint": {"id": taken.id, "bytes": taken.bytes, "epochs": dict(taken.epochs)}}

    def _standby(self, operator: str, mode: Any) -> dict[str, Any]:
        nothing = self._state.standby(operator, standby_mode(mode), WAIT_S)
        return {"standby": {"operator": operator, "mode": mode, "nothing": nothing}}

    def _answer(self, store: Store, name: str, what: Callable[[], dict[str, Any]]) -> None:
        """It takes a while; the controller goes on."""

        def work() -> None:
            try:
                said = what()
            except PerseidError as error:
                said = {"error": str(error)}
            with contextlib.suppress(StorageFailed):
                requests.answer(store, name, said)

        threading.Thread(target=work, name="perseid-asked", daemon=True).start()
