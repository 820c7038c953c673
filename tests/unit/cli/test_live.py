import io
import json
import os
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from perseid.cli.live import View, line, watch
from perseid.engine.progress import CheckpointStatus, HostStatus, Progress, StandbyStatus
from perseid.errors import ApplicationFailed
from perseid.testing.driver import progress_of

PICTURE = Progress(
    app="words", phase="running", epoch=1234, rows_in=5_000_000, rows_out=40_000, rows_per_s=812_345.6, epoch_ms=87.4,
    state_bytes=3 * 1024**2, checkpoints=4,
    last_checkpoint=CheckpointStatus(id=4, epoch=1200, bytes=3_000_000, duration_ms=140),
    hosts=(
        HostStatus(0, 4242, "127.0.0.1:4000", True, ("count/0", "count/1"), 2 * 1024**2),
        HostStatus(1, 4243, "127.0.0.1:4001", False, ("count/2",), 1024**2),
        HostStatus(2, 4244, "127.0.0.1:4002", True, (), 0),
    ),
    spares=1, faults=1, last_event="host 1 is lost: no heartbeat", units={"main": 1234},
)  # fmt: skip


class Scripted:
    """A running application that shows the given pictures, one per look, then ends."""

    def __init__(self, *pictures: Progress, error: Exception | None = None, endless: bool = False) -> None:
        self._pictures = list(pictures)
        self._endless = endless
        self._error = error
        self.stopped = False

    def progress(self) -> Progress:
        return self._pictures[0] if len(self._pictures) == 1 else self._pictures.pop(0)

    def wait(self, timeout_s: float | None = None) -> bool:
        if len(self._pictures) == 1 and self._error:
            raise self._error
        time.sleep(min(timeout_s or 0, 0.01))
        return self.stopped or (len(self._pictures) == 1 and not self._endless)

    def stop(self) -> None:
        self.stopped = True


def shown(running, mode, stop=None):
    console = Console(file=(out := io.StringIO()), width=100, force_terminal=mode == "live", color_system=None)
    stop = stop or threading.Event()
    watch(running, mode=mode, every_s=0.0, console=console, stop=stop, on_stop=running.stop)
    return out.getvalue()


def test_the_live_view_shows_all_there_is_to_know():
    console = Console(file=(out := io.StringIO()), width=100, color_system=None)
    console.print(View().render(PICTURE, 0.0))
    text = out.getvalue()
    for expected in (
        "words", "running", "812,346 rows/s", "1,234", "5,000,000", "40,000", "87 ms", "3.0 MB", "4242", "✗ lost",
        "count/0 count/1", "spare", "host 1 is lost", "4 at epoch 1200, 2.9 MB in 140 ms",
    ):  # fmt: skip
        assert expected in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_view_of_an_application_that_has_just_begun_is_whole():
    console = Console(file=(out := io.StringIO()), width=80, color_system=None)
    console.print(View().render(Progress(app="words", phase="starting"), 0.0))
    assert "none yet" in out.getvalue()


def test_a_line_says_the_same_in_short():
    assert line(PICTURE) == (
        "words running · epoch 1,234 · 812,346 rows/s · in 5,000,000 · out 40,000 · epoch time 87 ms · state 3.0 MB · "
        "checkpoints 4 · hosts 2/3 · faults 1 · host 1 is lost: no heartbeat"
    )


def test_an_epoch_that_cannot_be_had_is_told_in_every_view():
    troubled = replace(PICTURE, trouble="unit 'main': epoch 1235, attempt 3: no report from shards count/0")
    console = Console(file=(out := io.StringIO()), width=100, color_system=None)
    console.print(View().render(troubled, 0.0))
    assert "running with trouble" in out.getvalue() and "epoch 1235, attempt 3" in out.getvalue()
    assert f"trouble: {troubled.trouble} · host 1 is lost" in line(troubled)


def test_json_mode_prints_one_object_per_look(capsys):
    shown(Scripted(PICTURE, PICTURE), "json")
    said = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert said[0]["epoch"] == 1234
    assert progress_of(said[-1]) == PICTURE


def test_lines_mode_prints_the_last_picture_too():
    ended = Progress(app="words", phase="stopped", epoch=9)
    assert shown(Scripted(PICTURE, ended), "lines").splitlines()[-1].startswith("words stopped · epoch 9")


def test_live_mode_ends_with_the_application():
    assert "1,234" in shown(Scripted(PICTURE, PICTURE), "live")


def test_a_set_stop_stops_the_application():
    stop = threading.Event()
    stop.set()
    running = Scripted(PICTURE, endless=True)
    shown(running, "lines", stop)
    assert running.stopped


def test_a_failure_comes_through_after_the_last_picture():
    with pytest.raises(ApplicationFailed):
        shown(Scripted(PICTURE, error=ApplicationFailed("operator 'count' raised")), "lines")


def rendered(progress):
    console = Console(file=(out := io.StringIO()), width=120, color_system=None)
    console.print(View().render(progress, 0.0))
    return out.getvalue()


def test_what_goes_wrong_is_in_the_view_at_once():
    failed = "checkpoint 5 failed: state cannot be saved: field 'guard' (lock)"
    aside = "count, epoch 9: ValueError: bad amount"
    picture = replace(PICTURE, checkpoint_error=failed, failed_checkpoints=1, dead_letters=12, dead_letter_error=aside)
    for text in (rendered(picture), line(picture)):
        assert failed in text and aside in text and "12" in text


def test_after_a_restart_the_view_says_which_checkpoint_the_state_is_from():
    picture = replace(PICTURE, checkpoints=0, last_checkpoint=CheckpointStatus(12, 40, 2048, None))
    assert "none since the start; it began from 12 at epoch 40, 2.0 KB" in rendered(picture)


@pytest.mark.parametrize("mode", ["lines", "json"])
def test_when_nobody_reads_any_more_the_application_is_stopped_without_a_traceback(mode, capsys, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    running = Scripted(PICTURE, endless=True)
    closed = Closed()
    monkeypatch.setattr("sys.stdout", closed)
    with pytest.raises(BrokenPipeError):
        watch(
            running, mode=mode, every_s=0.0, console=Console(file=closed), stop=threading.Event(), on_stop=running.stop
        )
    assert running.stopped


GUARDED = replace(
    PICTURE,
    standby=(
        StandbyStatus(0, 2, "hybrid", "switched", ("count/0", "count/1"), 3),
        StandbyStatus(1, None, "hybrid", "unguarded", ("count/2",), None),
    ),
    switches=4,
    roll_backs=3,
    last_switch="host 2 answers instead of host 0: stopped, 1 missed heartbeat",
)


def test_the_live_view_shows_both_copies_who_answers_and_how_far_the_hindmost_is_behind():
    out = io.StringIO()
    Console(file=out, width=140, color_system=None).print(View().render(GUARDED, 0.0))
    shown = " ".join(out.getvalue().split())
    assert "hybrid 0 2 host 2 answers 3 epochs count/0 count/1" in shown
    assert "hybrid 1 none unguarded count/2" in shown
    assert "switches 4 to a copy, 3 back; last: host 2 answers instead of host 0: stopped, 1 missed heartbeat" in shown
    assert "copies 1/2, switches 4" in line(GUARDED)


def test_the_picture_of_copies_survives_json():
    assert progress_of(json.loads(json.dumps(GUARDED.as_dict()))) == GUARDED
