"""Every public name says what it is for, and has types: classes, their methods and properties, functions, modules."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from public_modules import PUBLIC_MODULES

EXAMPLES = [
    ("perseid", "App"), ("perseid", "KeyedOperator"), ("perseid", "Operator"), ("perseid", "Running"), ("perseid", "Stream"),
    ("perseid", "event_time"), ("perseid", "every"), ("perseid", "spark_processor"), ("perseid", "spark_session"), ("perseid", "state"),
    ("perseid.checkpoints", "adaptive"), ("perseid.checkpoints", "parallel"), ("perseid.checkpoints", "source"),
    ("perseid.scaling", "auto"),
    ("perseid.sinks", "foreach"), ("perseid.sinks", "json"), ("perseid.sinks", "memory"), ("perseid.sinks", "parquet"),
    ("perseid.sources", "files"), ("perseid.sources", "generator"), ("perseid.sources", "open_loop"), ("perseid.sources", "stream"),
    ("perseid.sources", "table"),
    ("perseid.testing", "OperatorHarness"), ("perseid.testing", "run"),
]  # fmt: skip
"""Names whose docstring shows how they are used."""

CODE = re.compile(r"^ *(>>> |[\w, ]+(: .+)? = |class \w+\(|\w+\.\w+\()", re.MULTILINE)
"""A line of Python."""


def members() -> Iterator[Any]:
    """Everything public that is Perseid's own: its name, and the thing."""
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        yield pytest.param(module, id=module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue  # a module, a constant, a number with a name of its own
            yield pytest.param(thing, id=f"{module_name}.{name}")
            if inspect.isclass(thing):
                yield from (pytest.param(found, id=f"{module_name}.{name}.{at}") for at, found in methods(thing))


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, thing in vars(cls).items():
        thing = getattr(thing, "__func__", thing)  # of a class method
        if (not name.startswith("_") and isinstance(thing, property)) or (inspect.isfunction(thing) and name[0] != "_"):
            yield name, thing


@pytest.mark.parametrize("thing", list(members()))
def test_it_says_what_it_is(thing: Any) -> None:
    said = inspect.cleandoc(thing.__doc__ or "")
    assert len(said.split()) >= 3, "a docstring of at least three words"
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
        assert not said.startswith(f"{thing.__name__}("), "that is the one which Python made"


@pytest.mark.parametrize("thing", list(members()))
def test_it_has_types(thing: Any) -> None:
    function = thing.fget if isinstance(thing, property) else thing
    if not inspect.isfunction(function):
        return
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert not bare and signature.return_annotation is not signature.empty


@pytest.mark.parametrize(("module", "name"), EXAMPLES, ids=[f"{module}.{name}" for module, name in EXAMPLES])
def test_it_shows_how_it_is_used(module: str, name: str) -> None:
    said = inspect.cleandoc(getattr(importlib.import_module(module), name).__doc__ or "")
    assert CODE.search(said), "an example"
