"""Network cuts between the processes of an application on this machine (see ``perseid.spark.cuts``).

Spark's workers learn where to look when they start, so the folder must be known before the session is: ``prepare()``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from uuid import uuid4

from perseid.errors import FaultError
from perseid.spark.cuts import ENVIRONMENT


def prepare() -> str:
    """Let processes that are started from now on be cut off from each other; where they look."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        folder = os.environ[ENVIRONMENT] = tempfile.mkdtemp(prefix="perseid-cuts-")
    return folder


class Cut:
    """Connections from some processes (and what they started) to some ports, forbidden until healed."""

    def __init__(self, sender: Iterable[int] | Literal["*"], receiver: Iterable[int] | Literal["driver"]) -> None:
        folder = os.environ.get(ENVIRONMENT)
        if not folder:
            raise FaultError(
                "partition: Spark was started without a way to be cut: use the fixture perseid_spark, perseid.testing.session(),"
                " or call perseid.testing.network.prepare() before the session is made"
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
