"""What somebody sees who opens a long journal, and when: ``python tests/browser/opening.py ROOT`` prints seconds since the command.

A root with a journal of a week: ``python tests/recorded/written.py week ROOT``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import browser

ROUNDS = 3
ANSWER = """const done = arguments[0], began = performance.now();
fetch('api/0/time').then((answer) => answer.json()).then(() => done(performance.now() - began));"""


def opened(root: str, chromium: Any) -> None:
    """One look at it, from the command to the whole journal."""
    began_s = time.monotonic()

    def since_s(true: Callable[[], Any]) -> float:
        while not true():
            time.sleep(0.005)
        return time.monotonic() - began_s

    command = [sys.executable, "-m", "perseid.cli.main", "dashboard", root, "--port", "5900"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(line for line in server.stdout if "http" in line)
        address_s = time.monotonic() - began_s
        chromium.get("http" + address.partition("http")[2].split()[0])
        graph_s = since_s(lambda: chromium.execute_script("return document.querySelector('.node') != null"))
        slowest_ms = 0.0
        while chromium.execute_script("return document.querySelector('#older') != null"):
            slowest_ms = max(slowest_ms, chromium.execute_async_script(ANSWER))
        whole_s = time.monotonic() - began_s
        chromium.execute_script("location.hash = '#/0/time'")
        since_s(lambda: chromium.execute_script("return document.querySelector('#epochs') != null"))
        epochs = chromium.execute_script("return document.querySelector('#epochs').textContent")
        server.terminate()
    print(
        f"address {address_s:.2f} s, graph and numbers of the newest part {graph_s:.2f} s, all {epochs} epochs"
        f" {whole_s:.2f} s; the slowest answer meanwhile {slowest_ms:.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    folder = tempfile.TemporaryDirectory()
    chromium = browser(Path(folder.name))
    try:
        chromium.get("about:blank")
        for _ in range(ROUNDS):
            opened(sys.argv[1], chromium)
    finally:
        chromium.quit()
        folder.cleanup()
