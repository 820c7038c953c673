"""How a task asks a shard that has a standby: its host first, the other one when that is silent; the first answer counts (H4, H5).

The rows are kept on the task's machine before they are sent (``channel.kept_rows``): who takes over makes up what it lacks from them. Each
place is asked in a thread of its own. A place that refuses because it is suspended is asked again and again, until one of them answers;
which one may is the controller's to say. An answer is taken whole before a row of it is handed on, so that one that breaks off is nobody's.
Whoever gives another answer later is told so: its operator is not deterministic, and its state is not the one that counts.

Invariant: one answer is handed on. A place that has not answered an earlier request yet is not asked another one.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from perseid.channel.connection import Connection
from perseid.channel.handshake import connect
from perseid.channel.protocol import REPLY
from perseid.engine.messages import AnswerDiffered, ApplyEpoch, RecallAnswer, Request
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.spark.asking import Place, Refused, Target, keep, key_of, take, unreachable

AGAIN_S = 0.02  # a suspended place is asked again after this time at first
AGAIN_SHARE = 0.25  # and later after this share of the time waited so far
MOST_S = 0.1
PASSING = ("suspended", "stale")  # refusals after which another place may answer

Result = list[pa.RecordBatch] | Refusal | ChannelError


class _Answer:
    """The one that counts, of several places."""

    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] | None = None
        self._lock = threading.Lock()

    def given(self, rows: list[pa.RecordBatch]) -> bool:
        """A place has answered: is it the first one, or is the answer the same?"""
        with self._lock:
            first = self.rows
            if first is None:
                self.rows = rows
        return first is None or _same(first, rows)


def _same(one: list[pa.RecordBatch], other: list[pa.RecordBatch]) -> bool:
    if sum(batch.num_rows for batch in one) != sum(batch.num_rows for batch in other):
        return False
    if not one or not other:
        return True
    left, right = pa.Table.from_batches(one), pa.Table.from_batches(other)
    return left.equals(right) or repr(left.to_pylist()) == repr(right.to_pylist())  # where a number is none (NaN)


_asked: dict[tuple[str, str, int, str], Connection | None] = {}  # places that have not answered yet


def first_answer(
    target: Target, secret: bytes, request: Request, schema: pa.Schema, rows: Sequence[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """The answer of the first place that gives one. Raises ``Unreachable`` or ``Refused``."""
    results: queue.SimpleQueue[tuple[Place, Result]] = queue.SimpleQueue()
    answer = _Answer()
    said: dict[Place, Result] = {}  # what was no answer
    waiting: set[Place] = set()
    probed: set[Place] = set()  # that were asked without the rows

    def ask(place: Place, *, probe: bool) -> None:
        key = key_of(place.address)
        if place in waiting or key in _asked:
            return
        _asked[key] = None
        waiting.add(place)
        (probed.add if probe else probed.discard)(place)
        asked: Request = request
        if probe and isinstance(request, ApplyEpoch):
            asked = RecallAnswer(request.shard, request.epoch, request.version)
        follow = rows if isinstance(asked, ApplyEpoch) else None
        arguments = (place, secret, asked, schema, follow, results, answer)
        threading.Thread(target=_converse, args=arguments, name="perseid-ask", daemon=True).start()

    def pause_s() -> float:
        return min(max(AGAIN_S, AGAIN_SHARE * (time.monotonic() - began)), MOST_S)

    first, *others = target.places
    patience_s = target.patience_s
    ask(first, probe=False)
    for place in others if not patience_s else ():
        ask(place, probe=False)
    began = time.monotonic()
    until = began + (patience_s if waiting else 0)  # who owes an earlier answer was silent for long enough
    while True:
        try:
            place, result = results.get(timeout=max(0.001, until - time.monotonic()))
        except queue.Empty:
            until = time.monotonic() + pause_s()
            for place in target.places:
                ask(place, probe=place is not first or place in said)
            continue
        waiting.discard(place)
        if answer.rows is not None:
            return answer.rows
        if isinstance(result, Refusal) and result.kind == "gap" and place in probed:
            ask(place, probe=False)  # it may answer, and has not got the rows yet
            continue
        if isinstance(result, Refusal) and result.kind not in PASSING:
            raise Refused(place.host, result)
        said[place] = result
        if not waiting and len(said) == len(target.places):
            _raise_if_hopeless(target, said)
        until = min(until, time.monotonic() + pause_s())


def _raise_if_hopeless(target: Target, said: dict[Place, Result]) -> None:
    """If no place will ever answer."""
    for place in target.places:
        result = said[place]
        if isinstance(result, Refusal) and result.kind == "suspended":
            return
    for place in target.places:
        result = said[place]
        if isinstance(result, ChannelError):
            raise unreachable(place, result) from result
    result = said[target.places[0]]
    assert isinstance(result, Refusal)
    raise Refused(target.places[0].host, result)


def _converse(
    place: Place,
    secret: bytes,
    request: Request,
    schema: pa.Schema,
    rows: Sequence[pa.RecordBatch] | None,
    results: queue.SimpleQueue[tuple[Place, Result]],
    answer: _Answer,
) -> None:
    """Ask one place, and wait for its whole answer, whether somebody still wants it or not."""
    key = key_of(place.address)
    result: Result = ChannelError("the conversation ended")
    connection = None
    try:
        connection = take(place.address)
        if connection is None:
            connection = connect(place.address, secret, "epochs")
        connection.tell(request)
        if rows is not None:
            connection.send_rows(schema, rows)
        reply = connection.hear(REPLY)
        result = reply if isinstance(reply, Refusal) else list(connection.receive_rows()[1])
    except ChannelError as error:
        result = error
    except Exception as error:
        result = ChannelError(f"{type(error).__name__}: {error}")
    finally:
        if connection is not None:
            same = not isinstance(result, list) or answer.given(result)
            _put_back(place, connection, result, None if same else AnswerDiffered(request.shard, request.epoch))
        del _asked[key]
        results.put((place, result))


def _put_back(place: Place, connection: Connection, result: Result, differed: AnswerDiffered | None) -> None:
    """The connection is for whoever asks next, unless something went wrong on it."""
    try:
        if isinstance(result, ChannelError):
            raise result
        if differed is not None:
            connection.tell(differed)
        keep(place.address, connection)
    except ChannelError:
        connection.close()
