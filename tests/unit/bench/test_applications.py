"""The count that is measured counts right."""

from collections import Counter

import numpy as np
import pyarrow as pa

from perseid.bench.measuring.applications import CombinedCount, Count
from perseid.state.operator_state import fresh


def test_the_count_equals_an_independent_one_with_and_without_combining():
    random = np.random.default_rng(7)
    plain, combined = fresh(Count()), fresh(CombinedCount())
    expected = Counter[int]()
    for _ in range(5):
        keys = random.integers(0, 50, 200)
        expected.update(keys.tolist())
        seen, times = np.unique(keys, return_counts=True)
        order = random.permutation(len(seen))
        outputs = [
            plain.process(pa.table({"key": keys})),
            combined.process(pa.table({"key": seen[order], "n": times[order]})),
        ]
        for output in outputs:
            counted = dict(zip(output["key"].to_pylist(), output["n"].to_pylist(), strict=True))
            assert counted == {key: expected[key] for key in seen.tolist()}


def test_an_epoch_without_rows_changes_nothing():
    count = fresh(Count())
    count.process(pa.table({"key": pa.array([3, 3], pa.int64())}))
    assert count.process(pa.table({"key": pa.array([], pa.int64())})).num_rows == 0
    assert count.process(pa.table({"key": pa.array([3], pa.int64())})).to_pylist() == [{"key": 3, "n": 3}]
