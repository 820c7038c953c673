"""State goes out of a root as Parquet files, and is the beginning of another root."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from transfer_apps import Spilling, Visit, Visitors, Words, application, begun

from perseid import KeyedOperator, Operator, Spilled, every, migrate, state
from perseid.clocks import wall_ms
from perseid.errors import GraphChanged, RootError
from perseid.state.shard_state import ShardState
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Ledger
from perseid.storage.manifest import Checkpoints
from perseid.storage.persisted import persisted
from perseid.storage.store import Store
from perseid.transfer.begin_root import begin_root, stateful_node
from perseid.transfer.export_state import export_state
from perseid.transfer.import_state import exported_beginning
from perseid.transfer.read_state import SavedOperator
from perseid.vocabulary import Epoch, Offset, SourceName, UnitName

KEYS = [f"visitor {n}" for n in range(50)]
NOON = datetime.datetime(2026, 11, 19, 12, 0, tzinfo=datetime.UTC)


def visits(shard: Any, mine: Callable[[Any], bool]) -> None:
    keyed = shard._keyed
    keyed.key_types, keyed.clock_ms = ("string",), 5_000
    for n, key in enumerate(filter(mine, KEYS)):
        keyed.values[key] = (n, None if n % 3 else 0.5, ["a", "b"], Counter(a=n), Visit("p", [1.0]), NOON)
        keyed.touched[key] = 4_000 + n
        shard._timers.at_processing_time(key, 9_000 + n, name="close")


def words(shard: Any, mine: Callable[[Any], bool]) -> None:
    shard.counts = {key: n for n, key in enumerate(filter(mine, KEYS))}
    shard.seen = {key: {n, n + 1} for n, key in enumerate(filter(mine, KEYS))}
    shard.largest = 41


def states(root: Path, operator: str = "operator") -> list[ShardState]:
    store = Store.at(str(root))
    newest = next(Checkpoints(store).newest_first())
    found = [persisted(store, s.file)[1] for s in newest.shards if s.operator == operator]
    return sorted(found, key=lambda state: state.slots)


def moved(tmp_path: Path, to: Operator, **kinds: Any) -> Path:
    """The state of ``tmp_path/old`` exported, and imported for an operator of today."""
    export_state(SavedOperator.of(Store.at(str(tmp_path / "old")), "operator"), tmp_path / "state", **kinds)
    app = application(to)
    begin_root(
        str(tmp_path / "new"), app.graph, exported_beginning(tmp_path / "state", stateful_node(app.graph, "operator"))
    )
    return tmp_path / "new"


@pytest.mark.parametrize(("operator", "fill"), [(Visitors(), visits), (Words(), words)], ids=["by key", "as a whole"])
def test_what_is_imported_is_what_was_exported(tmp_path: Path, operator: Operator, fill: Any) -> None:
    begun(tmp_path / "old", application(operator), fill)
    new = moved(tmp_path, operator)
    assert [s.processing for s in states(new)] == [s.processing for s in states(tmp_path / "old")]
    assert [s.slots for s in states(new)] == [(0, 128), (128, 256)]


def test_a_dict_is_of_the_class_that_its_default_makes(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    (values, *_) = states(moved(tmp_path, Visitors()))[0].processing["keyed"]["values"].values()
    assert type(values[3]) is Counter and type(values[4]) is Visit


def test_columns_are_typed_as_the_fields_are_declared(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    moved(tmp_path, Visitors())
    table = pq.read_table(tmp_path / "state" / "values")
    assert str(table.schema.field("key").type) == "struct<id: string>"
    kinds = {f.name: str(f.type) for f in table.schema.field("value").type}
    assert kinds["n"] == "int64" and kinds["rate"] == "double" and kinds["pages"].startswith("list<")
    assert kinds["counts"].startswith("map<string, int64") and kinds["last"] == kinds["since"] == "string"
    assert table.num_rows == 50
    assert json.loads(table.column("value")[0].as_py()["last"])["$dataclass"][1] == {"page": "p", "seconds": [1.0]}


def test_spilled_state_is_written_and_read_piece_by_piece(tmp_path: Path) -> None:
    def many(shard: Any, mine: Callable[[Any], bool]) -> None:
        shard._keyed.key_types = ("string",)
        shard._keyed.values.update((f"key {n}", (n,)) for n in range(60_000) if mine(f"key {n}"))

    begun(tmp_path / "old", application(Spilling()), many)
    found = [s.processing["keyed"]["values"] for s in states(moved(tmp_path, Spilling()))]
    assert all(isinstance(values, Spilled) for values in found) and sum(map(len, found)) == 60_000
    assert {key: value for values in found for key, value in values.items()} == {
        f"key {n}": (n,) for n in range(60_000)
    }
    files = sorted((tmp_path / "state" / "values").iterdir())
    assert [pq.ParquetFile(file).metadata.num_row_groups > 1 for file in files] == [True, True]


class Evolved(KeyedOperator):
    state_version = 2
    visits: int = state(default=0)
    new: str = state(default="new")

    @migrate(from_version=1)
    def of_one(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        return {"visits": fields["n"]}

    def process_key(self, key: Any, rows: Any) -> Any:
        yield {"id": key, "n": self.visits}


def test_the_code_may_have_changed_meanwhile(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    found = [s.processing["keyed"] for s in states(moved(tmp_path, Evolved()))]
    assert found[0]["names"] == ("visits", "new")
    assert sorted(v for keyed in found for v in keyed["values"].values())[-1] == (
        max(map(len, (k["values"] for k in found))) - 1,
        "new",
    )


def test_a_field_can_be_left_out_and_begins_with_its_default(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    new = moved(tmp_path, Visitors(), without=["last", "since"])
    assert {v[4:] for s in states(new) for v in s.processing["keyed"]["values"].values()} == {(None, None)}


class Loose(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key: Any, rows: Any) -> Any:
        yield {"id": key, "n": 0}


def loosely(value: Any) -> Callable[[Any, Callable[[Any], bool]], None]:
    def fill(shard: Any, mine: Callable[[Any], bool]) -> None:
        shard._keyed.values.update(dict.fromkeys(filter(mine, KEYS), (value,)))

    return fill


def test_a_value_that_is_not_of_its_declared_type_is_named_and_can_be_text(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Loose()), loosely(("a", 2.5)))
    with pytest.raises(
        RootError, match=r"operator 'operator', shard 0, checkpoint 1: field 'n': .* is a tuple; .* --text n"
    ):
        moved(tmp_path, Loose())
    assert not (tmp_path / "state" / "export.json").exists()
    (tmp_path / "state" / "values" / "shard-00000.parquet").unlink()
    new = moved_to_another_folder(tmp_path, Loose(), text=["n"])
    assert {v for s in states(new) for v in s.processing["keyed"]["values"].values()} == {(("a", 2.5),)}


def moved_to_another_folder(tmp_path: Path, to: Operator, **kinds: Any) -> Path:
    (tmp_path / "again").mkdir()
    (tmp_path / "old").rename(tmp_path / "again" / "old")
    return moved(tmp_path / "again", to, **kinds)


class Secret:
    pass


def test_a_value_without_a_form_as_text_is_named(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Loose()), loosely(Secret()))
    with pytest.raises(RootError, match=r"field 'n': a .*Secret has no form as text; leave the field out: --without n"):
        moved(tmp_path, Loose(), text=["n"])


def test_an_export_that_was_not_finished_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    moved(tmp_path, Visitors())
    (tmp_path / "state" / "export.json").unlink()
    with pytest.raises(RootError, match=r"has no export\.json"):
        exported_beginning(tmp_path / "state", stateful_node(application(Visitors()).graph, "operator"))
    with pytest.raises(RootError, match="is not empty"):
        export_state(SavedOperator.of(Store.at(str(tmp_path / "old")), "operator"), tmp_path / "state")


def test_an_unknown_operator_checkpoint_or_field_is_told_with_those_there_are(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    store = Store.at(str(tmp_path / "old"))
    with pytest.raises(RootError, match=r"no operator 'others'; checkpoint 1 has operator"):
        SavedOperator.of(store, "others")
    with pytest.raises(RootError, match=r"no checkpoint 7; there is: 1"):
        SavedOperator.of(store, "operator", 7)
    with pytest.raises(RootError, match=r"no field 'm'; it has n, rate"):
        SavedOperator.of(store, None).tables(text=["m"])


def test_several_operators_are_imported_one_after_the_other(tmp_path: Path) -> None:
    app = application(Words(), other=Loose())
    begun(tmp_path / "root", app, words)
    begun(tmp_path / "root", app, loosely(3), operator="other")
    assert len(states(tmp_path / "root", "operator")) == 2
    (other,) = states(tmp_path / "root", "other")
    assert len(other.processing["keyed"]["values"]) == 50
    assert states(tmp_path / "root", "operator")[0].processing["fields"]["largest"] == 41


def test_the_streams_begin_after_what_was_imported(tmp_path: Path) -> None:
    begun(tmp_path / "root", application(Words()), words)
    ledger = Ledger.view(Store.at(str(tmp_path / "root")))
    assert ledger.last_admitted == ledger.trimmed_to == ledger.committed(UnitName("main")) == 1


def test_a_root_that_was_worked_on_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "root", application(Words()), words)
    store = Store.at(str(tmp_path / "root"))
    lease = Lease.acquire(store, owner="test", now_ms=wall_ms, timeout=every(seconds=1))
    Ledger.open(store, lease).append(Admitted(Epoch(2), wall_ms(), {SourceName("rows"): (Offset(0), Offset(1))}))
    lease.release()
    with pytest.raises(RootError, match="has worked on this root"):
        begun(tmp_path / "root", application(Words()), words)


def test_state_of_another_kind_of_operator_is_refused_and_nothing_is_imported(tmp_path: Path) -> None:
    begun(tmp_path / "old", application(Visitors()), visits)
    with pytest.raises(GraphChanged, match="keeps its state as a whole"):
        moved(tmp_path, Words())
    assert not list(Checkpoints(Store.at(str(tmp_path / "new"))).newest_first())
    begun(tmp_path / "new", application(Words()), words)
    assert len(states(tmp_path / "new")) == 2
