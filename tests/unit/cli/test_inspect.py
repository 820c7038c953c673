import json

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app
from perseid.storage import layout
from perseid.storage.sealed import seal
from perseid.vocabulary import Generation, OperatorName


def inspected(*arguments):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "100"})


def facts(root):
    return json.loads(inspected(root, "--json").stdout)


def test_everything_is_told_as_json(root):
    told = facts(root)
    assert (told["app"], told["admitted"], told["committed"], told["problems"]) == ("words", 8, {"main": 7}, [])
    assert told["lease"]["status"] == "held" and told["lease"]["generation"] == 1
    assert [(c["id"], c["units"], c["shards"], c["problem"]) for c in told["checkpoints"]] == [
        (told["checkpoints"][0]["id"], {"main": 5}, 3, ""),
        (told["checkpoints"][1]["id"], {"main": 3}, 3, ""),
    ]
    assert told["bytes"]["checkpoints"] > told["checkpoints"][0]["bytes"] > 0


def test_everything_is_told_to_people(root):
    text = inspected(root).output
    for expected in ("words", "admitted to 8, committed: main to 7", "held by words", "parallel", "✓ good"):
        assert expected in text


def test_inspecting_changes_nothing(root):
    def names():
        return {(path, path.stat().st_mtime_ns) for path in root.rglob("*")}

    before = names()
    inspected(root)
    inspected(root, "--key", "be")
    assert names() == before


def test_a_damaged_snapshot_makes_its_checkpoint_corrupt(root):
    newest = facts(root)["checkpoints"][0]["id"]
    snapshot = root / layout.snapshot(newest, OperatorName("count"), 1)
    snapshot.write_bytes(snapshot.read_bytes()[:-40] + bytes(40))
    assert facts(root)["checkpoints"][0]["problem"] == "corrupt: snapshot of count/1 fails its hash"
    snapshot.unlink()
    told = facts(root)["checkpoints"]
    assert told[0]["problem"] == "corrupt: snapshot of count/1 is missing" and told[1]["problem"] == ""
    assert json.loads(inspected(root, "--no-verify", "--json").stdout)["checkpoints"][0]["problem"] == ""


def test_a_damaged_manifest_and_an_unfinished_checkpoint_are_shown(root):
    newest = facts(root)["checkpoints"][0]["id"]
    (root / layout.manifest(newest)).write_text("{}")
    (root / layout.checkpoint(newest + 1)).mkdir()
    problems = [checkpoint["problem"] for checkpoint in facts(root)["checkpoints"]]
    assert "not committed" in problems[0] and "hash" in problems[1] and problems[2] == ""
    assert "not committed" in inspected(root).output


def test_a_damaged_ledger_is_a_problem_not_a_crash(root):
    ledger = root / layout.ledger(Generation(1))
    ledger.write_bytes(b"x" + ledger.read_bytes())
    assert "fails its hash" in facts(root)["problems"][0]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("be", ("count", 0, {"counts": 4}, [])),
        ("or", ("count", 1, {"counts": 1}, ["event timer 'close' at 5000"])),
        ("7", ("count", 1, {"counts": 9}, [])),
        ("ada,1", ("visits", 0, {"clicks": 3, "pages": ["/a"]}, [])),
    ],
)
def test_the_state_of_a_key_is_found_whatever_its_type(root, key, found):
    told = json.loads(inspected(root, "--key", key, "--json").stdout)["found"]
    assert [(s["operator"], s["shard"], s["values"], s["timers"]) for s in told] == [found]


def test_the_state_of_a_key_is_told_to_people(root):
    text = inspected(root, "--key", "ada,1").output
    assert "visits/0 at epoch 5" in text and "clicks = 3" in text and "pages = ['/a']" in text


def test_a_key_is_looked_up_in_the_newest_intact_checkpoint(root):
    first = facts(root)["checkpoints"]
    (root / layout.snapshot(first[0]["id"], OperatorName("count"), 0)).write_bytes(b"broken")
    assert json.loads(inspected(root, "--key", "be", "--json").stdout)["checkpoint"] == first[1]["id"]


def test_a_key_that_is_not_there_is_told(root):
    result = inspected(root, "--key", "nobody")
    assert result.exit_code == 1 and "has no key 'nobody' in any of 3 shards" in result.output
    assert "in operator visits" in inspected(root, "--key", "be", "--operator", "visits").output
    assert "no operator 'x'; there is: count, visits" in inspected(root, "--key", "be", "--operator", "x").output
    assert "--operator needs --key" in inspected(root, "--operator", "count").output


def test_a_folder_that_is_no_root_is_told_and_left_alone(tmp_path):
    assert "no such folder" in inspected(tmp_path / "nowhere").output
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "app.json").write_text("{}")
    result = inspected(tmp_path)
    assert result.exit_code == 1
    assert "is not a checkpoint root" in result.output and "did you mean" in result.output


def test_errors_are_json_when_asked(tmp_path):
    assert json.loads(inspected(tmp_path / "nowhere", "--json").stdout)["error"] == "RootError"


@pytest.mark.parametrize("how", ["another key", "no key"])
def test_no_snapshot_is_unpickled_that_the_roots_key_does_not_prove(root, how):
    (root / layout.KEY).unlink()
    if how == "another key":
        (root / layout.KEY).write_bytes(seal({"key": "00" * 32}))
    told = inspected(root, "--key", "be", "--json")
    assert told.exit_code != 0 and "no good checkpoint" in told.stdout
    assert all("fails its hash" in c["problem"] for c in facts(root)["checkpoints"])
