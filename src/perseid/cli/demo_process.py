"""The process the demo kills: ``perseid run … --json`` in a session of its own, so that all of it can be found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perseid.engine.progress import CheckpointStatus, HostStatus, Progress


class Application:
    """One run of the demo's application, from its start to its death."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.command = command(folder)
        environment = {**os.environ, "PERSEID_DEMO": str(folder), "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
            )
        self._progress: Progress | None = None
        self.error: str | None = None
        self._reader = threading.Thread(target=self._read, name="demo reader", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def progress(self) -> Progress | None:
        """The newest picture it sent, if any."""
        return self._progress

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stop(self, timeout_s: float) -> bool:
        """Ask it to stop, as Ctrl-C does; whether it did in time."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill_everything(self) -> int:
        """SIGKILL every process of the session: driver, JVM, Python workers, hosts. How many there were."""
        killed: set[int] = set()
        for _ in range(20):  # something may be started while we look; twenty looks are plenty
            alive = [pid for pid in _session_members(self.pid) if pid not in killed]
            if not alive:
                break
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(alive)
        self._process.wait()
        self._reader.join(timeout=5)
        return len(killed)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            try:
                said = json.loads(text)
            except ValueError:
                continue  # half a line of a killed process, or a word of Spark's
            if not isinstance(said, dict):
                continue
            if "error" in said:
                self.error = str(said.get("message"))
            elif "phase" in said:
                self._progress = progress_of(said)


def command(folder: Path) -> Sequence[str]:
    """The command that starts the application, and starts it again."""
    return (
        sys.executable, "-m", "perseid.cli.main", "run", demo_app_file(), "--root", str(folder / "root"),
        "--hosts", "2", "--checkpoint-seconds", "4", "--json", "--every", "0.25",
    )  # fmt: skip


def demo_app_file() -> str:
    return str(Path(__file__).with_name("demo_app.py"))


def progress_of(said: Mapping[str, Any]) -> Progress:
    """The picture that ``Progress.as_dict`` was made from."""
    fields = dict(said)
    last = fields.get("last_checkpoint")
    fields["last_checkpoint"] = CheckpointStatus(**last) if last else None
    fields["hosts"] = tuple(HostStatus(**{**host, "shards": tuple(host["shards"])}) for host in fields.get("hosts", ()))
    return Progress(**fields)


def _session_members(session: int) -> list[int]:
    """Every live process of the session. Spark's Python daemon makes a process group of its own, but no session."""
    if Path("/proc/self").exists():
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    else:
        listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True)
        pids = [int(word) for word in listed.stdout.split()]
    members = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                members.append(pid)
    return members
