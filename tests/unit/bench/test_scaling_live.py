from pathlib import Path

import pytest

from perseid.bench.scaling.live import cut_short


@pytest.mark.parametrize(
    ("offsets", "commits", "cut"), [((), (), False), ((0,), (), True), ((9, 10), (9, 10), False), ((9, 10), (9,), True)]
)
def test_a_query_is_cut_short_when_its_last_batch_is_not_committed(
    tmp_path: Path, offsets: tuple[int, ...], commits: tuple[int, ...], cut: bool
) -> None:
    for name, batches in (("offsets", offsets), ("commits", commits)):
        (tmp_path / name).mkdir()
        for batch in batches:
            (tmp_path / name / str(batch)).touch()
            (tmp_path / name / f".{batch}.crc").touch()
    assert cut_short(tmp_path) is cut
