import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORD_COUNT = Path(__file__).parents[2] / "examples" / "word_count.py"


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_run_tells_its_progress_as_json_and_stops_cleanly_on_ctrl_c(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("to be or not to be\n")
    command = [sys.executable, "-m", "perseid.cli.main", "run", WORD_COUNT, "--root", "root", "--hosts", "1", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        pictures = (json.loads(line) for line in process.stdout)
        first = next(picture for picture in pictures if picture.get("epoch", 0) >= 1 or "error" in picture)
        assert first.get("phase") == "running", first
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3000:]
    assert json.loads(rest.splitlines()[-1])["phase"] in ("stopping", "stopped")
    lease = json.loads(next((tmp_path / "root" / "lease").iterdir()).read_text())
    assert lease["body"]["released"]
