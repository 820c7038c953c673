"""What lies between units: which epochs are kept, read from a file, made again, or gone."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.engine.stream_store import StreamGone, StreamStore
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import Epoch, Keeping, StreamName, Version

S = StreamName("s")
ROUTING = RoutingTable(Version(7), {})


class Told:
    """Says in words what is done with rows."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def act(*args: Any) -> str:
            words = [f"v{a.version}" if isinstance(a, RoutingTable) else str(a) for a in args]
            self.said.append(" ".join([name, *words]))
            return f"{name}({args[-2] if name == 'again' else args[-1]})"

        return act


def store(kind: Keeping) -> tuple[StreamStore[str], Told]:
    rows = Told()
    return StreamStore({S: kind}, rows), rows


def epoch(number: int) -> Epoch:
    return Epoch(number)


def test_an_epoch_is_kept_until_it_is_released() -> None:
    streams, rows = store("transient")
    streams.put(S, epoch(1), "d1", "rows 1")
    streams.put(S, epoch(2), "d2", "rows 2")
    assert streams.read(S, epoch(1), ROUTING) == "keep(transient)"
    streams.release(S, epoch(1))
    assert rows.said[-1] == "let_go s 1 keep(transient)"
    assert streams.read(S, epoch(2), ROUTING) == "keep(transient)"
    with pytest.raises(StreamGone, match="epoch 1 is no longer kept"):
        streams.read(S, epoch(1), ROUTING)


def test_a_retained_epoch_that_is_not_kept_is_made_again_under_the_routing_of_the_command() -> None:
    streams, rows = store("retained")
    assert streams.read(S, epoch(3), ROUTING) == "again(3)"
    assert rows.said == ["again s 3 v7"]


def test_what_may_know_lost_hosts_is_made_again_when_a_job_is_tried_again() -> None:
    streams, rows = store("transient")
    streams.refresh(S, epoch(1), ROUTING)
    assert rows.said == [], "nothing is kept: it is found, or not, when it is read"
    streams.put(S, epoch(1), "d", "rows")
    streams.refresh(S, epoch(1), ROUTING)
    assert rows.said[1:] == ["again s 1 v7", "let_go s 1 keep(transient)", "hold again(1)"]
    assert streams.read(S, epoch(1), ROUTING) == "hold(again(1))"


def test_an_epoch_that_a_checkpoint_has_is_read_from_its_file_when_a_job_is_tried_again() -> None:
    """Hosts that came back from that checkpoint have no answer from before it."""
    streams, rows = store("retained")
    streams.put(S, epoch(1), "d", "rows")
    streams.offer({(S, epoch(1)): "path"})
    assert streams.read(S, epoch(1), ROUTING) == "keep(retained)"
    streams.refresh(S, epoch(1), ROUTING)
    assert streams.read(S, epoch(1), ROUTING) == "load(path)"
    assert not any(said.startswith("again") for said in rows.said)


def test_after_a_reset_only_what_the_checkpoint_saved_is_there() -> None:
    streams, rows = store("transient")
    streams.put(S, epoch(4), "d", "rows")
    streams.reset({(S, epoch(3)): "path"})
    assert rows.said[-1] == "let_go s 4 keep(transient)"
    assert streams.read(S, epoch(3), ROUTING) == "load(path)"
    streams.release(S, epoch(3))
    for gone in (3, 4):
        with pytest.raises(StreamGone):
            streams.read(S, epoch(gone), ROUTING)


def test_a_durable_epoch_is_written_before_anybody_reads_it_and_outlives_a_reset() -> None:
    streams, rows = store("durable")
    streams.put(S, epoch(1), "d", "rows")
    streams.reset({})
    streams.release(S, epoch(1))
    assert streams.read(S, epoch(1), ROUTING) == "preserved(1)"
    streams.trim(S, epoch(1))
    assert rows.said == ["preserve s 1 d rows", "preserved s 1", "trim s 1"]


def test_a_checkpoint_saves_what_is_kept_and_never_has_it_made_again() -> None:
    streams, rows = store("retained")
    streams.put(S, epoch(1), "d", "rows")
    streams.save(S, epoch(1), "path")
    assert rows.said[-1] == "save keep(retained) path"
    with pytest.raises(StreamGone, match="cannot save it"):
        streams.save(S, epoch(2), "path")
