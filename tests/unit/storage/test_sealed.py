from __future__ import annotations

import json

import pytest

from perseid.errors import CorruptData
from perseid.storage.sealed import seal, unseal, unseal_lines


def test_a_sealed_object_is_one_line_of_json() -> None:
    line = seal({"a": 'quote " and ünïcode', "b": [1, 2]})
    assert line.endswith(b"}\n") and line.count(b"\n") == 1
    assert json.loads(line)["body"] == {"a": 'quote " and ünïcode', "b": [1, 2]}
    assert unseal(line, "here") == {"a": 'quote " and ünïcode', "b": [1, 2]}


def test_every_truncation_and_every_flipped_bit_is_found() -> None:
    line = seal({"epoch": 7})
    broken = [line[:end] for end in range(len(line))] + [line + b"x", line[1:]]
    for at in range(len(line)):
        broken += [line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :] for bit in range(8)]
    for data in broken:
        with pytest.raises(CorruptData, match="here fails its hash"):
            unseal(data, "here")


def test_a_torn_end_is_dropped() -> None:
    lines = seal({"n": 1}) + seal({"n": 2})
    assert unseal_lines(lines, "file") == ([{"n": 1}, {"n": 2}], False)
    assert unseal_lines(lines[:-1], "file") == ([{"n": 1}], True)
    assert unseal_lines(lines + bytes(100), "file") == ([{"n": 1}, {"n": 2}], True)
    assert unseal_lines(lines + b"garbage\nmore\n", "file") == ([{"n": 1}, {"n": 2}], True)
    assert unseal_lines(b"", "file") == ([], False)


def test_a_bad_line_before_a_good_one_is_damage() -> None:
    data = seal({"n": 1}) + b"damage\n" + seal({"n": 3})
    with pytest.raises(CorruptData, match="file, line 2 of 3 fails its hash"):
        unseal_lines(data, "file")
