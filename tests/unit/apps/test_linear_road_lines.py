"""Linear Road's lines, feeds, key tables and the splitting of state (S7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from linear_road_pieces import answers, chain, report, table_of

from perseid.apps.linear_road import generate, key_table
from perseid.apps.linear_road.accounts import split_accounts
from perseid.apps.linear_road.calculator import TollCalculator, split_cars
from perseid.apps.linear_road.feed import Feed, cut, feed_of
from perseid.apps.linear_road.lines import parse
from perseid.apps.linear_road.oracle import Oracle
from perseid.apps.linear_road.traffic import merge_traffic, split_traffic
from perseid.errors import SettingsError
from perseid.state.operator_state import fresh
from perseid.state.partition import Part
from perseid.vocabulary import Offset

GOOD = report(1, 7, 5)
BAD = [
    "rubbish",
    "0,1,7",
    GOOD + ",1",
    GOOD.replace("7", "seven", 1),
    GOOD.replace("0,1,7,30", "0,1,7,3.5"),
    report(1, 7, 100),
    report(1, 7, 5, lane=5),
    report(1, 7, 5, dir=2),
    report(-1, 7, 5, pos=1),
    report(1, -7, 5),
    GOOD.replace("0,1", "5,1", 1),
    report(1, 99_999_999_999, 5),
]


@pytest.mark.parametrize("line", BAD)
def test_a_malformed_line_is_put_aside_alone(line: str) -> None:
    table, aside = parse("\n".join([GOOD, line, GOOD]).encode())
    assert (table.num_rows, aside) == (2, [line])
    oracle = Oracle()
    oracle.line(line)
    assert oracle.answers.malformed == [line]


def test_a_feed_holds_whole_seconds_and_the_history_first(tmp_path: Path) -> None:
    lines = [report(second, vid, 5) for second in range(10) for vid in range(3)]
    assert cut([*lines[:7], "rubbish", *lines[7:]], tmp_path / "feed", history=["7,3,0,55"], least_rows=6) == 32
    feed = Feed(tmp_path / "feed")
    assert [(one.second, one.rows) for one in feed.slices] == [(-1, 1), (1, 6), (3, 7), (5, 6), (7, 6), (9, 6)]
    assert (feed.folder / feed.slices[0].file).read_text() == "9,0,7,-1,0,-1,-1,-1,-1,55,-1,-1,-1,-1,3\n"
    assert feed.rows(Offset(0), Offset(3)) == 14 and feed.finished(Offset(6))


def test_a_feed_keeps_the_pace_of_the_road(tmp_path: Path) -> None:
    cut([report(second, 1, 5) for second in range(10)], tmp_path / "feed", least_rows=1)
    feed = Feed(tmp_path / "feed", speed=2)
    feed.began_ms = 10_000
    assert [feed.end(Offset(2), None, 10_000 + ms) for ms in (0, 1_499, 1_500, 2_000, 60_000)] == [2, 2, 3, 4, 10]
    assert feed.end(Offset(2), 3, 60_000) == 5
    assert Feed(tmp_path / "feed").end(Offset(0), None, 0) == 10


def test_a_folder_that_is_no_feed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no feed is there"):
        Feed(tmp_path)
    with pytest.raises(SettingsError, match="found neither"):
        feed_of(tmp_path, tmp_path / "feed")


def test_the_same_seed_makes_the_same_traffic_and_its_load_rises_to_the_peak() -> None:
    traffic = generate.Traffic(xways=3, seconds=120, seed=4, first_rate=2, peak_rate=30)
    once, again = (list(generate.seconds(traffic)) for _ in range(2))
    assert all(a.equals(b) for a, b in zip(once, again, strict=True))
    reports = [int(np.count_nonzero(table["type"].to_numpy() == 0)) for table in once[1:]]
    assert reports[0] == 6 and 90 <= reports[-1] <= 100
    assert not once[40].equals(list(generate.seconds(generate.Traffic(xways=3, seconds=120, seed=5, peak_rate=30)))[40])


def test_a_key_table_finds_what_was_put_in_and_grows() -> None:
    random = np.random.default_rng(0)
    dtype = np.dtype([("key", "i8"), ("value", "i8")])
    table, fill = key_table.new_table(dtype), key_table.Fill()
    known: dict[int, None] = {}
    for _ in range(30):
        keys = random.integers(1, 5_000, 400)
        table, places = fill.put(table, keys)
        table["value"][places] = keys * 3
        known |= dict.fromkeys(keys.tolist())
    everything = np.arange(1, 6_000)
    places = key_table.find(table, everything)
    assert [key in known for key in everything.tolist()] == (places >= 0).tolist()
    assert (table["value"][places[places >= 0]] == everything[places >= 0] * 3).all()
    assert len(key_table.taken(table)) == len(known) <= len(table) // 2


def _halves(keys: Sequence[object]) -> list[int]:
    return [hash(key) % 2 for key in keys]


def test_state_that_is_split_by_road_and_merged_again_says_the_same() -> None:
    traffic = generate.Traffic(xways=3, seconds=200, first_rate=10, peak_rate=40, crash_every_s=20)
    tables = list(generate.seconds(traffic))
    one, other = tables[:150], tables[150:]
    whole, cut_up = chain(), chain()
    answers(whole, one)
    answers(cut_up, one)
    calculator, accounts = cut_up
    parts = [Part(n, 2, _halves) for n in range(2)]
    merged = fresh(TollCalculator())
    merged.cars = key_table.merged([split_cars(calculator.cars, part) for part in parts])
    merged.traffic = merge_traffic([split_traffic(calculator.traffic, part) for part in parts])
    accounts.accounts = key_table.merged([split_accounts(accounts.accounts, part) for part in parts])
    assert answers([merged, accounts], other) == answers(whole, other)


def test_an_epoch_without_rows_has_no_answers() -> None:
    empty = table_of([GOOD]).slice(0, 0)
    assert all(not lines for lines in answers(chain(), [empty]).values())
    assert isinstance(empty, pa.Table)


def test_traffic_whose_peak_lasts_longer_than_it_is_refused() -> None:
    with pytest.raises(SettingsError, match="a peak of 0 to 99 of 100 seconds, got 100"):
        generate.Traffic(seconds=100, peak_s=100)
