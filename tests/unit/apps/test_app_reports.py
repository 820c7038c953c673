"""Graphs that build, reports that add up, and traces of others as rows."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from perseid.apps import bcp, signalguru, tmi
from perseid.apps.catalogue import CATALOGUE
from perseid.apps.results import Report
from perseid.apps.tmi.traces import write_traces


def committed(folder: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Rows as a parquet sink leaves them, in two epochs."""
    table = pa.Table.from_pylist([*rows])
    for epoch, part in ((9, table.slice(0, 1)), (10, table.slice(1))):
        (folder / f"epoch={epoch}").mkdir(parents=True)
        pq.write_table(part, folder / f"epoch={epoch}" / "part-0.parquet")


def text(report: Report) -> str:
    out = io.StringIO()
    report.show(Console(file=out, width=120))
    return out.getvalue()


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_application_is_a_graph_of_several_units(name: str, tmp_path: Path) -> None:
    graph = CATALOGUE[name].build(windows=1, output=tmp_path).graph
    assert len(graph.units) >= 2
    assert CATALOGUE[name].epoch_rows(scale=0.01, minutes=10) > 0


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_report_of_nothing_says_so(name: str, tmp_path: Path) -> None:
    assert "yet" in text(CATALOGUE[name].report(tmp_path))


def test_tmi_tells_how_many_modes_are_right(tmp_path: Path) -> None:
    row = {"pool": 0, "window_ms": 0, "phone": 1, "mode": "bus", "speed": 1.0, "reports": 9, "truth": "bus"}
    committed(tmp_path / "modes", [row, {**row, "truth": "driving"}, {**row, "truth": None}])
    report = tmi.report(tmp_path)
    assert report.numbers == {"windows": 1.0, "inferred": 3.0, "accuracy": 0.5}
    assert "50.0% of 2 labelled ones are right" in text(report)


def test_bcp_tells_how_far_off_it_was(tmp_path: Path) -> None:
    count = {"line": 0, "place": 0, "at_ms": 0, "bus": None, "onboard": None, "counted": 3, "truth": 3}
    committed(tmp_path / "counts", [count, {**count, "counted": 5}])
    told = {"line": 0, "place": 1, "bus": 1, "at_ms": 0, "ahead": 1, "predicted": 9.0, "unchanged": 4, "actual": 10}
    committed(tmp_path / "forecasts", [told, {**told, "actual": None}])
    numbers = bcp.report(tmp_path).numbers
    assert (numbers["count_exact"], numbers["count_error"]) == (0.5, 1.0)
    assert (numbers["forecast_error"], numbers["unchanged_error"]) == (1.0, 6.0)


def test_signalguru_tells_how_far_off_it_was(tmp_path: Path) -> None:
    vote = {"intersection": 0, "at_ms": 0, "colour": 1, "truth": 1, "next_ms": 0}
    committed(tmp_path / "colours", [vote, vote])
    told = {"intersection": 0, "at_ms": 0, "colour": 1, "predicted_ms": 1500, "usual_ms": 3000, "model": "svm"}
    committed(tmp_path / "predictions", [{**told, "actual_ms": 1000}, {**told, "actual_ms": None}])
    numbers = signalguru.report(tmp_path).numbers
    assert (numbers["colour_accuracy"], numbers["predictions"]) == (1.0, 1.0)
    assert (numbers["svm_error_s"], numbers["usual_error_s"]) == (0.5, 2.0)


def test_signalguru_tells_when_the_svm_has_not_learned_yet(tmp_path: Path) -> None:
    told = {"intersection": 0, "at_ms": 0, "colour": 1, "predicted_ms": 1500, "usual_ms": 1500, "model": "mean"}
    committed(tmp_path / "predictions", [{**told, "actual_ms": 1000}, {**told, "actual_ms": None}])
    assert "an SVM needs more cycles" in text(signalguru.report(tmp_path))


def test_traces_become_a_file_a_minute_and_a_clock(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    lines = [f"1970-01-01 00:0{minute}:30.000000000,{minute}.5,2.0,OnFoot" for minute in range(3)]
    (tmp_path / "traces" / "a.csv").write_text("\n".join(["timestamp,x,y,groundtruth", *lines]))
    assert write_traces(tmp_path / "traces", tmp_path / "in") == 1
    files = sorted((tmp_path / "in").iterdir())
    assert [file.name for file in files[:3]] == ["000000.parquet", "000001.parquet", "000002.parquet"]
    assert pq.read_table(files[1]).to_pylist() == [
        {"phone": 0, "at_ms": 90_000, "x": 1.5, "y": 2.0, "truth": "walking"}
    ]
    assert len(files) == 6
