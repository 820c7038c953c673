"""Names and sentences that a newcomer understands at once: words that say nothing are banned from names, riddles from prose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SOURCES = TOP / "src" / "perseid"

BANNED = {
    "held", "helds", "forked", "past", "asked", "keeper", "chronicle", "assembled", "errand", "errands", "havoc", "bury", "buried",
    "wreak", "wish", "story", "life", "side", "scales", "gently", "farewell", "foretell", "foretold", 
    "utils", "helpers", "manager",
}  # fmt: skip
"""In names of modules, classes and functions. Name the thing: ``shards``, ``requests``, ``host_died``."""

TECHNICAL = {
    "errors.py:LeaseHeld": "a lease is held: the usual word",
    "storage/lease.py:_why_held": "the same",
    "storage/lease.py:_sign_of_life": "the usual word",
    "storage/uncached_file.py:write_past_cache": "past the cache, not the past",
    "engine/events.py:SnapshotsForked": "the operating system's fork",
    "engine/messages.py:Forked": "the operating system's fork",
    "engine/notices/checkpoints.py:SnapshotsForked": "the operating system's fork",
    "engine/checkpointing.py:forked": "the operating system's fork",
    "engine/checkpoint_steps.py:forked": "the operating system's fork",
    "processor/operator.py:_AskedForms": "as Spark names what it asks for",
    "bench/engine.py:side": "a side of a comparison",
    "bench/measuring/contestant.py:SideFailed": "a side of a comparison",
    "simulation/host.py:_forked": "the operating system's fork",
    "simulation/graphs.py:side_by_side": "two units side by side",
}

RIDDLES = (
    "take in its hands", "goes by way of", "that there is not", "What a shard has is", "as little as can be", "paper S",
    "paper M",
    "says so itself", "between two cups", "is told its toll", "by themselves or", "Nobody waits", "that does not say",
)  # fmt: skip
"""Parts of sentences that had to be decoded. Write subject, verb, object."""


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def names() -> Iterator[str]:
    for path in SOURCES.rglob("*.py"):
        module = path.relative_to(SOURCES).as_posix()
        yield module
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{module}:{node.name}"


def test_names_say_what_the_thing_is() -> None:
    riddles = {
        name for name in names() if words(Path(name).stem if ":" not in name else name.partition(":")[2]) & BANNED
    }
    assert riddles <= TECHNICAL.keys(), "name the thing; or say in TECHNICAL why the word is the usual one"


@pytest.mark.parametrize("page", [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_a_page_has_no_riddles(page: Path) -> None:
    assert not [riddle for riddle in RIDDLES if riddle in page.read_text()]


def test_docstrings_and_messages_have_no_riddles() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {riddle}"
        for path in SOURCES.rglob("*.py")
        for riddle in RIDDLES
        if riddle in path.read_text()
    }
    assert not found
