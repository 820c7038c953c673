"""Classes that state was written with and that have another name now, and attributes that their objects did not have then.

Snapshots name the classes of values by module and name. ``moved`` says where such a class is now. An object of a dataclass that was written
before the class got a new attribute gets that attribute's default when it is read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from perseid.errors import GraphError

AnyClass = TypeVar("AnyClass", bound=type)
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_moved: dict[str, type] = {}
_complete: set[type] = set()  # dataclasses whose objects are looked at when they are read


def moved(old: str, cls: AnyClass) -> AnyClass:
    """Say where a class is that state was written with: ``perseid.moved("old.module:Account", Account)``.

    Write it at the top level of the application's file. It is for classes of values in the state and for operators; gives the class back.
    """
    if not isinstance(old, str) or not _PATH.fullmatch(old):
        raise GraphError(f"moved({old!r}, …): expected the module and the name of before, such as 'old.module:Class'")
    if not isinstance(cls, type):
        raise GraphError(f"moved({old!r}, {cls!r:.80}): expected a class")
    _moved[old] = cls
    return cls


def moved_classes() -> Mapping[str, type]:
    """All that this process was told, by the path of before."""
    return dict(_moved)


def learn_moved(classes: Mapping[str, type]) -> None:
    """What another process was told."""
    _moved.update(classes)


def paths_before(cls: type) -> tuple[str, ...]:
    """The paths that a class had."""
    return tuple(old for old, now in _moved.items() if now is cls)


def found_moved(module: str, qualname: str) -> type | None:
    """The class that had this name."""
    return _moved.get(f"{module}:{qualname}")


def completed(cls: Any) -> Any:
    """The class; if it is a dataclass, objects that are read from now on get the defaults of attributes they lack."""
    if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls not in _complete:
        _complete.add(cls)
        defaults = [f for f in dataclasses.fields(cls) if f.default_factory is not dataclasses.MISSING]
        slotted = "__slots__" in vars(cls)
        if defaults or slotted:
            _complete_when_read(cls, slotted)
    return cls


def _complete_when_read(cls: Any, slotted: bool) -> None:
    """A plain default is the class's attribute already; one that is made anew, or has a slot, is not."""
    before = getattr(cls, "__setstate__", None)
    fields = dataclasses.fields(cls)

    def __setstate__(self: Any, state: Any) -> None:
        if before is not None:
            before(self, state)
        elif isinstance(state, tuple) and len(state) == 2:  # of an object with slots
            for part in state:
                for name, value in (part or {}).items():
                    object.__setattr__(self, name, value)
        else:
            self.__dict__.update(state)
        for field in fields:
            if not (hasattr(self, field.name) if slotted else field.name in self.__dict__):
                if field.default is not dataclasses.MISSING:
                    object.__setattr__(self, field.name, field.default)
                elif field.default_factory is not dataclasses.MISSING:
                    object.__setattr__(self, field.name, field.default_factory())

    cls.__setstate__ = __setstate__
