"""Second copies of other hosts' shards on a host, and its own shards while another host answers for them (H2, H5).

A copy is a shard that does not answer. It is replaced as a whole by what its primary sends, and becomes a shard when the driver says so; a
shard that is suspended becomes a copy. State that comes back to a primary replaces the primary's, whether it is suspended yet or not. A
copy under active standby (``both``) answers beside its primary.

A refresh sends what changed since the one before, if the receiver has that.

Invariant: a shard is a host's own or a copy, never both; a copy is of one epoch, with all of its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine.host_effects import Answer, Captured, Effects, Live, Received, Rows
from perseid.engine.hosted_shard import HostedShard, Sent
from perseid.engine.kept_input import KeptInput
from perseid.engine.messages import CopiedShard, CopyNotSent, CopyShards, SendCopy
from perseid.engine.shard import ShardLog
from perseid.vocabulary import Epoch, ShardId


class Copies(Generic[Live, Rows, Answer]):
    """Of one host. Whoever calls holds the host's lock."""

    def __init__(
        self,
        own: dict[ShardId, HostedShard[Live, Answer]],
        effects: Effects[Live, Rows, Answer],
        shard_log: type[ShardLog[Answer]],
    ) -> None:
        self._own, self._effects, self._log = own, effects, shard_log
        self.shards: dict[ShardId, HostedShard[Live, Answer]] = {}

    def pop(self, shard: ShardId) -> HostedShard[Live, Answer] | None:
        return self.shards.pop(shard, None)

    def suspend(self, shards: Iterable[ShardId]) -> None:
        """Another host answers for them."""
        for shard in shards:
            held = self._own.pop(shard, None)
            if held is not None:
                self.shards[shard] = held

    def answer(self, shards: Iterable[ShardId], *, both: bool) -> list[HostedShard[Live, Answer]]:
        """They are its own from now on, as far as they are there."""
        helds = []
        for shard in shards:
            held = self.shards.pop(shard, None)
            if held is not None:
                self._own[shard] = held
                self._effects.take_over_input(shard, ())  # room for what it will keep
            held = self._own.get(shard)
            if held is not None:
                held.both = both
                helds.append(held)
        return helds

    def captured(self, command: SendCopy) -> list[Captured]:
        """Shards as they are now, for another host; none if one is missing, which is told."""
        found: list[Captured] = []
        for wanted in command.shards:
            held = self._own.get(wanted.shard) or self.shards.get(wanted.shard)
            if held is None or held.log.poisoned is not None:
                why = "it is not on this host" if held is None else held.log.poisoned
                self._effects.send(CopyNotSent(command.number, f"shard {wanted.shard} cannot be sent: {why}"))
                return []
            held.both = command.answers
            found.append(self._captured(held, wanted.consumed, command))
        return found

    def take(self, message: CopyShards, received: Sequence[Received[Live, Answer]]) -> str:
        """What another host sent, all of it or nothing. Returns why not, if so."""
        for one in received:
            shard = one.entry.shard
            own = self._own.get(shard)
            if own is not None and not message.back:
                return f"shard {shard} is this host's own"
            if own is not None and own.log.applied > one.entry.epoch:
                return f"shard {shard} has gone on: it stands at epoch {own.log.applied}"
            before = own or self.shards.get(shard)
            if one.entry.since is not None and (before is None or before.log.applied != one.entry.since):
                return f"shard {shard} is not here as of epoch {one.entry.since}, to which there are changes"
            if before is not None and before.log.version > one.entry.version:
                return f"shard {shard}: what was sent is older than what is here"
        for one in received:
            place = self._own if one.entry.shard in self._own else self.shards
            before = place.get(one.entry.shard)
            try:
                place[one.entry.shard] = self._made(one, before, both=message.answers)
            except Exception as error:
                self.shards.pop(one.entry.shard, None)
                return f"shard {one.entry.shard}: what has changed cannot be made out: {error}"
        return ""

    def _captured(self, held: HostedShard[Live, Answer], consumed: Epoch, command: SendCopy) -> Captured:
        log, sent = held.log, held.sent
        if command.full or command.answers or (sent is not None and sent.to != command.to.name):
            sent = None
        since = sent.epoch if sent is not None else None
        needed = max(consumed, since or 0)
        answers = {epoch: answer for epoch, answer in log.answers.items() if epoch > needed}
        rows = {epoch: count for epoch, count in log.rows.items() if epoch in answers or epoch == log.applied}
        retain = Epoch(max(log.retain_from, consumed + 1))
        image, state = self._effects.capture(held.live, answers, sent.state if sent is not None else None)
        held.sent = Sent(command.to.name, log.applied, state)
        entry = CopiedShard(log.shard, held.slots, log.version, log.applied, since, retain, rows, held.report)
        return Captured(entry, image)

    def _made(
        self, one: Received[Live, Answer], before: HostedShard[Live, Answer] | None, *, both: bool
    ) -> HostedShard[Live, Answer]:
        entry, answers, rows = one.entry, dict(one.answers), dict(one.entry.rows)
        if entry.since is not None:
            assert before is not None
            live = before.live
            self._effects.change(live, one.changes)
            gone = before.log.release(Epoch(entry.retain_from - 1))
            self._effects.forget_answers(gone)
            answers, rows = {**before.log.answers, **answers}, {**before.log.rows, **rows}
        else:
            assert one.live is not None
            live = one.live
            if before is not None:
                self._effects.let_go(before.live)
                self._effects.forget_answers(before.log.answers.values())
        log = self._log(entry.shard, entry.version, entry.epoch, retain_from=entry.retain_from)
        log.answers.update(sorted(answers.items()))
        log.rows.update({epoch: count for epoch, count in rows.items() if epoch in answers or epoch == entry.epoch})
        kept = before.kept if before is not None else KeptInput()
        return HostedShard(log, entry.slots, live, SizeWatch(entry.shard), kept, entry.report, both=both)
