"""Alignment: where in its stream of epochs a unit takes its snapshot (M3, M4; the paper's figures 6 and 8).

A token on a stream says: *what came before is in the checkpoint of the unit below, what comes after is not*. Epochs are
numbered alike in all units, so a token is a number: the last epoch before it. A unit with several inputs takes its
snapshot at the smallest token, since it works on epoch n of all its inputs at once and so cannot go past a token on
one input while it waits for another.

Invariant: a unit never starts an epoch past its cut before its snapshot has been taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.vocabulary import Epoch, UnitName


@dataclass(frozen=True, slots=True)
class ForwardToken:
    """Command: put a token behind ``epoch`` on every stream that leaves this unit."""

    unit: UnitName
    epoch: Epoch


@dataclass(slots=True)
class Aligner:
    """One unit's part in one checkpoint."""

    unit: UnitName
    upstream: frozenset[UnitName]
    synchronous: bool  # does the unit stop until its snapshot is durable, and pass its token on only then?
    position: Epoch  # last epoch finished or being worked on when the command came
    tokens: dict[UnitName, Epoch] = field(default_factory=dict)
    cut: Epoch | None = None  # the epoch of the snapshot, once every token is in
    taken: bool = False  # forked (parallel) or written (source): the unit may go on
    forwarded: bool = False

    def start(self, token: Epoch | None = None) -> tuple[ForwardToken, ...]:
        """The controller's command. A unit fed by sources alone gets its token with it (``token``)."""
        commands: list[ForwardToken] = []
        if not self.upstream:
            self.cut = self.position if token is None else token
        if not self.synchronous:  # 1-hop tokens leave at once, ahead of the snapshot
            commands.append(self._forward(self.position))
        return tuple(commands)

    def token_arrived(self, sender: UnitName, epoch: Epoch) -> None:
        """A token came down from the unit above."""
        assert sender in self.upstream, f"unit {self.unit!r} has no input from {sender!r}"
        assert sender not in self.tokens, f"unit {self.unit!r}: a second token from {sender!r}"
        self.tokens[sender] = epoch
        if self.tokens.keys() == self.upstream:
            self.cut = min(self.tokens.values())

    def due(self, finished: Epoch) -> bool:
        """Must the snapshot be taken now, with ``finished`` as the unit's newest epoch?"""
        return not self.taken and self.cut is not None and finished == self.cut

    def holds_back(self, epoch: Epoch) -> bool:
        """Must the unit wait before it starts ``epoch``? It may not pass its cut, known or still to come."""
        if self.taken:
            return False
        if self.cut is not None:
            return epoch > self.cut
        # A token not yet here can only lie at or behind what its sender has finished: no epoch past the
        # smallest token that is here may be started.
        return bool(self.tokens) and epoch > min(self.tokens.values())

    def snapshot_taken(self) -> tuple[ForwardToken, ...]:
        """Every shard of the unit has been forked (or written, when synchronous)."""
        assert self.cut is not None and not self.taken
        self.taken = True
        return (self._forward(self.cut),) if self.synchronous else ()

    def _forward(self, epoch: Epoch) -> ForwardToken:
        self.forwarded = True
        return ForwardToken(self.unit, epoch)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.tokens.keys() <= self.upstream
        if self.taken:
            assert self.cut is not None
        if self.cut is not None and self.upstream:
            assert self.cut == min(self.tokens.values())
            assert self.cut >= self.position or self.synchronous
        if self.forwarded and not self.taken:
            assert not self.synchronous, "the token was forwarded before the snapshot was written"
