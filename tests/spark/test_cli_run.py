import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from perseid.cli.main import app

WORD_COUNT = Path(__file__).parents[2] / "examples" / "word_count.py"


@pytest.mark.spark
def test_run_tells_its_progress_as_json_stops_cleanly_on_ctrl_c_and_goes_on_from_its_root(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("to be or not to be\n" * 50)
    command = [sys.executable, "-m", "perseid.cli.main", "run", str(WORD_COUNT), "--root", "root", "--hosts", "1"]
    process = subprocess.Popen(
        [*command, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        pictures = (json.loads(line) for line in process.stdout)
        first = next(picture for picture in pictures if picture.get("epoch", 0) >= 1 or "error" in picture)
        assert first.get("phase") == "running", first
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3000:]
    assert json.loads(rest.splitlines()[-1])["phase"] in ("stopping", "stopped")
    lease = json.loads(next((tmp_path / "root" / "lease").iterdir()).read_text())
    assert lease["body"]["released"]

    (tmp_path / "in" / "2.txt").write_text("to be\n" * 10)
    done = subprocess.run([*command, "--available-now"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [r for f in (tmp_path / "out").rglob("[!._]*.parquet") for r in pq.ParquetFile(f).read().to_pylist()]
    counts = {row["word"]: row["n"] for row in sorted(rows, key=lambda row: row["n"])}
    assert counts == {"to": 110, "be": 110, "or": 50, "not": 50}, "nothing is counted again"
    told = CliRunner().invoke(app, ["replay", str(tmp_path / "root")]).output
    assert told.count("application words starts") == 2


UNSAVABLE = """
import threading
import pyarrow as pa
import perseid
from perseid import App, Operator, state


class Locked(Operator):
    kept: list = state(default_factory=list)

    def process(self, rows):
        self.kept.append(threading.Lock())  # no checkpoint can save it, which only shows now
        return pa.table({"n": rows["n"]})


app = App("locked")
numbers = app.source("numbers", perseid.sources.generator({"n": "id"}, rows=90))
numbers.stateful("keep", Locked(), key="n", output="n long").sink("out", perseid.sinks.parquet("out"))
"""


@pytest.mark.spark
def test_a_run_whose_last_checkpoint_failed_says_so_and_its_output_is_complete(tmp_path):
    (tmp_path / "locked.py").write_text(UNSAVABLE)
    command = [sys.executable, "-m", "perseid.cli.main"]
    options = ["--root", "root", "--hosts", "1", "--spares", "0", "--available-now", "--max-rows-per-epoch", "30"]
    done = subprocess.run(
        [*command, "run", "locked.py", *options, "--every", "0.2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 3, done.stderr[-3000:]
    told = " ".join(done.stderr.split())
    assert "every epoch up to 3 is committed, but the last checkpoint failed" in told and "cannot pickle" in told
    assert "failed: " in done.stdout.splitlines()[-1], "in the view, too"
    assert "Traceback" not in done.stderr and "recovered" not in done.stdout
    rows = [r["n"] for f in (tmp_path / "out").rglob("[!._]*.parquet") for r in pq.ParquetFile(f).read().to_pylist()]
    assert sorted(rows) == list(range(90))
    found = json.loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "root"), "--json"]).stdout)
    assert found["failed_checkpoints"] >= 3 and "cannot pickle" in found["checkpoint_error"]
    head = subprocess.run(
        f"{sys.executable} -m perseid.cli.main replay root --all --json | head -n 1", shell=True, cwd=tmp_path,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert head.stderr == "" and json.loads(head.stdout)["kind"] == "app_started"
