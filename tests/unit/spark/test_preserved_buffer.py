"""The buffer of a preserved stream fills, overflows to disk, and has room again when it is trimmed (M2)."""

from __future__ import annotations

from perseid.spark.preserved_buffer import BUFFER_BYTES, PreservedBuffer
from perseid.vocabulary import Epoch


def test_it_holds_fifty_megabytes() -> None:
    assert BUFFER_BYTES == 50 * 1024 * 1024


def test_epochs_go_to_disk_once_memory_is_full_and_to_memory_again_once_it_is_trimmed() -> None:
    buffer = PreservedBuffer(limit_bytes=100)
    places = []
    for epoch in range(1, 7):
        place = buffer.place("s")
        places.append(place)
        buffer.put("s", Epoch(epoch), place, 30)
        buffer.check()
    assert places == ["memory"] * 4 + ["disk"] * 2
    buffer.forget("s", Epoch(1))
    assert buffer.place("s") == "memory"
    buffer.forget("s", Epoch(5))
    assert buffer.on_disk.keys() == {("s", 6)}


def test_streams_have_buffers_of_their_own() -> None:
    buffer = PreservedBuffer(limit_bytes=100)
    buffer.put("a", Epoch(1), "memory", 500)
    assert (buffer.place("a"), buffer.place("b")) == ("disk", "memory")


def test_an_epoch_computed_again_counts_once() -> None:
    buffer = PreservedBuffer(limit_bytes=100)
    for _ in range(10):
        buffer.put("s", Epoch(1), "memory", 60)
    assert buffer.bytes_in_memory("s") == 60


def test_a_cleared_buffer_keeps_its_limit() -> None:
    buffer = PreservedBuffer(limit_bytes=100)
    buffer.put("s", Epoch(1), "memory", 500)
    buffer.clear()
    assert buffer.place("s") == "memory" and buffer.limit_bytes == 100 and buffer.bytes_in_memory("s") == 0
