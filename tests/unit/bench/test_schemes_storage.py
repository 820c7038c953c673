"""Where roots lie in the meteor benchmark."""

import os
import subprocess
import sys

import pytest

from perseid.bench.schemes.storage import storage
from perseid.errors import SettingsError


def test_the_disk_as_it_is_is_just_a_folder(tmp_path):
    with storage("disk", tmp_path) as place:
        place.join()
        assert (place.folder, place.about) == (tmp_path, "disk as it is")
        assert not place.limit(40e6)


def test_an_unknown_storage_is_named_with_those_there_are(tmp_path):
    with pytest.raises(SettingsError, match="--storage tape: expected one of paper, disk"), storage("tape", tmp_path):
        pass


def test_where_none_can_be_made_it_says_what_it_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="--storage disk takes the disk as it is"), storage("paper", tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_the_kernel_limits_a_storage_as_the_papers_and_it_is_gone_afterwards(tmp_path):
    try:
        with storage("paper", tmp_path) as place:
            assert os.path.ismount(place.folder) and place.group is not None
            for bytes_per_s in (90_000_000, 40_000_000):
                assert place.limit(bytes_per_s)
                limits = (place.group / "blkio.throttle.write_bps_device").read_text()
                assert limits.split()[1] == str(bytes_per_s)
            written = f"open({str(place.folder / 'x')!r}, 'wb').write(bytes(9))"
            inside = f"import os; open({str(place.group / 'cgroup.procs')!r}, 'w').write(str(os.getpid())); {written}"
            subprocess.run([sys.executable, "-c", inside], check=True)
            assert (place.folder / "x").stat().st_size == 9
    except SettingsError as error:
        pytest.skip(str(error))
    assert not os.path.ismount(tmp_path / "storage") and not place.group.exists()
