"""``perseid inspect`` and ``perseid top`` show hosts with their copies, how far these are behind, and switches with their reason."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from perseid.cli.main import app

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))
sys.path.insert(0, str(Path(__file__).parents[2] / "recorded"))

import written

from perseid.vocabulary import HostId
from recorded import root_with

ONE, THREE = HostId(1), HostId(3)


def said(tmp_path: Path, tell: Callable[[written.Run], None], *arguments: str) -> str:
    lines = [json.dumps({"seq": n, **record}).encode() + b"\n" for n, record in enumerate(written.records(tell), 1)]
    root = root_with(tmp_path / arguments[-1], lines)
    result = CliRunner().invoke(app, [arguments[0], root, *arguments[1:]], env={"COLUMNS": "180"})
    assert result.exit_code == 0, result.output
    return result.stdout


def facts(tmp_path: Path, tell: Callable[[written.Run], None]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(tmp_path, tell, "inspect", "--json"))
    return found


def switched(run: written.Run) -> None:
    run.start()
    run.say(written.notices.StandbyChanged(written.COUNT, "hybrid"))
    run.guard(ONE, THREE)
    run.epochs(3)
    run.refresh(ONE, THREE)
    run.switch(ONE, THREE)
    run.epochs(2)


def test_a_host_is_told_with_its_copy_who_answers_and_how_far_the_copy_is_behind(tmp_path: Path) -> None:
    told = facts(tmp_path, switched)
    one, two, three, four = told["hosts"]
    assert (one["shards"], one["copy"], one["standby"], one["answering"]) == (["count/0", "count/1"], 3, "switched", 3)
    assert (one["behind"], one["switches"], one["reason"]) == (3, 1, "a heartbeat was missed")
    assert (two["standby"], three["copies_of"], four["shards"]) == ("", [1], [])
    assert (told["switches"]["to_copy"], told["switches"]["back"], told["switches"]["for_good"]) == (1, 0, 0)


def test_it_is_told_to_people(tmp_path: Path) -> None:
    text = " ".join(said(tmp_path, switched, "inspect").split())
    assert "1 count/0 count/1 host 3 host 3 answers: a heartbeat was missed 3 epochs" in text
    assert "3 copy of host 1" in text and "4 spare" in text
    assert "switches 1 to a copy, 0 back, 0 for good; last at" in text and "host 3 answers instead of host 1" in text


def test_top_tells_the_newest_switch_and_why(tmp_path: Path) -> None:
    text = " ".join(said(tmp_path, written.Run.standby_run, "top", "--once").split())
    assert "switches 2 to a copy, 1 back, 1 for good; last at" in text
    assert "host 1 is replaced for good by host 3: silent for 20 s" in text


def test_where_no_operator_has_a_standby_hosts_are_told_without_it(tmp_path: Path) -> None:
    told = facts(tmp_path, written.Run.start)
    assert [host["standby"] for host in told["hosts"]] == [""] * 4 and told["switches"] is None
    text = said(tmp_path, written.Run.start, "inspect")
    assert "count/0 count/1" in text and "copy on" not in text and "switches" not in text
