"""Network cuts between the processes of an application on this machine (see ``perseid.channel.blocked``).

A driver tells its hosts and tasks where to look, so the folder must be known before the application starts: ``prepare()``. A driver that
a test starts as a process of its own, and that calls ``prepare()``, too, finds the folder of its test in the environment; nobody else
looks there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from uuid import uuid4

from perseid.channel import blocked
from perseid.errors import FaultError

ENVIRONMENT = "PERSEID_CUTS"


def prepare() -> str:
    """Let the processes of applications that are started from now on be cut off from each other; where they look."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        folder = os.environ[ENVIRONMENT] = tempfile.mkdtemp(prefix="perseid-cuts-")
    blocked.allow(folder)
    return folder


class Cut:
    """Connections from some processes (and what they started) to some ports, forbidden until healed."""

    def __init__(self, sender: Iterable[int] | Literal["*"], receiver: Iterable[int] | Literal["driver"]) -> None:
        folder = blocked.folder()
        if folder is None:
            raise FaultError(
                "partition: the application was started without a way to be cut: use the fixture perseid_spark, perseid.testing.session(),"
                " or call perseid.testing.network.prepare() before the application is started"
            )
        body = {
            "from": sender if sender == "*" else [int(pid) for pid in sender],
            "to": receiver if receiver == "driver" else [int(port) for port in receiver],
        }
        self._file = Path(folder, uuid4().hex)
        half = Path(f"{folder}-{self._file.name}")  # beside the folder, then renamed: no reader sees half a cut
        half.write_text(json.dumps(body))
        half.rename(self._file)

    def heal(self) -> None:
        self._file.unlink(missing_ok=True)
