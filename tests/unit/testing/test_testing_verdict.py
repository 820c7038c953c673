"""Chaos without its processes: the verdict, the plan drawn by chance, the epochs handed to the twin."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perseid import every
from perseid.errors import FaultError
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted, Committed
from perseid.storage.store import Store
from perseid.testing.admissions import Admissions
from perseid.testing.chance import random_plan
from perseid.testing.faults import KINDS, Kill, kind_of
from perseid.testing.verdict import Verdict, epochs_in, judge
from perseid.vocabulary import Epoch, UnitName


def rows(*said: str) -> Counter[str]:
    return Counter(said)


def test_equal_outputs_are_right():
    same = {1: rows("a", "a"), 2: rows()}
    assert judge(same, {1: rows("a", "a")}) == Verdict(rows=2)
    assert judge(same, same).right


@pytest.mark.parametrize(
    ("got", "lost", "doubled", "wrong"),
    [
        (rows("a", "b"), 1, 0, 0),
        (rows("a", "b", "c", "c"), 0, 1, 0),
        (rows("a", "b", "x"), 0, 0, 1),
        (rows("a", "x", "x"), 0, 0, 2),
        (rows("a", "a", "x"), 1, 1, 1),
        (rows(), 3, 0, 0),
    ],
)
def test_what_differs_is_lost_doubled_or_wrong(got, lost, doubled, wrong):
    verdict = judge({4: rows("a", "b", "c")}, {4: got})
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (lost, doubled, wrong)
    assert not verdict.right and all(example.startswith("epoch 4: ") for example in verdict.examples)


def test_a_row_in_another_epoch_than_it_should_be_is_both_lost_and_wrong():
    verdict = judge({1: rows("a"), 2: rows()}, {1: rows(), 2: rows("a")})
    assert (verdict.lost, verdict.wrong) == (1, 1)


def test_outputs_are_read_as_they_lie(tmp_path):
    for name in ("epoch=1", "epoch=2", "_staging"):
        (tmp_path / name).mkdir()
    table = pa.table({"b": [1, 1], "a": ["x", "x"]})
    pq.write_table(table, tmp_path / "epoch=1" / "part-0.parquet")
    (tmp_path / "epoch=1" / "_perseid.json").write_text("{}")
    (tmp_path / "epoch=2" / "part-0.json").write_text('{"b": 1, "a": "x"}\n')
    row = json.dumps({"a": "x", "b": 1})
    assert epochs_in(tmp_path) == {1: rows(row, row), 2: rows(row)}
    assert epochs_in(tmp_path / "nowhere") == {}


def test_chance_is_decided_by_its_seed_and_hits_everything():
    plan = random_plan(7, 300, cluster=True, small_root=True)
    assert (
        plan == random_plan(7, 300, cluster=True, small_root=True) != random_plan(8, 300, cluster=True, small_root=True)
    )
    assert {kind_of(step.fault) for step in plan} == set(KINDS)
    assert plan.steps[0].fault == Kill(host="any") and plan.steps[1].at.recovery == 1
    alone = random_plan(7, 300, cluster=False, small_root=False)
    assert not any(isinstance(step.fault, Kill) and step.fault.executor is not None for step in alone)
    assert not any(getattr(step.fault, "how", "") == "full" for step in alone)


@pytest.fixture
def ledger(tmp_path):
    store = Store.at(str(tmp_path / "root"))
    lease = Lease.acquire(store, owner="test", now_ms=lambda: 1, timeout=every(seconds=10))
    return Ledger.open(store, lease)


def admitted(*epochs: int) -> list[Admitted]:
    return [Admitted(n, 100 * n, {"numbers": (10 * n - 10, 10 * n)}) for n in epochs]  # type: ignore[arg-type,dict-item]


def test_the_twin_gets_the_same_epochs_and_none_is_done(tmp_path, ledger):
    admissions = Admissions(str(tmp_path / "root"))
    admissions.look()
    assert not admissions.epochs
    ledger.append(*admitted(1, 2), Committed(Epoch(1), UnitName("main")), Committed(Epoch(2), UnitName("main")))
    admissions.look()
    ledger.trim(2)
    ledger.append(*admitted(3))
    admissions.look()
    admissions.look()
    assert admissions.ends == {"numbers": 30}
    (tmp_path / "root" / "sources" / "numbers").mkdir(parents=True)
    (tmp_path / "root" / "sources" / "numbers" / "log").write_text("seen")
    admissions.twin(str(tmp_path / "twin"))
    twin = Ledger.view(Store.at(str(tmp_path / "twin")))
    assert [twin.admitted(Epoch(n)) for n in (1, 2, 3)] == admitted(1, 2, 3)
    assert (twin.last_admitted, twin.committed(UnitName("main"))) == (3, 0)
    assert (tmp_path / "twin" / "sources" / "numbers" / "log").read_text() == "seen"


def test_admissions_that_were_trimmed_unseen_are_named(tmp_path, ledger):
    ledger.append(*admitted(1, 2), Committed(Epoch(1), UnitName("main")), Committed(Epoch(2), UnitName("main")))
    ledger.trim(1)
    admissions = Admissions(str(tmp_path / "root"))
    admissions.look()
    with pytest.raises(FaultError, match="epoch 1 was trimmed"):
        admissions.twin(str(tmp_path / "twin"))
