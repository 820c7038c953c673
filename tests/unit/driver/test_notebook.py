"""What a notebook shows of a running application, and what an interrupted cell does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from perseid.driver.notebook import INTERRUPTED, progress_line, progress_table, watch
from perseid.engine.progress import CheckpointStatus, HostStatus, Progress
from perseid.errors import ApplicationFailed

SEEN = Progress(
    app="<words>", phase="running", epoch=1_234, rows_in=5_000_000, rows_per_s=100_000.0, rows_out=7, state_bytes=3 << 20,
    last_checkpoint=CheckpointStatus(4, 1_200, 2_048, 30), trouble="source <in> is silent",
    hosts=(HostStatus(0, 1, "a", True, ("count/0",), 1_024), HostStatus(1, 2, "b", False, (), 0)),
)  # fmt: skip


class Ending:
    """An application that ends after some epochs, in its way."""

    def __init__(self, epochs: int, end: BaseException | None = None) -> None:
        self._epochs = iter(range(1, epochs + 1))
        self._end, self._seen = end, SEEN

    def progress(self) -> Progress:
        return self._seen

    def wait(self, timeout_s: float | None = None) -> bool:
        epoch = next(self._epochs, None)
        if epoch is not None:
            self._seen = replace(SEEN, epoch=epoch)
            return False
        if self._end is not None:
            raise self._end
        return True


def test_the_table_shows_what_it_does_and_escapes_names() -> None:
    table = progress_table(SEEN, "root/")
    for shown in ("<b>&lt;words&gt;</b> running", "1,234", "5,000,000 (100,000/s)", "3.0 MB", "1 of 2", "4 at epoch 1,200",
                  "source &lt;in&gt; is silent", "host 1</th><td", "lost, 0 B, spare"):  # fmt: skip
        assert shown in table


def test_the_line_is_short() -> None:
    assert progress_line(SEEN).startswith("<words> running: epoch 1,234 (0 ms), rows in 5,000,000 (100,000/s)")


def test_without_ipython_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    watch(Ending(3), "root/", 0.0)
    first, last = capsys.readouterr().out.splitlines()
    assert "epoch 1,234" in first and "epoch 3 " in last


def test_an_interrupt_ends_the_watching_and_says_how_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    watch(Ending(2, KeyboardInterrupt()), "root/", 0.0)
    assert capsys.readouterr().out.splitlines()[-1] == INTERRUPTED


def test_a_failure_is_raised_after_the_last_picture(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ApplicationFailed, match="disk"):
        watch(Ending(2, ApplicationFailed("disk is full")), "root/", 0.0)
    assert "epoch 2 " in capsys.readouterr().out.splitlines()[-1]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own in the place of it
    yield interactive.instance()
    interactive.clear_instance()


def test_in_ipython_one_table_is_redrawn(shell: Any) -> None:
    from IPython.utils.capture import capture_output

    shell.user_ns.update(watch=watch, running=Ending(3))
    with capture_output() as captured:
        result = shell.run_cell("watch(running, 'root/', 0.0)")
    assert result.success
    drawn = [output.data["text/html"] for output in captured.outputs]
    assert len(drawn) == 5 and drawn[0].count("1,234") == 1 and "<td" in drawn[-1]
    assert [output.update for output in captured.outputs] == [False, True, True, True, True]
    assert len({output.transient["display_id"] for output in captured.outputs}) == 1
