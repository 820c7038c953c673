"""Memory that a host's threads have freed is the system's again."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from perseid.host.allocators import sparing

USE_AND_FREE = """
import threading
import numpy as np
from perseid.host.allocators import sparing

def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) << 10

def use(gate):
    pieces = [np.ones(int(n)) for n in np.random.default_rng(1).integers(10_000, 400_000, 30)]
    del pieces
    gate.wait()  # all threads are there at once: none uses what another has freed

with sparing():
    before = resident()
    gate = threading.Barrier(9)
    threads = [threading.Thread(target=use, args=(gate,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.wait()
    for thread in threads:
        thread.join()
    print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for what is resident")
def test_what_threads_have_freed_is_not_kept() -> None:
    ran = subprocess.run([sys.executable, "-c", USE_AND_FREE], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 20_000_000  # of 8 times 50 MB; 40 to 90 MB are kept otherwise


USE_AGAIN = """
import resource
import numpy as np
from perseid.host.allocators import sparing

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        np.ones(130_000)  # a megabyte: 254 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with sparing():
    within = faults()
print(within, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for page faults")
def test_a_worker_that_was_a_host_uses_its_memory_again() -> None:
    """Else tasks that Spark runs in it later pay for every page of every large piece."""
    ran = subprocess.run([sys.executable, "-c", USE_AGAIN], capture_output=True, text=True, check=True)
    within, afterwards = map(int, ran.stdout.split())
    assert within > 200 * 200, "a host gives every piece back"
    assert afterwards < 2 * 254


def test_the_collector_is_as_it_was_afterwards() -> None:
    usual = gc.get_threshold()
    with sparing():
        assert gc.get_threshold() != usual
    assert gc.get_threshold() == usual
    gc.unfreeze()


def test_a_worker_that_was_a_host_does_not_look_for_garbage_among_its_modules_after_every_task() -> None:
    with sparing():
        cycle: list[object] = []
        cycle.append(cycle)
        garbage = weakref.ref(type("Garbage", (), {"cycle": cycle}))
        del cycle
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    assert frozen > 10_000
    assert garbage() is None, "what the host left behind was collected before"
