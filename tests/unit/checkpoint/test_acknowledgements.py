"""An epoch of a stream goes when every consumer has acknowledged it, and nobody holds it."""

from __future__ import annotations

from perseid.checkpoint.acknowledgements import Acknowledgements, Hold
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.vocabulary import Epoch, Keeping, SourceName, StreamName, UnitName

UP, LEFT, RIGHT, S = UnitName("up"), UnitName("left"), UnitName("right"), StreamName("s")


def acknowledgements(kept: Keeping = "retained") -> Acknowledgements:
    units = (UnitShape(UP, (SourceName("in"),), {}, {}), UnitShape(LEFT, (), {}, {}), UnitShape(RIGHT, (), {}, {}))
    return Acknowledgements(Topology(units, (StreamShape(S, UP, LEFT, kept), StreamShape(S, UP, RIGHT, kept))))


def test_the_slowest_consumer_decides() -> None:
    acks = acknowledgements()
    acks.done(LEFT, Epoch(5))
    assert acks.forgettable() == {}
    acks.done(RIGHT, Epoch(3))
    assert acks.forgettable() == {S: 3}


def test_preserved_input_goes_only_when_checkpoints_cover_it() -> None:
    acks = acknowledgements("buffered")
    acks.done(LEFT, Epoch(5))
    acks.done(RIGHT, Epoch(5))
    assert acks.forgettable() == {}
    acks.covered({UP: Epoch(6), LEFT: Epoch(4), RIGHT: Epoch(2)})
    assert acks.forgettable() == {S: 2}


def test_a_checkpoint_that_proved_corrupt_takes_its_acknowledgement_back() -> None:
    acks = acknowledgements("buffered")
    acks.covered({LEFT: Epoch(4), RIGHT: Epoch(4)})
    acks.covered({LEFT: Epoch(1), RIGHT: Epoch(1)})
    assert acks.forgettable() == {S: 1}


def test_units_that_are_put_back_need_their_input_again() -> None:
    acks = acknowledgements()
    for epoch in (Epoch(7), Epoch(2)):
        acks.done(LEFT, epoch)
        acks.done(RIGHT, epoch)
    assert acks.forgettable() == {S: 2}


def test_whoever_holds_an_epoch_keeps_it_and_all_after_it() -> None:
    acks = acknowledgements()
    acks.done(LEFT, Epoch(7))
    acks.done(RIGHT, Epoch(7))
    assert acks.forgettable([Hold(S, Epoch(5)), Hold(S, Epoch(6))]) == {S: 5}
    assert acks.forgettable([Hold(S, Epoch(0))]) == {}
    assert acks.forgettable([Hold(StreamName("other"), Epoch(1))]) == {S: 7}


def test_durable_streams_are_trimmed_with_checkpoints() -> None:
    acks = acknowledgements("durable")
    acks.done(LEFT, Epoch(7))
    acks.done(RIGHT, Epoch(7))
    assert acks.forgettable() == {}
