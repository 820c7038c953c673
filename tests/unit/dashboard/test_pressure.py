"""Where pressure builds: before the operator that is busiest, and in sources whose rows wait."""

from __future__ import annotations

from typing import Any

import pytest
import written

from perseid.dashboard import views
from perseid.dashboard.journal_model import JournalModel


def graph(busy_ms: float, waiting: int, admitted_more: int = 0) -> tuple[list[str], list[str]]:
    """The inputs of operators, and the sources, that are under pressure: of epochs every 400 ms that keep ``bill`` busy for so long."""

    def run(run: written.Run) -> None:
        run.start()
        run.epochs(30)

    model = JournalModel()
    records = written.records(run)
    admitted = [record for record in records if record["kind"] == "epoch_admitted"]
    last = admitted[-1]
    for record in [*records, *({**last, "epoch": last["epoch"] + n} for n in range(1, admitted_more + 1))]:
        told: dict[str, Any] = dict(record)
        if told["kind"] == "epoch_committed":
            told["operators"] = {**told["operators"], "bill": {**told["operators"]["bill"], "busy_ms": busy_ms}}
        if told["kind"] == "epoch_admitted":
            told["sources"] = {"calls": (told["sources"]["calls"][0], waiting)}
        model.take_in(told)
    seen = views.overview(model.picture, "held")["graph"]
    return (
        [f"{edge['from']} → {edge['to']}" for edge in seen["edges"] if edge["pressed"]],
        [node["name"] for node in seen["nodes"] if node.get("pressed")],
    )


@pytest.mark.parametrize(
    ("busy_ms", "waiting", "admitted_more", "edges", "sources"),
    [
        (380, 0, 0, [], []),  # busy, and it keeps up
        (380, 50_000, 0, ["count → bill"], ["calls"]),
        (380, 0, 3, ["count → bill"], []),  # epochs wait
        (20, 50_000, 0, [], ["calls"]),  # nobody is busy: it is not an operator
        (20, 300, 0, [], []),
    ],
)
def test_pressure_is_shown_before_the_busiest_operator_and_where_rows_wait(
    busy_ms: float, waiting: int, admitted_more: int, edges: list[str], sources: list[str]
) -> None:
    assert graph(busy_ms, waiting, admitted_more) == (edges, sources)
