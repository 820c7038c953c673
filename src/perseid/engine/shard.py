"""One shard in its host: which epoch may be applied, which answers are kept (design §3, *exactly once*).

A shard applies epoch n only after n-1. Asked again for an epoch it has applied, it gives the answer it kept and applies nothing.
Requests carry the routing version they were planned under; one older than the shard's own comes from a task that
outlived its job, and is refused. A shard whose operator raised half-way is poisoned: it answers nothing until restored.

Spark does not tell a task whose input was cut short (its job was cancelled, or a block it read was lost) from one that has read all.
So a shard remembers how many rows it applied: asked again with more, it knows that it was given too few, and is poisoned.

Invariant: kept answers are consecutive and end with the applied epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from perseid.vocabulary import Epoch, ShardId, Version

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The shard cannot answer this request."""

    kind: Literal["stale", "gap", "released", "poisoned", "raised", "mistake", "storage", "suspended"]
    message: str


@dataclass(slots=True)
class ShardLog(Generic[Answer]):
    """Where a shard stands, and the answers it keeps."""

    shard: ShardId
    version: Version
    applied: Epoch
    answers: dict[Epoch, Answer] = field(default_factory=dict)
    rows: dict[Epoch, int] = field(
        default_factory=dict
    )  # applied, of the epochs whose answers are kept and of the last
    retain_from: Epoch = Epoch(1)  # answers before this one are not kept
    poisoned: str | None = None
    raised: tuple[Epoch, Refusal] | None = None  # what poisoned it, in full

    def ask(
        self, epoch: Epoch, version: Version, rows: int | None = None, *, wanted: bool = True
    ) -> Literal["apply", "answer"] | Refusal:
        """May ``epoch`` be applied now, or is its answer kept? ``rows`` is how many came with the request.

        A replay whose answers nobody looks at (not ``wanted``) may begin before the epoch at which the shard stands.
        """
        if version < self.version:
            return Refusal(
                "stale",
                f"shard {self.shard}: a request under routing version {version}, the shard is at {self.version}",
            )
        if self.raised is not None and self.raised[0] == epoch:
            return self.raised[1]  # Spark runs a failed task again by itself, and reports the last failure
        if self.poisoned is not None:
            return Refusal("poisoned", f"shard {self.shard} must be restored first: {self.poisoned}")
        if epoch == self.applied + 1:
            return "apply"
        if epoch > self.applied:
            return Refusal("gap", f"shard {self.shard} stands at epoch {self.applied}, cannot apply epoch {epoch}")
        applied = self.rows.get(epoch)
        if rows is not None and applied is not None and rows != applied:
            if rows < applied:
                return Refusal(
                    "stale", f"shard {self.shard}: {rows} of {applied} rows of epoch {epoch}, from a task cut short"
                )
            self.poisoned = f"it was given {applied} of {rows} rows of epoch {epoch} by a task that was cut short"
            return Refusal("poisoned", f"shard {self.shard} must be restored first: {self.poisoned}")
        if epoch in self.answers or not wanted:
            return "answer"
        return Refusal("released", f"shard {self.shard} no longer keeps its answer to epoch {epoch}")

    def applied_epoch(self, epoch: Epoch, answer: Answer, rows: int | None = None) -> None:
        assert epoch == self.applied + 1
        if self.applied not in self.answers:
            self.rows.pop(self.applied, None)
        self.applied = epoch
        if rows is not None:
            self.rows[epoch] = rows
        if epoch >= self.retain_from:
            self.answers[epoch] = answer

    def failed(self, epoch: Epoch, message: str, *, mistake: bool = False) -> Refusal:
        """The operator raised half-way: nobody knows what its state is. A ``mistake`` would be raised again whenever it is tried."""
        refusal = Refusal("mistake" if mistake else "raised", message)
        self.poisoned, self.raised = message.splitlines()[0], (epoch, refusal)
        return refusal

    def release(self, epoch: Epoch) -> list[Answer]:
        """Nobody asks for epochs up to ``epoch`` again; returns the answers let go."""
        if epoch < self.retain_from:
            return []
        self.retain_from = Epoch(epoch + 1)
        for old in tuple(self.rows):
            if old <= epoch and old != self.applied:
                del self.rows[old]
        gone: list[Answer] = []
        for old in tuple(self.answers):  # in their order, as applied
            if old > epoch:
                break
            gone.append(self.answers.pop(old))
        return gone

    def check(self) -> None:
        kept = sorted(self.answers)
        assert not kept or kept[-1] == self.applied
        assert kept == list(range(kept[0], kept[-1] + 1)) if kept else True
