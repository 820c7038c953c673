"""A task takes the rows of one shard, proven by its one seed row, and nothing else."""

import numpy as np
import pyarrow as pa
import pytest

from perseid.channel.packed_layout import SEED_BIT, layout_of, word_column
from perseid.channel.rows import SHARD
from perseid.spark.shard_rows import Misplaced, of_one_shard

LAYOUT = layout_of({"a": 32, "b": 8, "c": 8})
SEED = SEED_BIT


def plain(*numbers):
    return pa.record_batch({SHARD: pa.array(numbers, pa.int32()), "n": pa.array(range(len(numbers)), pa.int64())})


def packed(*numbers):
    assert LAYOUT is not None
    place = LAYOUT.places[SHARD]
    words = {word_column(n): np.zeros(len(numbers), np.int64) for n in range(LAYOUT.words)}
    words[word_column(place.word)] |= np.array(numbers, np.int64) << place.shift
    return pa.record_batch({name: pa.array(word) for name, word in words.items()})


KINDS = pytest.mark.parametrize(("batch", "layout"), [(plain, None), (packed, LAYOUT)])


@KINDS
def test_the_rows_tell_their_shard_wherever_the_seed_is(batch, layout):
    for first, second in [((3 | SEED, 3), (3, 3)), ((3, 3), (3, 3 | SEED)), ((3 | SEED,), (3, 3, 3))]:
        index, rows = of_one_shard(iter([batch(), batch(*first), batch(*second)]), layout)
        assert (index, sum(b.num_rows for b in rows)) == (3, 3)


@KINDS
def test_a_shard_without_rows_has_its_seed(batch, layout):
    index, rows = of_one_shard(iter([batch(200 | SEED)]), layout)
    assert (index, list(rows)) == (200, [])


@KINDS
@pytest.mark.parametrize(
    "numbers", [(), (1, 1), (1 | SEED, 1, 1 | SEED), (1 | SEED, 2 | SEED), (1 | SEED, 1, 2), (2, 1 | SEED, 1)]
)
def test_a_partition_that_spark_put_together_or_split_is_refused(batch, layout, numbers):
    with pytest.raises(Misplaced):
        list(of_one_shard(iter([batch(*numbers)]), layout)[1])


def test_seeds_alone_have_no_other_column():
    index, rows = of_one_shard(iter([plain(4 | SEED).select([SHARD])]), None)
    assert (index, list(rows)) == (4, [])
