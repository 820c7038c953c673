"""The shape of an operator's state: what a snapshot says of the fields in it, so that later code can tell what has changed.

Every field has a name, the type it was declared with, its default and the class of that default. The shape also says which
``state_version`` the code had. It is JSON in the snapshot's header and in the root's fingerprint, and is compared there
without reading state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perseid.state.fields import MISSING, StateField, fields_of

Fields = dict[str, Any]
_shapes: dict[type, StateShape] = {}  # of classes, which do not change


@dataclass(frozen=True, slots=True)
class Migration:
    """Made by ``migrate``: how fields of one version become those of the next."""

    from_version: int
    function: Callable[[Fields], Fields]

    def __call__(self, fields: Fields) -> Fields:
        return self.function(fields)


def migrate(*, from_version: int) -> Callable[[Callable[[Fields], Fields]], Migration]:
    """Say how the fields of an earlier ``state_version`` become those of the next one.

        class Total(Operator):
            state_version = 2
            cents: int = state(default=0)

            @migrate(from_version=1)
            def in_cents(fields):
                return {"cents": round(fields["euros"] * 100)}

    The function gets the fields as a dict and gives those of the next version back; of a ``KeyedOperator`` those of one key. Several are
    run one after the other. It is run when state is restored, so it must give the same whenever it is run.
    """
    return lambda function: Migration(from_version, function)


@dataclass(frozen=True, slots=True)
class FieldShape:
    """What is known of a field without its values."""

    type: str  # as declared; empty if it was not
    default: str
    of: str  # module and class of the default
    was: str | None = None  # its name of before, if the code says one


@dataclass(frozen=True, slots=True)
class StateShape:
    """The fields of an operator class, and its ``state_version``."""

    operator: str  # module and class
    version: int
    fields: Mapping[str, FieldShape]
    migrations: tuple[int, ...] = ()  # the versions from which the code has one

    def to_json(self) -> dict[str, Any]:
        fields = {
            n: {"type": f.type, "default": f.default, "class": f.of, "was": f.was} for n, f in self.fields.items()
        }
        return {"class": self.operator, "version": self.version, "fields": fields, "migrations": list(self.migrations)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StateShape:
        fields = {n: FieldShape(f["type"], f["default"], f["class"], f["was"]) for n, f in data["fields"].items()}
        return cls(data["class"], int(data["version"]), fields, tuple(data["migrations"]))


def shape_of(cls: type) -> StateShape:
    """The shape that the code declares."""
    found = _shapes.get(cls)
    if found is None:
        found = _shapes[cls] = _shape_of(cls)
    return found


def _shape_of(cls: type) -> StateShape:
    fields = {name: _field_shape(cls, name, field) for name, field in fields_of(cls).items()}
    return StateShape(f"{cls.__module__}:{cls.__qualname__}", version_of(cls), fields, tuple(migrations_of(cls)))


def version_of(cls: type) -> int:
    """The class's ``state_version``; 1 where it says none."""
    return int(getattr(cls, "state_version", 1))


def migrations_of(cls: type) -> dict[int, Migration]:
    """By the version they begin with."""
    found = [value for base in reversed(cls.__mro__) for value in vars(base).values() if isinstance(value, Migration)]
    return {migration.from_version: migration for migration in found}


def _field_shape(cls: type, name: str, field: StateField) -> FieldShape:
    annotation = next((a[name] for base in cls.__mro__ if name in (a := inspect.get_annotations(base))), "")
    declared = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    made_by = field.default_factory
    initial = type(field.default) if field.default is not MISSING else made_by if isinstance(made_by, type) else None
    default = repr(field.default)[:100] if made_by is None else f"{getattr(made_by, '__qualname__', 'a function')}()"
    return FieldShape(
        declared, default, "" if initial is None else f"{initial.__module__}:{initial.__qualname__}", field.was
    )
