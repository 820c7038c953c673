"""A driver in a process of its own, which can be crashed with all it started, and started again.

It is any command that prints ``Progress.as_dict()`` as JSON lines, as ``perseid run APP.py --json`` does. It gets a session
of its own, by which all its processes are found: JVMs, Python workers, hosts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perseid.engine.progress import CheckpointStatus, HostStatus, Progress, StandbyStatus
from perseid.errors import ApplicationFailed, SettingsError
from perseid.testing.network import prepare
from perseid.testing.processes import kill_session, session_members


class Driver:
    """One application, from its first start to its end, through any number of crashes."""

    def __init__(
        self, command: Sequence[str], *, root: str, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        prepare()
        self.command, self.root, self.log = list(command), root, log
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self.start()

    @classmethod
    def of(cls, file: str | Path, *, root: str, log: Path, **options: Any) -> Driver:
        """The application in a Python file; options are those of ``perseid.testing.driven``."""
        from perseid.testing.driven import Spec

        spec = {"file": str(Path(file).resolve()), "root": root, **options}
        known = [field.name for field in dataclasses.fields(Spec)]
        strange = [name for name in options if name not in known]
        if strange:
            raise SettingsError(f"driver: no such option: {', '.join(strange)}; there are {', '.join(known)}")
        return cls([sys.executable, "-m", "perseid.testing.driven", json.dumps(spec)], root=root, log=log)

    def start(self) -> None:
        """Start it, again if it has been killed."""
        self._progress: Progress | None = None
        self.error: str | None = None
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                self.command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name="perseid-reader", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id of the driver."""
        return self._process.pid

    def progress(self) -> Progress | None:
        """What the driver said last; None before it has said anything."""
        return self._progress

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def ended(self) -> bool:
        """Whether the application has ended well. Raises ``ApplicationFailed`` if the driver failed."""
        code = self.exit_code()
        if code is None:
            return False
        self._reader.join(10)
        if code:
            raise ApplicationFailed(f"{self.error or f'the driver ended with code {code}'}\n{self.tail()}".strip())
        return True

    def wait(self, timeout_s: float) -> bool:
        """For its end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.ended()

    def crash(self) -> str:
        """Kill the driver and every process it has started, then start it again on the same root."""
        count = self.kill()
        self.start()
        return f"killed the driver and all it had started: {count} processes; started it again"

    def kill(self) -> int:
        """SIGKILL to every process of its session; how many there were."""
        count = kill_session(self.pid)
        self._process.wait(30)
        self._reader.join(5)
        return count

    def kill_alone(self) -> None:
        """SIGKILL to the Python driver alone: its JVM and its hosts are left to find out."""
        self._process.kill()
        self._process.wait(30)

    def stop(self, timeout_s: float = 0.0) -> bool:
        """Ask it to stop, as Ctrl-C does; whether it did so in time."""
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s) == 0
        return False

    def members(self) -> list[int]:
        """All its live processes."""
        return session_members(self.pid)

    def tail(self) -> str:
        """The end of what it wrote to its log."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # half a line of a killed process, or a word of Spark's
            if process is not self._process or not isinstance(said, dict):
                continue
            if "error" in said:
                self.error = str(said.get("message"))
            elif "phase" in said:
                self._progress = progress_of(said)


def progress_of(said: Mapping[str, Any]) -> Progress:
    """The picture that ``Progress.as_dict`` was made from."""
    fields = {name: value for name, value in said.items() if name in Progress.__dataclass_fields__}
    last = fields.get("last_checkpoint")
    fields["last_checkpoint"] = CheckpointStatus(**last) if last else None
    fields["hosts"] = tuple(HostStatus(**{**host, "shards": tuple(host["shards"])}) for host in fields.get("hosts", ()))
    fields["standby"] = tuple(
        StandbyStatus(**{**one, "shards": tuple(one["shards"])}) for one in fields.get("standby", ())
    )
    return Progress(**fields)
