"""State that every release wrote is restored by today's code, and goes on as it would have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden_app import START_MS, golden_app, harness, run

from perseid.cli.check import checked
from perseid.errors import CorruptData
from perseid.state.codec import encode
from perseid.state.evolution import as_declared
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints
from perseid.storage.persisted import persisted
from perseid.storage.store import Store
from perseid.testing.harness import HarnessSnapshot
from perseid.transfer.begin_root import stateful_node
from perseid.transfer.export_state import export_state
from perseid.transfer.read_state import SavedOperator

HERE = Path(__file__).parent
RELEASES = sorted(folder for folder in HERE.iterdir() if (folder / "expected.json").exists())
OPERATORS = {node.name: node.shards for node in golden_app().graph.operators}


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: what a release wrote is only read."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def test_this_release_has_written_its_snapshots() -> None:
    from importlib.metadata import version

    assert HERE / version("perseid") in RELEASES, "python tests/golden/write.py, and commit the folder"


@pytest.mark.parametrize("operator", OPERATORS)
def test_state_of_a_release_goes_on_under_the_code_of_today(release: Path, operator: str) -> None:
    store, expected = Store.at(str(release / "root")), json.loads((release / "expected.json").read_text())
    node = stateful_node(golden_app().graph, operator)
    newest = next(Checkpoints(store).newest_first())
    shards = []
    for snapshot in sorted((s for s in newest.shards if s.operator == operator), key=lambda s: s.slots):
        state = as_declared(persisted(store, snapshot.file)[1], node.operator, operator)
        shards.append((state.slots, tuple(bytes(piece) for piece in encode(state.processing))))
    tested = harness(node)
    saved = expected["saved"]
    tested.restore(HarnessSnapshot(saved, START_MS + saved * 1_000, (), tuple(shards)))
    assert run(tested, saved + 1, expected["last"]) == expected["out"][operator]


def test_a_root_of_a_release_passes_the_check_of_today(release: Path) -> None:
    found = checked(Store.at(str(release / "root")), golden_app().graph)
    assert not [one.text for one in found if one.refused]
    assert len([one.text for one in found if "bytes restored" in one.text]) == sum(OPERATORS.values())


def test_the_ledger_of_a_release_is_read(release: Path) -> None:
    ledger = Ledger.view(Store.at(str(release / "root")))
    assert ledger.last_admitted == ledger.trimmed_to == 1
    assert ledger.event_times_ms(ledger.trimmed_to) == {f"{name}.rows": 1 for name in OPERATORS}


@pytest.mark.parametrize("operator", ["by-key", "spilling", "processor"])
def test_state_of_a_release_can_be_exported(release: Path, operator: str) -> None:
    done = export_state(SavedOperator.of(Store.at(str(release / "root")), operator), release / "out")
    assert sum(done.rows.values()) >= 5


def test_a_snapshot_of_a_release_that_was_changed_is_refused(release: Path) -> None:
    store = Store.at(str(release / "root"))
    newest = next(Checkpoints(store).newest_first())
    file = release / "root" / newest.shards[0].path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptData, match="fails its hash"):
        persisted(store, newest.shards[0].file)


def test_what_a_release_wrote_is_not_written_again() -> None:
    before: Any = [(file, file.stat().st_mtime_ns) for file in sorted(RELEASES[-1].rglob("*"))]
    done = subprocess.run([sys.executable, str(HERE / "write.py")], capture_output=True, text=True)
    assert done.returncode == 1 and "is not written again" in done.stderr
    assert [(file, file.stat().st_mtime_ns) for file in sorted(RELEASES[-1].rglob("*"))] == before
