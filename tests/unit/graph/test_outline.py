"""The graph as the journal tells it and pages show it."""

from __future__ import annotations

from graph_pieces import Count, Lines, Nowhere

from perseid import App
from perseid.graph.outline import outline


def test_every_node_says_what_it_is_and_an_operator_which_standby_it_has() -> None:
    app = App("words")
    words = app.source("lines", Lines()).transform("split", lambda df: df)
    for name, standby in (("count", "hybrid"), ("plain", "none")):
        counts = words.stateful(name, Count(), key="word", output="word string, n long", standby=standby)
        counts.sink(f"{name}-out", Nowhere())
    told = {node["name"]: node for node in outline(app.graph)}
    assert told["count"] == {
        "name": "count", "kind": "operator", "unit": "main", "inputs": ["split"], "what": "Count", "key": ["word"],
        "standby": "hybrid",
    }  # fmt: skip
    assert "standby" not in told["plain"] and told["lines"]["what"] == "lines"
    assert told["count-out"]["inputs"] == ["count"]
