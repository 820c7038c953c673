"""Aligner: figures 6 (MS-src) and 8 (MS-src+ap) of the Meteor Shower paper, in epochs."""

from __future__ import annotations

from perseid.checkpoint.alignment import Aligner, ForwardToken
from perseid.checkpoint.schemes import Scheme, parallel, source
from perseid.vocabulary import Epoch, UnitName


def aligner(*upstream: str, scheme: Scheme | None = None, position: int = 5) -> Aligner:
    return Aligner("u", frozenset(upstream), (scheme or parallel()).synchronous, position)  # type: ignore[arg-type]


def test_a_unit_below_sources_takes_its_snapshot_where_it_stands() -> None:
    a = aligner()
    assert a.start() == (ForwardToken(UnitName("u"), Epoch(5)),)
    assert a.due(Epoch(5))
    a.check()


def test_the_token_of_a_parallel_checkpoint_leaves_before_the_snapshot() -> None:
    a = aligner("x")
    assert a.start() == (ForwardToken(UnitName("u"), Epoch(5)),)
    assert a.cut is None and not a.due(Epoch(5))


def test_snapshot_waits_for_the_slowest_input() -> None:
    a = aligner("x", "y")
    a.start()
    a.token_arrived(UnitName("x"), Epoch(8))
    assert not a.due(Epoch(8))
    a.token_arrived(UnitName("y"), Epoch(6))
    assert a.cut == 6 and a.due(Epoch(6))
    a.check()


def test_a_unit_does_not_consume_past_a_token_on_one_input_while_it_waits_for_another() -> None:
    a = aligner("x", "y")
    a.start()
    assert not a.holds_back(Epoch(6))
    a.token_arrived(UnitName("x"), Epoch(6))
    assert not a.holds_back(Epoch(6))
    assert a.holds_back(Epoch(7))


def test_a_unit_goes_on_as_soon_as_it_has_forked() -> None:
    a = aligner()
    a.start()
    assert a.holds_back(Epoch(6))
    assert a.snapshot_taken() == ()
    assert not a.holds_back(Epoch(6))
    a.check()


def test_the_token_of_a_source_checkpoint_is_forwarded_only_after_the_snapshot() -> None:
    a = aligner("x", scheme=source())
    assert a.start() == ()
    a.token_arrived(UnitName("x"), Epoch(7))
    assert not a.due(Epoch(6)) and a.due(Epoch(7))
    assert a.snapshot_taken() == (ForwardToken(UnitName("u"), Epoch(7)),)
    a.check()


def test_units_below_sources_share_one_token_in_a_source_checkpoint() -> None:
    a = aligner(scheme=source(), position=5)
    a.start(token=Epoch(6))
    assert not a.due(Epoch(5)) and a.due(Epoch(6))
