"""``apps.py`` as a driver in a process of its own, to be killed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import apps

import perseid.testing
from perseid.engine.progress import Progress

CLUSTER = "local-cluster[2,3,1024]"
ROWS = 12_000


class Driver(perseid.testing.Driver):
    """One run of an application of ``apps.py``."""

    def __init__(self, app: str, folder: apps.Folder, *options: str) -> None:
        command = [sys.executable, apps.__file__, app, "--root", folder.root, "--out", folder.out]
        log = Path(folder.root).with_name("driver.log")
        super().__init__([*command, "--rows", str(ROWS), *options], root=folder.root, log=log)

    @property
    def picture(self) -> Progress:
        return self.progress() or Progress("", "starting")

    def wait_for_epoch(self, epoch: int) -> None:
        """Until this run has committed this epoch."""
        self.wait_until(lambda: self.picture.epoch >= epoch, f"epoch {epoch}")

    def wait_for_checkpoint(self, number: int = 1) -> None:
        self.wait_until(lambda: self.picture.checkpoints >= number, f"checkpoint {number}")

    def wait_until(self, condition: Callable[[], Any], what: str) -> Any:
        def holds() -> Any:
            assert self.exit_code() is None, f"the driver ended before {what}: {self.error} {self.tail()}"
            return condition()

        return apps.wait_until(holds, what)

    def finish(self) -> None:
        """Wait for its end, which must be a good one."""
        assert self.wait(apps.WAIT_S), f"{self.error} {self.tail()}"


class Start(Protocol):
    def __call__(self, app: str, *options: str) -> Driver: ...
