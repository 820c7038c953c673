from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from perseid.cli.demo_text import Output, Writer, verdict

EXPECTED = Counter({"be": 4, "to": 3})
RIGHT = [("be", 1, 1), ("to", 3, 3), ("be", 3, 4)]


def table(rows):
    words, added, totals = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"word": pa.array(words, pa.string()), "added": pa.array(added, pa.int64()), "n": pa.array(totals, pa.int64())}
    )


def judged(rows):
    result = verdict(EXPECTED, table(rows))
    return result.lost, result.doubled, result.right


def test_a_right_output_is_right_in_any_order():
    assert judged(RIGHT) == judged(RIGHT[::-1]) == (0, 0, True)


def test_a_missing_row_is_lost():
    assert judged(RIGHT[:2]) == (3, 0, False)
    assert judged(RIGHT[1:]) == (1, 0, False)


def test_a_repeated_row_is_doubled():
    assert judged([*RIGHT, RIGHT[1]]) == (0, 3, False)


def test_an_epoch_applied_twice_is_doubled():
    assert judged([*RIGHT, ("to", 3, 6)]) == (0, 3, False)


def test_a_loss_and_a_doubling_do_not_hide_each_other():
    assert judged([("be", 3, 4), ("be", 3, 4), ("to", 3, 3)]) == (1, 3, False)


def test_words_that_never_were_are_doubled():
    assert judged([*RIGHT, ("or", 2, 2)]) == (0, 2, False)


def test_no_output_at_all_is_all_lost():
    assert judged([]) == (7, 0, False)


def test_output_leaves_out_what_is_not_committed(tmp_path):
    for name in ("epoch=1/a.parquet", "_tmp/b.parquet", "epoch=2/.c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table(RIGHT), tmp_path / name)
    output = Output(tmp_path)
    assert output.words_counted() == output.words_counted() == 7
    assert output.table().num_rows == 3


def test_the_writer_counts_what_it_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("perseid.cli.demo_text.FILE_EVERY_S", 0.01)
    writer = Writer(tmp_path, seed=1)
    writer.start()
    while writer.lines < 3000:
        writer.join(0.02)
    writer.finish()
    files = sorted(tmp_path.iterdir())
    assert all(file.suffix == ".txt" for file in files)
    text = [line for file in files for line in file.read_text().splitlines()]
    assert len(text) == writer.lines
    assert Counter(word for line in text for word in line.split(" ")) == writer.counts
