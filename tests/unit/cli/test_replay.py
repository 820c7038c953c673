import json

from typer.testing import CliRunner

from perseid.cli.main import app


def replayed(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_story_is_told_with_times_and_epochs_summed_up(root):
    lines = replayed(root).output.splitlines()
    assert lines[0].startswith("times are since 20")
    assert lines[1].split(maxsplit=1) == [
        "0:00.00",
        "application words starts (generation 1, 1 unit, 2 operators, 2 hosts) fresh",
    ]
    assert "epochs 1 to 3 committed: 300 rows in, 30 out" in lines[2]
    assert "checkpoint 1 committed: 1000 B in 30 ms" in lines[3]
    assert "epochs 4 to 5 committed" in lines[4]
    assert "host 1 is lost: no heartbeat" in lines[-2]
    assert lines[-1].split(maxsplit=1) == ["0:04.75", "moon rose where=east"]


def test_all_tells_every_epoch(root):
    text = replayed(root, "--all").output
    assert "epoch 1 admitted with 100 rows: lines [0, 1)" in text
    assert "epoch 7 committed in 90 ms: 100 rows in, 10 out" in text


def test_kinds_pick_records(root):
    lines = replayed(root, "--kind", "host_lost", "--kind", "epoch_committed").output.splitlines()
    assert len(lines) == 1 + 8


def test_json_gives_the_records(root):
    records = [json.loads(line) for line in replayed(root, "--json").stdout.splitlines()]
    assert records[0]["kind"] == "app_started" and records[-1]["kind"] == "moon_rose"


def test_an_unknown_kind_says_which_there_are(root):
    result = replayed(root, "--kind", "host_found")
    assert result.exit_code == 1
    assert "no record of kind host_found; there is: app_started, checkpoint_committed" in result.output


def test_an_empty_journal_is_told(tmp_path):
    (tmp_path / "journal").mkdir()
    result = replayed(tmp_path)
    assert result.exit_code == 1 and "the journal is empty" in result.output


def test_torn_lines_are_skipped(root):
    journal = next((root / "journal").iterdir())
    journal.write_bytes(journal.read_bytes() + b'{"at_ms": 1, "ki')
    assert replayed(root).exit_code == 0
