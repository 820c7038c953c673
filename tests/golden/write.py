"""Write what this release saves: ``python tests/golden/write.py``, once for each release, and commit the folder.

A folder that is there is never written again: later code has to read what that release wrote.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from golden_app import golden_app, harness, run

from perseid.state.codec import decode
from perseid.state.shape import shape_of
from perseid.state.shard_state import ShardState
from perseid.transfer.begin_root import BEGINNING, Beginning, begin_root

SAVED, LAST = 4, 9  # epochs before the snapshot, and all


def write(folder: Path) -> None:
    graph = golden_app().graph
    expected = {}
    for node in graph.operators:
        tested = harness(node)
        run(tested, 1, SAVED)
        shape = shape_of(type(node.operator))
        shards = [
            (slots, lambda s=slots, b=buffers, shape=shape: ShardState(decode(list(b)), BEGINNING, s, {}, shape))
            for slots, buffers in tested.snapshot().shards
        ]
        begin_root(str(folder / "root"), graph, Beginning(node.name, shards, {f"{node.name}.rows": 1}))
        expected[node.name] = run(tested, SAVED + 1, LAST)
    for gone in ("lease", "staging"):  # of this machine
        shutil.rmtree(folder / "root" / gone, ignore_errors=True)
    (folder / "expected.json").write_text(json.dumps({"saved": SAVED, "last": LAST, "out": expected}, indent=1))


if __name__ == "__main__":
    folder = Path(__file__).parent / version("perseid")
    if folder.exists():
        sys.exit(f"{folder} is there: what a release wrote is not written again")
    write(folder)
    print(f"{folder}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()):,} bytes; commit it")
