import json
import os
import sys
import time
from pathlib import Path

import pytest

from perseid.cli import demo_process
from perseid.engine.progress import HostStatus, Progress

PICTURE = Progress("words", "running", epoch=7, hosts=(HostStatus(0, 1, "a", True, ("count/0",), 5),))

SCRIPT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(60)"])
print("not json")
print('{json.dumps(PICTURE.as_dict())}')
print(child.pid, flush=True)
open(os.environ["PERSEID_DEMO"] + "/pids", "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(60)
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    def start(script):
        monkeypatch.setattr(demo_process, "command", lambda folder: (sys.executable, "-c", script))
        return demo_process.Application(tmp_path, tmp_path / "log")

    return start


def eventually(reached):
    deadline_s = time.monotonic() + 20
    while not (found := reached()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "Z"  # dead, not yet reaped by its new parent


def test_all_of_it_dies_also_what_made_a_group_of_its_own(started, tmp_path):
    application = started(SCRIPT)
    assert eventually(application.progress) == PICTURE
    pids = eventually(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().split())
    assert application.kill() == 2
    assert all(eventually(lambda pid=pid: gone(int(pid))) for pid in pids)
    assert application.exit_code() == -9


def test_an_error_of_the_application_is_kept(started):
    application = started("""print('{"error": "RootError", "message": "the disk is full"}')""")
    assert eventually(lambda: application.error) == "the disk is full"
    assert eventually(lambda: application.exit_code() is not None)


def test_it_stops_as_on_ctrl_c(started):
    application = started(
        "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(0))\n"
        f"print('{json.dumps(PICTURE.as_dict())}', flush=True)\ntime.sleep(60)"
    )
    eventually(application.progress)
    assert application.stop(timeout_s=10)
