"""Messages arrive as they were sent, through JSON; whatever else comes is refused with the field that is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.channel.codec import Kinds, encode
from perseid.channel.protocol import FROM_HOST, FROM_TASK, REGISTRATION, REPLY, TO_HOST, Registration
from perseid.checkpoint.lifecycle import SavedShard
from perseid.checkpoint.size_reports import AskSizes, Observed, ShardSize, SizePoint
from perseid.engine import messages as msg
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.process import Process
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, Version

A, B = ShardId(OperatorName("a"), 0), ShardId(OperatorName("b"), 3)
SAVED = ShardSnapshot(A.operator, 0, (0, 128), Epoch(7), SnapshotFile("checkpoints/1/a-0.snapshot", 9, "ab"), 8)


@dataclass(frozen=True)
class Either:
    """No message: nobody could tell which it is."""

    value: tuple[int, ...] | tuple[str, ...]


st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(SavedShard, st.from_type(ShardSnapshot))  # type: ignore[type-abstract]
UNIONS: dict[str, tuple[Kinds[Any], Any]] = {
    "to a host": (TO_HOST, msg.ToHost),
    "from a host": (FROM_HOST, msg.FromHost),
    "request": (FROM_TASK, msg.FromTask),
    "reply": (REPLY, msg.Reply),
}
KINDS = [(kinds, kind) for kinds, union in UNIONS.values() for kind in get_args(union)]


def sent(message: Any) -> Any:
    return json.loads(json.dumps(encode(message)))


@pytest.mark.parametrize(("kinds", "kind"), KINDS, ids=[kind.__name__ for _, kind in KINDS])
def test_every_message_arrives_as_it_was_sent(kinds: Kinds[Any], kind: type) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.from_type(kind))
    def arrives(message: Any) -> None:
        assert kinds.decode(sent(message)) == message

    arrives()


def test_what_a_host_says_first_and_nested_messages_arrive() -> None:
    hello = Registration(3, msg.Address("10.0.0.1", 5, "/tmp/x", "m", "n"), "e", Process("h", 1, None, "b", None))
    assert REGISTRATION.decode(sent(hello)) == hello
    part = msg.PartToRead(SAVED, (0, 64), hello.address)
    restore = msg.Restore(
        Version(4), Epoch(2), (msg.ShardToRestore(B, (0, 64), Epoch(7), (part,), Epoch(9), ("/tmp/a",)),)
    )
    assert TO_HOST.decode(sent(restore)) == restore
    seen = Observed(5, 7.5, 3, (SizePoint(1000, 5), SizePoint(2000, 10)))
    sizes = msg.Sizes(9, (ShardSize(A, 10, -2.5), ShardSize(B, 0, 0.0, seen)))
    assert FROM_HOST.decode(sent(sizes)) == sizes
    ask = AskSizes(2, frozenset({B, A}), watch=True, lows={A: 7, B: 9})
    assert TO_HOST.decode(sent(ask)) == ask
    assert TO_HOST.decode(sent(AskSizes(4, frozenset()))) == AskSizes(4, frozenset()), "nobody is not everybody"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (["Explode"], "expected one of"),
        ({"kind": "drop"}, "expected one of"),
        ([], "expected one of"),
        ([["Drop"]], "expected one of"),
        (["Heartbeat"], "expected one of"),  # another connection's
        (["Stop"], "Stop: expected the fields for_good"),
        (["Stop", True, 1], "Stop: expected the fields for_good"),
        (["Stop", 1], "Stop.for_good: expected bool, got 1"),
        (["Drop", [["a", 0], ["b"]]], "Drop.shards: expected the fields operator, index"),
        (["Drop", [["a", "0"]]], r"Drop.shards.index: expected int, got '0'"),
        (["Drop", "ab"], "Drop.shards: expected a list"),
        (["Covered", [["a", 1, 2]]], "Covered.cuts: expected a list of 2"),
        (["CatchUp", 1, 2, [[["a", 0], [0]]], []], "CatchUp.shards.slots: expected a list of 2"),
        (["KeepBackup", "p", ["h", None, "", "", ""]], "KeepBackup.source.port: expected int, got None"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_what_is_wrong(data: Any, said: str) -> None:
    with pytest.raises(ChannelError, match=said):
        TO_HOST.decode(data)


def test_a_refusal_of_an_unknown_kind_is_refused() -> None:
    assert REPLY.decode(sent(Refusal("gap", "why"))) == Refusal("gap", "why")
    with pytest.raises(ChannelError, match=r"Refusal.kind: expected one of"):
        REPLY.decode(["Refusal", "perhaps", "why"])


def test_a_field_that_cannot_travel_is_found_when_the_program_starts() -> None:
    with pytest.raises(TypeError, match="cannot be read"):
        Kinds[bytes](bytes)
    with pytest.raises(TypeError, match="cannot be told apart"):
        Kinds[Either](Either)


def test_an_event_names_the_host_that_said_it() -> None:
    from perseid.engine import events as on
    from perseid.engine.host_messages import event_of
    from perseid.vocabulary import HostId

    host = HostId(2)
    assert event_of(host, msg.NotSaved(CheckpointId(5), "full")) == on.CheckpointFailed(CheckpointId(5), "full", host)
    assert event_of(host, msg.Saved(CheckpointId(5), SAVED)) == on.SnapshotWritten(CheckpointId(5), A, SAVED)
    assert event_of(host, msg.Warned("x")) is None
