"""What is said about sizes arrives as it was said, through JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perseid.channel.size_messages import answer_message, ask_message, notice_message, read_ask, read_report
from perseid.checkpoint.size_reports import (
    AskSizes,
    Observed,
    ShardSize,
    SizeHalved,
    SizePoint,
    SizesReported,
    SizeTurned,
)
from perseid.vocabulary import HostId, OperatorName, ShardId

A, B = ShardId(OperatorName("a"), 0), ShardId(OperatorName("b"), 3)


def sent(message: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(message))


@pytest.mark.parametrize(
    "ask",
    [
        AskSizes(1),
        AskSizes(2, frozenset({A, B}), watch=True),
        AskSizes(3, observed=True),
        AskSizes(4, frozenset()),
        AskSizes(5, lows={A: 7, B: 9}),
    ],
)
def test_a_question(ask: AskSizes) -> None:
    assert read_ask(sent(ask_message(ask))) == ask


def test_an_answer() -> None:
    seen = Observed(5, 7.5, 3, (SizePoint(1000, 5), SizePoint(2000, 10)))
    sizes = (ShardSize(A, 10, -2.5), ShardSize(B, 0, 0.0, seen))
    assert read_report(HostId(4), sent(answer_message(9, sizes))) == SizesReported(HostId(4), 9, sizes)


@pytest.mark.parametrize("notice", [SizeHalved(A, 100, 20), SizeTurned(B, 50, -1.5)])
def test_a_notice(notice: SizeHalved | SizeTurned) -> None:
    assert read_report(HostId(4), sent(notice_message(notice))) == notice
