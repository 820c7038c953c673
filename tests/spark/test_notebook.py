"""A real notebook kernel: a cell that shows an application is interrupted, and nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perseid.driver.notebook import INTERRUPTED, STOPPING

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

ANSWER_S = 240.0

APP = """
import perseid
from perseid import App, KeyedOperator, state

class Count(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key, rows):
        self.n += rows.num_rows
        yield {"id": key, "n": self.n}

app = App("notebook")
numbers = app.source("numbers", perseid.sources.generator({"id": "id % 10"}, rows=10**9))
numbers.stateful("count", Count(), key="id", output="id long, n long").sink("out", perseid.sinks.noop())
spark = perseid.spark_session(hosts=1, spares=0)
settings = dict(root="root", hosts=1, spares=0, max_rows_per_epoch=100)
"""


class Kernel:
    """Runs cells, and interrupts one as soon as it has shown something."""

    def __init__(self, folder: Path) -> None:
        self._manager = jupyter_client.KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths())})
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=ANSWER_S)

    def cell(self, code: str, *, interrupt_at: str | None = None) -> list[tuple[str, Any]]:
        """What a cell shows, in order. Interrupted at the first output of that type, or when it has begun (``status``)."""
        sent = self._client.execute(code)
        shown: list[tuple[str, Any]] = []
        while True:
            message = self._client.get_iopub_msg(timeout=ANSWER_S)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return shown
            shown.append((kind, content))
            if kind == interrupt_at:
                interrupt_at = None
                self._manager.interrupt_kernel()

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _paths() -> list[str]:
    return [str(Path(__file__).parents[2] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    started = Kernel(tmp_path)
    yield started
    started.end()


def texts(shown: list[tuple[str, Any]]) -> str:
    return "".join(content["text"] for kind, content in shown if kind == "stream")


def test_an_interrupted_cell_stops_watching_and_the_application_goes_on(kernel: Kernel) -> None:
    assert not [content for kind, content in kernel.cell(APP) if kind == "error"]
    shown = kernel.cell(
        "running = app.start(spark, **settings)\nrunning.watch(0.2)", interrupt_at="update_display_data"
    )
    assert [kind for kind, _ in shown if kind == "error"] == [], shown
    drawn = [content for kind, content in shown if kind.endswith("display_data")]
    assert len({content["transient"]["display_id"] for content in drawn}) == 1
    assert "<b>notebook</b>" in drawn[-1]["data"]["text/html"] and INTERRUPTED in texts(shown)
    (result,) = (content for kind, content in kernel.cell("running") if kind == "execute_result")
    assert result["data"]["text/plain"].startswith("Running(notebook ") and "<table" in result["data"]["text/html"]
    (error,) = (
        content for kind, content in kernel.cell("running.wait()", interrupt_at="execute_input") if kind == "error"
    )
    assert error["ename"] == "KeyboardInterrupt"
    assert "True" in texts(
        kernel.cell(
            "at = running.progress().epoch\nimport time\nwhile running.progress().epoch <= at: pass\nprint(True)"
        )
    )
    assert "stopped" in texts(kernel.cell("running.stop()\nprint(running.progress().phase)"))


def test_an_interrupted_run_ends_the_application(kernel: Kernel) -> None:
    kernel.cell(APP + "\nseen = []\nsettings['on_progress'] = lambda progress: seen.append(print('epoch', flush=True))")
    shown = kernel.cell("app.run(spark, **settings)", interrupt_at="stream")
    (error,) = (content for kind, content in shown if kind == "error")
    assert error["ename"] == "KeyboardInterrupt" and STOPPING in texts(shown)
    again = kernel.cell("running = app.start(spark, **settings)\nrunning.stop()\nprint('free again')")
    assert "free again" in texts(again), "its task slots and its root were given back"
