"""Asks a running application for something, by way of its root; the driver there looks about once a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perseid.cli.root_facts import gather
from perseid.cli.roots import existing_root
from perseid.clocks import wall_ms
from perseid.errors import NoAnswer, PerseidError
from perseid.storage import requests

SILENT_S = 15


def ask_application(
    root: str, request: Mapping[str, Any], seconds: float, *, failed: type[PerseidError], instead: str
) -> dict[str, Any]:
    """What it says. Raises ``failed`` with its reason if it refuses, or with what to do ``instead`` if nobody is there to do it."""
    store = existing_root(root)
    lease = gather(store, verify=False).lease
    silent_s = (wall_ms() - lease.renewed_ms) / 1000 if lease is not None else 0.0
    if lease is None or lease.status != "held" or silent_s > SILENT_S:
        raise failed(f"{root}: no application runs there; {instead}")
    name = requests.ask(store, request)
    try:
        said = requests.wait(store, name, seconds)
    except NoAnswer as error:
        raise NoAnswer(
            f"{root}: {error} from the application; if it began, it goes on: perseid replay {root} tells"
        ) from error
    if "error" in said:
        raise failed(said["error"])
    return said
