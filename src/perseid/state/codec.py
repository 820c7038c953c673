"""Captured state ↔ buffers: pickle protocol 5 with out-of-band buffers, so that NumPy and Arrow data are not copied.

Classes of the user's script live in ``__main__`` of the driver; a host has them by value and cannot pickle what refers
to them. Such classes are written by name *and* by value: whoever reads finds the class of the operator it runs
(``learn``), and only without one rebuilds it. So ``isinstance`` in user code goes on working after a recovery.

Invariant: ``decode(encode(x))`` equals x, with arrays writable as they were.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from perseid.errors import CorruptData, OperatorFailed
from perseid.state.moved import completed, found_moved

_known: dict[tuple[str, str], type] = {}  # classes of operators run here, by module and qualified name

_WASTE_BYTES = 1 << 16
"""A slice of Arrow data that holds on to so many bytes it does not show is cut out before it is written."""


def encode(captured: dict[str, Any]) -> list[bytes | memoryview]:
    """The pickle, then the buffers it refers to. Buffers are views: write them before the state changes."""
    out_of_band: list[pickle.PickleBuffer] = []
    try:
        data = _dumps(captured, out_of_band)
    except Exception as error:
        raise OperatorFailed(f"state cannot be saved: {_culprit(captured)}: {type(error).__name__}: {error}") from error
    return [data, *(buffer.raw() for buffer in out_of_band)]


def decode(buffers: Sequence[memoryview | bytes | bytearray]) -> dict[str, Any]:
    """What was encoded. Writable buffers are used as they are, read-only ones are copied."""
    if not buffers:
        raise CorruptData("a snapshot without buffers: expected at least the pickle")
    writable = [bytearray(view) if (view := memoryview(buffer)).readonly else view for buffer in buffers[1:]]
    try:
        captured = Unpickler(_reader(buffers[0]), buffers=writable).load()
    except (AttributeError, ImportError) as error:
        raise OperatorFailed(
            f"state cannot be restored: {error}; the classes of values in the state must be importable in the host"
        ) from error
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError) as error:
        raise CorruptData(f"a snapshot cannot be decoded: {error}") from error
    assert isinstance(captured, dict)
    return captured


def learn(cls: type) -> None:
    """Remember an operator's class and the classes its code refers to, as those a snapshot means by their names."""
    todo: list[type] = [cls]
    seen: set[type] = set()
    while todo:
        found = todo.pop()
        name = (found.__module__, found.__qualname__)
        if found in seen or importable(found) or _known.get(name) is found:
            continue
        seen.add(found)  # two classes may have one name, after a cell of a notebook was run again
        _known[name] = found
        for member in [value for base in found.__mro__ for value in vars(base).values()]:
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(member, type):
                todo.append(member)
            todo.extend(value for value in getattr(member, "__globals__", {}).values() if isinstance(value, type))
    if not importable(cls):
        _known[cls.__module__, cls.__qualname__] = cls


class Pickler(pickle.Pickler):
    """The fast one: by reference, Arrow slices cut out."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (pa.Table, pa.RecordBatch, pa.ChunkedArray, pa.Array)):
            return _arrow_reduction(obj)
        return NotImplemented


def _arrow_reduction(obj: Any) -> Any:
    """Arrow pickles the whole buffers of a slice; a small slice of a large epoch would drag all of it along."""
    if obj.get_total_buffer_size() <= 2 * obj.nbytes + _WASTE_BYTES:
        return NotImplemented
    if isinstance(obj, (pa.Table, pa.RecordBatch)):
        table = obj if isinstance(obj, pa.Table) else pa.Table.from_batches([obj])
    else:
        table = pa.table({"": obj})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(use_threads=False)) as writer:
        writer.write_table(table)
    return _from_ipc, (type(obj).__name__, pickle.PickleBuffer(out.getvalue()))


def _from_ipc(kind: str, buffer: Any) -> Any:
    with pa.ipc.open_stream(pa.py_buffer(buffer)) as reader:
        table = reader.read_all()
    if kind == "Table":
        return table
    if kind == "RecordBatch":
        return table.combine_chunks().to_batches()[0]
    column = table.column(0)
    return column if kind == "ChunkedArray" else column.combine_chunks()


def _dumps(captured: dict[str, Any], out_of_band: list[pickle.PickleBuffer]) -> bytes | memoryview:
    out = io.BytesIO()
    try:
        Pickler(out, 5, buffer_callback=out_of_band.append).dump(captured)
    except (pickle.PicklingError, AttributeError, TypeError):  # a class or function that cannot be found by its name
        out_of_band.clear()
        out = io.BytesIO()
        _by_value_pickler()(out, 5, buffer_callback=out_of_band.append).dump(captured)
    return out.getbuffer()


@functools.cache
def _by_value_pickler() -> Any:
    """cloudpickle's, with classes written by name and by value. Comes with PySpark, hence imported only when needed."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped

    class ByValue(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, (pa.Table, pa.RecordBatch, pa.ChunkedArray, pa.Array)):
                return _arrow_reduction(obj)
            if isinstance(obj, type) and not importable(obj):
                return _class_named, (obj.__module__, obj.__qualname__, cloudpickle.dumps(obj))
            return super().reducer_override(obj)

    return ByValue


def _class_named(module: str, qualname: str, by_value: bytes) -> Any:
    found = found_moved(module, qualname) or known_class(module, qualname)
    if found is None:
        found = _known[(module, qualname)] = pickle.loads(by_value)
    return completed(found)


class Unpickler(pickle.Unpickler):
    """Finds classes of the user's script among those of the operators that run here, and those that have moved where they are now."""

    def find_class(self, module: str, name: str) -> Any:
        found = found_moved(module, name)
        if found is None:
            try:
                found = super().find_class(module, name)
            except (AttributeError, ImportError):
                found = known_class(module, name)
                if found is None:
                    raise
        return completed(found)


def known_class(module: str, qualname: str) -> Any | None:
    """A class that this process has, by its name; classes of the user's script are those of the operators that run here."""
    found = _known.get((module, qualname))
    if found is None:
        found = cast(Any, sys.modules.get(module))
        for part in qualname.split("."):
            found = getattr(found, part, None)
    return found


def importable(cls: type) -> bool:
    """Whether pickle finds this very class by its name."""
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


class _Reader(io.BytesIO):
    """Reads in Python's own code, so that between two frames of a large pickle other threads have their turn: hearts go on beating."""

    def readinto(self, target: Any) -> int:
        return super().readinto(target)

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size)


def _reader(buffer: memoryview | bytes | bytearray) -> io.BufferedIOBase:
    return _Reader(buffer)


def _culprit(captured: dict[str, Any]) -> str:
    """Which part could not be saved."""
    fields = captured.get("fields", {})
    for name, value in fields.items():
        try:
            _dumps({"": value}, [])
        except Exception:
            return f"field '{name}' ({type(value).__name__})"
    return "its values by key" if captured.get("keyed") else "a value"
