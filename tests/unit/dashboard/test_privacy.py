"""Values of rows do not reach the page unless they may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perseid.cli.roots import existing_root
from perseid.dashboard import views
from perseid.dashboard.watched import WatchedRoot
from recorded import lines, root_with

SECRET = "anna@example.org"
AT = {"at_ms": 9_999_999_999_999, "generation": 1}
TELLING: list[dict[str, Any]] = [
    {"kind": "hot_key", "operator": "count", "key": f"'{SECRET}'", "share": 0.5},
    {"kind": "malformed_lines", "source": "in", "epoch": 3, "lines": 2, "files": [SECRET], "first": SECRET},
    {"kind": "operator_failed", "operator": "count", "shard": 1, "epoch": 3, "error": f"ValueError: bad row {SECRET}"},
    {"kind": "epoch_failed", "unit": "a", "attempt": 1, "epoch": 3, "error": f"operator 'count': KeyError: {SECRET}\n{SECRET}"},
    {"kind": "dead_letters", "operator": "count", "shard": 1, "epoch": 3, "rows": 2, "timers": 0, "error": SECRET},
    {"kind": "warning", "message": f"key {SECRET} has no slot"},
    {"kind": "recovery_started", "reason": f"epoch 3: ValueError:\n{SECRET}", "mode": "shards", "shards": [], "checkpoint": 1},
    {"kind": "app_stopped", "reason": f"operator 'count': ValueError: {SECRET}", "unsaved": None},
]  # fmt: skip


def shown(root: WatchedRoot) -> str:
    root.look()
    return root.shown(
        lambda p: json.dumps([views.overview(p, "held"), [views.incident(i) for i in p.incidents.values()]])
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_rows_are_shown_only_where_allowed(tmp_path: Path, allowed: bool) -> None:
    more = [json.dumps({"seq": 10_000 + n, **AT, **record}).encode() + b"\n" for n, record in enumerate(TELLING)]
    root = existing_root(root_with(tmp_path, [*lines("units")[:-1], *more]))
    text = shown(WatchedRoot(root, rows=allowed))
    assert (SECRET in text) == allowed
    if not allowed:
        assert "ValueError" in text and "#1" in text
