"""A host outlives the daemon that forked it, and never its executor: three real processes, as Spark has them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="the system does not tell when a process has ended"
)

EXECUTOR = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]])"
DAEMON = """
import os, signal, sys, time
from perseid.host.lifeline import outliving_daemon
os.setpgid(0, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
host = os.fork()
if not host:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with outliving_daemon():
        open(sys.argv[1] + "/host", "w").write(f"{os.getpid()} {os.getppid()}\\n")
        while not os.path.exists(sys.argv[1] + "/end"):
            time.sleep(0.01)
    open(sys.argv[1] + "/ended", "w")
    time.sleep(600)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """An executor, its daemon, and a host."""
    executor = subprocess.Popen([sys.executable, "-c", EXECUTOR, DAEMON, str(tmp_path)])
    told = tmp_path / "host"
    eventually(lambda: told.exists() and told.read_text().endswith("\n"))
    host, daemon = map(int, told.read_text().split())
    yield executor, daemon, host
    executor.kill()
    executor.wait()
    for pid in filter(is_alive, (daemon, host)):
        os.kill(pid, signal.SIGKILL)


def test_a_host_outlives_its_daemon_but_not_its_executor(family: tuple[subprocess.Popen[bytes], int, int]) -> None:
    executor, daemon, host = family
    executor.send_signal(signal.SIGSTOP)  # it would end with its daemon
    os.killpg(daemon, signal.SIGHUP)
    os.kill(daemon, signal.SIGKILL)
    time.sleep(0.2)
    assert is_alive(host)
    executor.kill()
    eventually(lambda: not is_alive(host))


def test_a_worker_that_is_no_host_any_more_goes_with_its_daemon(
    family: tuple[subprocess.Popen[bytes], int, int], tmp_path: Path
) -> None:
    _, daemon, host = family
    (tmp_path / "end").touch()
    eventually((tmp_path / "ended").exists)
    os.killpg(daemon, signal.SIGHUP)
    eventually(lambda: not is_alive(host))
