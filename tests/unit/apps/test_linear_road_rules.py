"""Linear Road's rules, one by one, and the operators against the oracle and against what others expect (S7)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from linear_road_pieces import SETS, answers, chain, cut, report, table_of

from perseid.apps.linear_road import generate, results
from perseid.apps.linear_road.results import of_expected, of_oracle, text_lines

CROWD = [report(30 + n // 3, 1000 + n, 5) for n in range(60)]  # 60 cars at 30 miles an hour, in the first minute
CRASH = [report(30 * n, vid, 8, spd=0, pos=43_000) for n in range(5) for vid in (1, 2)]  # found in second 90, minute 2


def same(came: results.Lines, expected: results.Lines) -> None:
    assert [str(found) for found in results.differences(came, expected) if not found.same] == []


def in_time(lines: list[str]) -> list[str]:
    return sorted(lines, key=lambda line: int(line.split(",")[1]))


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("seconds", [60, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 10_000))])
def test_the_operators_say_what_the_reference_says_however_epochs_are_cut(data: Path, seconds: int) -> None:
    table = table_of(text_lines(data / "input.dat.gz"), text_lines(data / "tollhistory_matching.csv"))
    same(answers(chain(), cut(table, seconds)), of_expected(data))


@pytest.mark.slow
@pytest.mark.parametrize("data", SETS)
def test_the_oracle_says_what_the_reference_says(data: Path) -> None:
    said, _ = of_oracle(text_lines(data / "input.dat.gz"), text_lines(data / "tollhistory_matching.csv"))
    same(said, of_expected(data))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["plain", "seven", "recover"])
def test_the_operators_say_what_the_oracle_says_of_generated_traffic(seed: int, how: str) -> None:
    traffic = generate.Traffic(xways=2, seconds=420, seed=seed, first_rate=5, peak_rate=60, crash_every_s=40)
    tables = list(generate.seconds(traffic))
    expected, said = of_oracle(line for table in tables for line in generate.as_lines(table))
    came = answers(chain(seven=how == "seven"), [tables[0], *_by_seven(tables[1:])], recover=how == "recover")
    same(came, expected)
    assert said.toll and said.accident and said.balance and said.daily and not said.malformed


def _by_seven(tables: list[pa.Table]) -> list[pa.Table]:
    return [pa.concat_tables(tables[start : start + 7]) for start in range(0, len(tables), 7)]


def test_a_crowded_slow_segment_costs_a_toll_that_is_charged_on_leaving() -> None:
    asks = ["2,61,7,-1,-1,-1,-1,-1,-1,1" + ",-1" * 5, "2,95,7,-1,-1,-1,-1,-1,-1,2" + ",-1" * 5]
    lines = in_time([*CROWD, report(60, 7, 5), report(90, 7, 6), *asks])
    said = answers(chain(), cut(table_of(lines), 10_000))
    assert said["toll"]["7,60,30,200"] == 1  # 2 * (60 - 50) ** 2
    assert set(said["balance"]) == {"61,1,0", "95,2,200"}
    same(said, of_oracle(lines)[0])


@pytest.mark.parametrize(
    ("minute", "dir", "seg", "told"),
    [(2, 0, 8, False), (3, 0, 8, True), (3, 0, 4, True), (3, 0, 3, False), (3, 0, 9, False)],
)
def test_an_accident_is_announced_from_the_next_minute_on_and_four_segments_back(
    minute: int, dir: int, seg: int, told: bool
) -> None:
    lines = in_time([*CRASH, report(minute * 60 - 1, 9, seg)])
    said = answers(chain(), cut(table_of(lines), 1))
    assert said["accident"] == ({f"{minute * 60 - 1},0,8,0,9": 1} if told else {})
    same(said, of_oracle(lines)[0])


def test_an_accident_is_over_the_minute_after_a_car_has_moved() -> None:
    lines = in_time([*CRASH, report(150, 1, 9), report(179, 9, 8), report(180, 10, 8)])
    said = answers(chain(), cut(table_of(lines), 10_000))
    assert [line for line in said["accident"] if line.endswith((",9", ",10"))] == ["179,0,8,0,9"]
    same(said, of_oracle(lines)[0])


def test_a_car_on_the_exit_lane_is_charged_but_not_told_and_then_ignored() -> None:
    lines = in_time(
        [
            *CROWD,
            report(60, 7, 5),
            report(90, 7, 6, lane=4),
            report(120, 7, 7),
            "2,121,7" + ",-1" * 6 + ",1" + ",-1" * 5,
        ]
    )
    said = answers(chain(), cut(table_of(lines), 10_000))
    assert [line for line in said["toll"] if line.startswith("7,")] == ["7,60,30,200"]
    assert set(said["balance"]) == {"121,1,200"}


def test_random_reports_that_break_every_habit_of_cars_are_answered_like_the_oracle() -> None:
    random = np.random.default_rng(5)
    lines = []
    for second in range(400):
        for vid in random.choice(40, 6, replace=False):
            lane, seg, spd = int(random.integers(0, 5)), int(random.integers(5, 8)), int(random.integers(0, 60))
            lines.append(
                report(second, vid, seg, spd=spd, lane=lane, pos=seg * 5280 if random.random() < 0.8 else None)
            )
        lines = [
            line for line in lines if int(line.split(",")[1]) != second or second % 30 == int(line.split(",")[2]) % 30
        ]
        lines.append(f"2,{second},{second % 40}" + ",-1" * 6 + f",{second}" + ",-1" * 5)
    for seconds in (1, 13, 1000):
        same(answers(chain(), cut(table_of(lines), seconds)), of_oracle(lines)[0])
