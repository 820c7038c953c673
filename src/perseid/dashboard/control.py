"""What a dashboard that may control asks of a running application, by way of its root: a checkpoint, a scale, another standby, the end.

Each request is confirmed by the person who makes it: it comes with the word that the page made them type or press.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perseid.errors import NoAnswer, RequestFailed
from perseid.storage import requests
from perseid.storage.store import Store

WAIT_S = 150.0
MODES = ("none", "active", "passive", "hybrid")
ACTIONS = ("checkpoint", "scale", "standby", "stop")


def ask(store: Store, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The application's answer. Raises ``RequestFailed`` for what cannot be asked, or is not answered."""
    action = wanted.get("action")
    if action not in ACTIONS:
        raise RequestFailed(f"unknown action {action!r}; known: {', '.join(ACTIONS)}")
    if wanted.get("confirmed") is not True:
        raise RequestFailed(f"{action}: not confirmed")
    request: dict[str, Any] = {action: True}
    if action == "scale":
        shards = wanted.get("shards")
        if isinstance(shards, bool) or not isinstance(shards, int):
            raise RequestFailed(f"scale: shards={shards!r}: expected a whole number")
        request = {"scale": str(wanted.get("operator")), "shards": shards}
    elif action == "standby":
        mode = wanted.get("mode")
        if mode not in MODES:
            raise RequestFailed(f"standby: mode={mode!r}: expected {', '.join(MODES)}")
        request = {"standby": str(wanted.get("operator")), "mode": mode}
    name = requests.ask(store, request)
    try:
        said = requests.wait(store, name, WAIT_S)
    except NoAnswer as error:
        raise RequestFailed(f"{action}: {error}; is the application running?") from error
    if "error" in said:
        raise RequestFailed(str(said["error"]))
    return said
