"""What the applications are made of: repeatable chance, growing arrays, pictures in columns."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from perseid.apps.bcp.counting import median_of_five
from perseid.apps.chance import grain, mixed, normal, uniform
from perseid.apps.growing import Growing
from perseid.apps.pictures import column_of, pictures_of
from perseid.errors import OperatorFailed


def test_chance_depends_on_seed_and_ids_only():
    ids = np.arange(1000)
    assert (uniform(3, ids, 1) == uniform(3, ids[::-1], 1)[::-1]).all()
    assert (mixed(3, ids, 1) != mixed(4, ids, 1)).all()
    assert (grain(3, ids, 100)[500:] == grain(3, ids[500:], 100)).all()


def test_chance_looks_random():
    ids = np.arange(100_000)
    assert abs(uniform(1, ids).mean() - 0.5) < 0.01
    assert abs(normal(1, ids).mean()) < 0.02
    assert abs(normal(1, ids).std() - 1.0) < 0.02
    assert abs(grain(1, ids[:100], 1000).mean() - 127.5) < 1.0


def test_a_growing_array_is_pickled_without_its_room():
    growing = Growing(np.uint8, (10, 10))
    for n in range(7):
        growing.append(np.full((3, 10, 10), n, np.uint8))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(growing, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == growing.nbytes == 2100
    again = pickle.loads(data, buffers=[bytearray(buffer.raw()) for buffer in buffers])
    assert (again.rows == growing.rows).all()
    again.append(np.zeros((1, 10, 10), np.uint8))
    assert len(again) == 22


def test_pictures_go_into_a_column_and_back():
    pictures = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    column = column_of(pictures)
    assert column.to_pylist()[2] == pictures[2].tobytes()
    assert (pictures_of(column.slice(1, 3), (4, 3)) == pictures[1:4]).all()
    assert (pictures_of(pa.chunked_array([column, column]), (4, 3)) == np.concatenate([pictures, pictures])).all()
    assert pictures_of(column.slice(0, 0), (4, 3)).shape == (0, 4, 3)


def test_a_picture_of_another_size_is_refused():
    with pytest.raises(OperatorFailed, match="a picture has 3 bytes; expected 12"):
        pictures_of(pa.array([b"abc"]), (4, 3))


def test_the_median_of_five_is_the_median():
    pictures = grain(5, np.arange(50), 5 * 6).reshape(50, 5, 6)
    assert (median_of_five(pictures) == np.median(pictures, axis=1)).all()
