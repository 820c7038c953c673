from __future__ import annotations

from perseid.storage import layout
from perseid.vocabulary import CheckpointId, Epoch, Generation, OperatorName, SourceName, StreamName


def test_paths_are_those_of_the_contract() -> None:
    assert layout.lease(Generation(3)) == "lease/00000003.json"
    assert layout.ledger(Generation(3)) == "ledger/00000003.jsonl"
    assert layout.journal(Generation(3), 2, 17) == "journal/00000003-000002-17.jsonl"
    assert layout.source(SourceName("lines")) == "sources/lines"
    assert layout.preserved(StreamName("words"), Epoch(7)) == "preserved/words/epoch=7"
    assert layout.snapshot(CheckpointId(5), OperatorName("count"), 1) == "checkpoints/00000005/count-1.snapshot"
    assert layout.inflight(CheckpointId(5), StreamName("s"), Epoch(9)) == "checkpoints/00000005/inflight/s/epoch=9"
    assert layout.manifest(CheckpointId(5)) == "checkpoints/00000005/manifest.json"
    assert layout.dead_letters(OperatorName("count")) == "dead-letters/count"


def test_no_name_leaves_its_folder_or_hides_from_spark() -> None:
    for name in ("..", ".", "a/b", "../../x", "_hidden", ".tmp-x", "a\x00b", "ünï"):
        encoded = layout.encoded(name)
        assert "/" not in encoded and "\x00" not in encoded and encoded[0] not in "._"
    names = ["a/b", "a%2Fb", "a_b", "_a", "%5Fa", ".a", "a b"]
    assert len({layout.encoded(name) for name in names}) == len(names)


def test_numbers_come_back_out_of_names() -> None:
    assert layout.generation_of("00000012.json") == 12
    assert layout.generation_of("123456789.jsonl") == 123456789
    assert layout.checkpoint_of("00000041") == 41
    for other in ("README.md", "12.json", ".tmp-00000001.json-x", ""):
        assert layout.generation_of(other) is None
        assert layout.checkpoint_of(other) is None
