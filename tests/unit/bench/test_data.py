import pyarrow.parquet as pq

from perseid.bench.measuring import data
from perseid.bench.measuring.sizes import KEYS


def test_a_hundred_thousand_rows_have_every_key_once():
    assert sorted(data.keys(300_000, KEYS)) == list(range(KEYS))


def test_small_epochs_are_files_of_a_thousand_rows(tmp_path):
    files = sorted(data.small(tmp_path / "small", 6).iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [1000] * 6
    assert pq.read_table(files[0])["key"][:3].to_pylist() == data.keys(0, 3).tolist()


def test_later_epochs_are_links_to_the_first(tmp_path):
    files = sorted(data.small(tmp_path / "small", data.DIFFERENT + 1).iterdir())
    assert files[data.DIFFERENT].samefile(files[0]) and not files[1].samefile(files[0])


def test_a_slice_keeps_all_rows_of_a_tenth_of_the_keys(tmp_path):
    tables = [pq.read_table(file) for file in sorted(data.sliced(tmp_path / "slices", 1).iterdir())]
    assert sum(table.num_rows for table in tables) == 100_000
    assert max(table["key"].to_numpy().max() for table in tables) < KEYS // data.SLICE
