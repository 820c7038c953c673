"""A driver in a process of its own, to be killed: ``apps.py`` as a script, in a session by which all its processes are found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apps

CLUSTER = "local-cluster[2,3,1024]"


class Driver:
    """One run of an application, from its start to its end."""

    def __init__(self, app: str, folder: apps.Folder, *options: str) -> None:
        self.log = Path(folder.root).with_name("driver.log")
        command = [sys.executable, apps.__file__, app, "--root", folder.root, "--out", folder.out, *options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self.progress: dict[str, Any] = {}
        self.error: dict[str, str] | None = None
        self.ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if "error" in said:
                    self.error = said
                else:
                    self.progress, self.ended = said, said.get("ended", False)

    def wait_for_epoch(self, epoch: int) -> None:
        """Until this run has committed this epoch."""
        self.wait_until(lambda: self.progress.get("epoch", 0) >= epoch, f"epoch {epoch}")

    def wait_for_checkpoint(self, number: int = 1) -> None:
        self.wait_until(lambda: self.progress.get("checkpoints", 0) >= number, f"checkpoint {number}")

    def wait_until(self, condition: Any, what: str) -> Any:
        def holds() -> Any:
            assert self._process.poll() is None, f"the driver ended before {what}: {self.error} {self.tail()}"
            return condition()

        return apps.wait_until(holds, what, 120)

    def wait(self, timeout_s: float = 240) -> None:
        """For its end, which must be a good one."""
        assert self.exit_code(timeout_s) == 0, f"{self.error} {self.tail()}"
        assert self.ended, self.tail()

    def exit_code(self, timeout_s: float = 240) -> int:
        code = self._process.wait(timeout_s)
        self._reader.join(10)
        return code

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def hosts(self) -> list[int]:
        """Process ids of the hosts that hold shards."""
        return [host["pid"] for host in self.progress.get("hosts", ()) if host["shards"]]

    def executors(self) -> list[int]:
        """Process ids of the executors' JVMs."""
        found = []
        for pid in self._members():
            with contextlib.suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return sorted(found)

    def executor_of(self, pid: int) -> int:
        """The executor that a host runs in."""
        executors = self.executors()
        while pid not in executors:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            assert pid > 1
        return pid

    def kill_everything(self) -> None:
        """SIGKILL every process of the session: driver, JVMs, Python workers, hosts."""
        for _ in range(20):  # something may be started while we look
            members = self._members()
            if not members:
                break
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(30)

    def kill_driver(self) -> None:
        """SIGKILL the Python driver alone: its JVM and its hosts are left to find out."""
        self._process.kill()
        self._process.wait(30)

    def _members(self) -> list[int]:
        members = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                if entry.name.isdigit() and os.getsid(int(entry.name)) == self.pid:
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state not in "ZX":
                        members.append(int(entry.name))
        return members
