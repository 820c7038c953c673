"""Captured state to buffers and back."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.errors import CorruptData, OperatorFailed
from perseid.state.codec import decode, encode


def round_trip(value: Any) -> Any:
    buffers = [memoryview(bytes(buffer)) for buffer in encode({"fields": {"value": value}})]
    return decode(buffers)["fields"]["value"]


def test_plain_values_come_back_equal() -> None:
    value = {"a": [1, 2.5, None], ("b", 3): {4, 5}, b"c": "ü"}
    assert round_trip(value) == value


def test_arrays_go_out_of_band_without_a_copy() -> None:
    array = np.arange(100_000)
    buffers = encode({"fields": {"a": array}})
    assert len(buffers) == 2
    assert memoryview(buffers[0]).nbytes < 1000
    assert np.shares_memory(np.frombuffer(buffers[1], array.dtype), array)


def test_arrays_are_writable_after_decoding_from_read_only_bytes() -> None:
    array = round_trip(np.zeros(3))
    array += 1
    assert array.tolist() == [1, 1, 1]


def test_writable_buffers_are_used_as_they_are() -> None:
    pickled, *out_of_band = encode({"fields": {"a": np.zeros(1000)}})
    buffer = bytearray(out_of_band[0])
    array = decode([pickled, memoryview(buffer)])["fields"]["a"]
    assert np.shares_memory(array, np.frombuffer(buffer, np.float64))


@pytest.mark.parametrize(
    "value",
    [
        pa.table({"a": [1, None], "b": ["x", "y"]}),
        pa.array(["a", None, "c"]),
        pa.chunked_array([[1, 2], [3]]),
        pa.record_batch({"a": [1.5]}),
        pa.table({"a": pa.array([], pa.int64())}),
    ],
)
def test_arrow_data_comes_back_equal(value: Any) -> None:
    assert round_trip(value).equals(value)


@pytest.mark.parametrize("kind", ["table", "batch", "array", "chunked"])
def test_a_slice_does_not_drag_along_what_it_was_cut_from(kind: str) -> None:
    large = pa.table({"a": np.arange(1_000_000), "b": [str(n % 10) for n in range(1_000_000)]})
    few: Any = large.slice(500_000, 10)
    if kind == "batch":
        few = large.to_batches()[0].slice(500_000, 10)
    elif kind == "array":
        few = large.column("a").chunk(0).slice(500_000, 10)
    elif kind == "chunked":
        few = few.column("b")
    buffers = encode({"fields": {"value": few}})
    assert sum(memoryview(buffer).nbytes for buffer in buffers) < 10_000
    assert round_trip(few).equals(few)
    assert type(round_trip(few)) is type(few)


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(OperatorFailed, match=r"field 'lines' \(generator\)"):
        encode({"fields": {"fine": 1, "lines": (n for n in range(3))}})


def test_a_torn_pickle_is_corrupt() -> None:
    buffers = encode({"fields": {"a": list(range(100))}})
    with pytest.raises(CorruptData):
        decode([memoryview(bytes(buffers[0])[:-20])])
    with pytest.raises(CorruptData):
        decode([])


SCRIPT = """
import sys
from pathlib import Path
from dataclasses import dataclass
from enum import Enum
import pyarrow as pa
from perseid import Operator, state

class Level(Enum):
    LOW = 1

@dataclass
class Entry:
    n: int
    level: Level = Level.LOW

class Mine(Operator):
    entries: dict = state(default_factory=dict)
    def process(self, rows):
        for word in rows.column("word").to_pylist():
            entry = self.entries.setdefault(word, Entry(0))
            assert isinstance(entry, Entry), "a class with the same name"
            assert entry.level is Level.LOW, "an enum with the same name"
            entry.n += 1
        return [{"word": word, "n": entry.n} for word, entry in self.entries.items()]

if __name__ == "__main__":
    from pyspark import cloudpickle
    Path(sys.argv[1]).write_bytes(cloudpickle.dumps(Mine()))
"""

HOST = """
import pickle, sys
from pathlib import Path
import pyarrow as pa
from perseid import Context
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch

operator, before, after = map(Path, sys.argv[1:])
shard = fresh(pickle.loads(operator.read_bytes()))
if before.exists():
    restore(shard, decode(pickle.loads(before.read_bytes())))
out = run_epoch(shard, {"rows": pa.table({"word": ["a"]})}, Context(epoch=1, time_ms=0, key=("word",)))
after.write_bytes(pickle.dumps([bytes(b) for b in encode(capture(shard))]))
print(out.to_pylist())
"""


def test_classes_of_the_users_script_are_the_same_again_after_the_driver_restarts(tmp_path: Path) -> None:
    """A driver writes its operator by value; a host runs and saves it; a new driver and a new host go on."""
    (tmp_path / "app.py").write_text(SCRIPT)
    (tmp_path / "host.py").write_text(textwrap.dedent(HOST))

    def run(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("app.py", "first.operator")
    assert "'n': 1" in run("host.py", "first.operator", "none", "first.state")
    assert "'n': 2" in run("host.py", "first.operator", "first.state", "second.state")
    run("app.py", "second.operator")
    assert "'n': 3" in run("host.py", "second.operator", "second.state", "third.state")


def test_a_class_made_in_a_function_is_saved_by_value() -> None:
    class Local:
        def __init__(self) -> None:
            self.n = 3

    assert round_trip([Local()])[0].n == 3
