"""One shard in its host: which epoch may be applied, which answers are kept (design §3, *exactly once*).

A shard applies epoch n only after n-1. Asked again for an epoch it has applied, it gives the answer it kept and applies nothing.
Requests carry the routing version they were planned under; one older than the shard's own comes from a task that
outlived its job, and is refused. A shard whose operator raised half-way is poisoned: it answers nothing until restored.

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

    kind: Literal["stale", "gap", "released", "poisoned", "raised"]
    message: str


@dataclass(slots=True)
class ShardLog(Generic[Answer]):
    """Where a shard stands, and the answers it keeps."""

    shard: ShardId
    version: Version
    applied: Epoch
    answers: dict[Epoch, Answer] = field(default_factory=dict)
    retain_from: Epoch = Epoch(1)  # answers before this one are not kept
    poisoned: str | None = None

    def ask(self, epoch: Epoch, version: Version) -> Literal["apply", "answer"] | Refusal:
        """May ``epoch`` be applied now, or is its answer kept?"""
        if version < self.version:
            return Refusal(
                "stale", f"shard {self.shard}: a request under routing version {version}, the shard is at {self.version}"
            )
        if self.poisoned is not None:
            return Refusal("poisoned", f"shard {self.shard} must be restored first: {self.poisoned}")
        if epoch == self.applied + 1:
            return "apply"
        if epoch > self.applied:
            return Refusal("gap", f"shard {self.shard} stands at epoch {self.applied}, cannot apply epoch {epoch}")
        if epoch in self.answers:
            return "answer"
        return Refusal("released", f"shard {self.shard} no longer keeps its answer to epoch {epoch}")

    def applied_epoch(self, epoch: Epoch, answer: Answer) -> None:
        assert epoch == self.applied + 1
        self.applied = epoch
        if epoch >= self.retain_from:
            self.answers[epoch] = answer

    def release(self, epoch: Epoch) -> list[Answer]:
        """Nobody asks for epochs up to ``epoch`` again; returns the answers let go."""
        self.retain_from = max(self.retain_from, Epoch(epoch + 1))
        return [self.answers.pop(e) for e in sorted(self.answers) if e <= epoch]

    def check(self) -> None:
        kept = sorted(self.answers)
        assert not kept or kept[-1] == self.applied
        assert kept == list(range(kept[0], kept[-1] + 1)) if kept else True
