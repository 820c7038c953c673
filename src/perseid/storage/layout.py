"""Where things lie under a checkpoint root. Every path of the root is made here and nowhere else.

Invariant: different names give different paths, and no name leaves its folder: characters that mean something to a
filesystem are percent-encoded. Spec: L4, M1.

    app.json                                     the fingerprint of the graph the root belongs to
    kept.json                                    the checkpoint before a change of the code, until a person lets it go
    key.json                                     the key with which snapshots prove who wrote them
    lease/<generation>.json                      who runs the application, one file for every start
    ledger/<generation>.jsonl                    what was admitted and committed
    journal/<generation>-<part>-<begun>.jsonl     what happened
    sources/<name>/…                             private to the source
    preserved/<stream>/epoch=<n>/                streams kept by value
    checkpoints/<id>/<operator>-<shard>.snapshot
    checkpoints/<id>/inflight/<stream>/epoch=<n>/
    checkpoints/<id>/manifest.json               makes the checkpoint one
    dead-letters/<operator>/epoch=<n>/<shard>.arrow
    dead-letters/<source>/file=<n>.jsonl         lines of files that do not fit the schema
    requests/<name>.request.json, .answer.json    what another process asks of the running application
    staging/<fence>/                             the folder of the driver that runs now: what it writes goes through it
"""

from __future__ import annotations

from urllib.parse import quote

from perseid.vocabulary import CheckpointId, Epoch, Generation, OperatorName, SourceName, StreamName

APP = "app.json"
KEY = "key.json"
KEPT = "kept.json"
LEASES = "lease"
LEDGERS = "ledger"
JOURNALS = "journal"
EVENTS = "events"
SOURCES = "sources"
PRESERVED = "preserved"
CHECKPOINTS = "checkpoints"
DEAD_LETTERS = "dead-letters"
REQUESTS = "requests"

REQUEST, ANSWER = ".request.json", ".answer.json"

FIRST_ID_GAP = 10


def first_checkpoint(newest: CheckpointId, generation: Generation) -> CheckpointId:
    """The first checkpoint of a start, well above all that are there and all that earlier starts may have begun.

    A paused driver that wakes up may still have its hosts write files of the checkpoint it had begun, and of the next; it
    commits none. They must not be ours, also where it had not begun any before we looked.
    """
    if not newest and generation <= 1:
        return CheckpointId(1)
    return CheckpointId(max(newest + FIRST_ID_GAP, FIRST_ID_GAP * (generation - 1)))


def lease(generation: Generation) -> str:
    return f"{LEASES}/{generation:08d}.json"


def ledger(generation: Generation) -> str:
    return f"{LEDGERS}/{generation:08d}.jsonl"


def journal(generation: Generation, part: int, begun_ms: int, folder: str = JOURNALS) -> str:
    return f"{folder}/{generation:08d}-{part:06d}-{begun_ms}.jsonl"


def source(name: SourceName) -> str:
    return f"{SOURCES}/{encoded(name)}"


def preserved_stream(stream: StreamName) -> str:
    return f"{PRESERVED}/{encoded(stream)}"


def preserved(stream: StreamName, epoch: Epoch) -> str:
    return f"{preserved_stream(stream)}/epoch={epoch}"


def checkpoint(id: CheckpointId) -> str:
    return f"{CHECKPOINTS}/{id:08d}"


def snapshot(id: CheckpointId, operator: OperatorName, shard: int) -> str:
    return f"{checkpoint(id)}/{encoded(operator)}-{shard}.snapshot"


def inflight(id: CheckpointId, stream: StreamName, epoch: Epoch) -> str:
    return f"{checkpoint(id)}/inflight/{encoded(stream)}/epoch={epoch}"


def manifest(id: CheckpointId) -> str:
    return f"{checkpoint(id)}/manifest.json"


def dead_letters(operator: OperatorName) -> str:
    return f"{DEAD_LETTERS}/{encoded(operator)}"


def dead_letters_of(operator: OperatorName, epoch: Epoch) -> str:
    return f"{dead_letters(operator)}/epoch={epoch}"


def request(name: str) -> str:
    return f"{REQUESTS}/{name}{REQUEST}"


def answer(name: str) -> str:
    return f"{REQUESTS}/{name}{ANSWER}"


def encoded(name: str) -> str:
    """A name as one path component that neither a filesystem nor Spark takes for something special."""
    safe = quote(name, safe=" ")
    return f"%{ord(safe[0]):02X}{safe[1:]}" if safe[:1] in (".", "_") else safe


def generation_of(name: str) -> Generation | None:
    """The generation in the name of a lease or ledger file; None for other files."""
    number = name.partition(".")[0]
    return Generation(int(number)) if _is_number(number) else None


def checkpoint_of(name: str) -> CheckpointId | None:
    """The id in the name of a checkpoint's folder; None for others."""
    return CheckpointId(int(name)) if _is_number(name) else None


def checkpoint_with(path: str) -> CheckpointId | None:
    """The checkpoint that a file was written for; None for other files."""
    folder, _, inside = path.partition("/")
    return checkpoint_of(inside.partition("/")[0]) if folder == CHECKPOINTS else None


def _is_number(text: str) -> bool:
    return len(text) >= 8 and text.isascii() and text.isdigit()
