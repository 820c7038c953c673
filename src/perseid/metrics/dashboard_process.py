"""The dashboard of a running application: a process of its own over the root, so that it costs the driver nothing.

Invariant: it ends with the process that started it, however that ends: it reads from a pipe that nobody else has.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

from perseid.errors import PerseidError

START_S = 60.0


class DashboardProcess:
    """Started beside an application; shows it while the program lives, also after the application's end."""

    def __init__(self, root: str) -> None:
        self.url = ""
        self._said = threading.Event()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perseid.cli.main", "dashboard", root, "--lifeline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        threading.Thread(target=self._listen, name="perseid-dashboard-address", daemon=True).start()
        if not self._said.wait(START_S) or not self.url:
            raise PerseidError(f"the dashboard did not start: {self._why()}")

    def _why(self) -> str:
        """What it said of itself when it ended; it is ended if it has not."""
        if not self._said.is_set():
            self.close()
            return f"no address within {START_S:g} s"
        self.close()
        said = self._process.stderr.read().strip() if self._process.stderr is not None else ""
        return said or f"it ended with {self._process.returncode}"

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._said.set()
