"""An operator written for one key: its declared fields are that key's own while its method runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from perseid.duration import Duration
from perseid.operators.grouping import Groups
from perseid.operators.operator import Operator
from perseid.state.results import Results
from perseid.state.spilled import Spilled
from perseid.state.timers import Timer


class KeyedOperator(Operator):
    """A stateful operator written for one key: subclass it, write ``process_key``, and ``on_key_timer`` if it sets timers.

        class Count(KeyedOperator):
            ttl = every(hours=1)
            n: int = state(default=0)

            def process_key(self, key, rows):
                self.n += rows.num_rows
                yield {"word": key, "n": self.n}

    A key is a Python scalar, or a tuple when there are several key columns. Keys of an epoch come in the order in which
    they first appear in its rows. A new key's fields are at their defaults; a key lives until it is idle for ``ttl`` or
    ``self.context.forget()`` is called in one of its methods.
    """

    ttl: ClassVar[Duration | None] = None
    """A key not touched for so long (processing time) is forgotten; one with a timer to come is kept until it fires."""

    spill: ClassVar[str | int | None] = None
    """At most so much of the keys' values is in memory, for instance ``"256 MB"``; the rest is on the machine's own disk."""

    _by_key: ClassVar[bool] = True

    def process_key(self, key: Any, *rows: Any, **inputs: Any) -> Any:
        """Work on one key's rows of one epoch: ``process_key(self, key, rows)``, or one parameter per input by name.

        Returns a table, rows as mappings (it may be a generator), or None.
        """
        raise NotImplementedError(f"{type(self).__name__}.process_key")

    def on_key_timer(self, key: Any, timer: Timer) -> Any:
        """Work on one due timer of the key. Returns what ``process_key`` may."""
        return None

    def process(self, rows: pa.Table | None = None, /, **inputs: pa.Table) -> pa.Table | None:
        """Every key of the epoch in turn."""
        context = self.context
        name = context.shard.operator
        results = Results(name)
        if rows is None:
            self._process_inputs(inputs, results)
        elif rows.num_rows:
            groups = Groups(rows, context.key_columns("rows"), name)
            self._keyed.key_types = groups.key_types
            if context.blamed is None:
                self._visit_all(groups, results)
            else:
                for key, of_key in groups:
                    self._visit(key, results, self.process_key, of_key)
        return results.table()

    def on_timer(self, timers: Sequence[Timer]) -> pa.Table | None:
        """Every due timer in turn, with its key's fields; none for a key that one of them has forgotten."""
        results = Results(self.context.shard.operator)
        blamed = self.context.blamed
        forgotten: set[Hashable] = set(blamed.keys) if blamed is not None else set()
        for timer in timers:
            if timer.key not in forgotten and self._visit(timer.key, results, self.on_key_timer, timer):
                forgotten.add(timer.key)
        return results.table()

    def _visit_all(self, groups: Groups, results: Results) -> None:
        """``_visit`` for every key with one input, without what would cost again for every key."""
        keyed, context, own, process_key, add = self._keyed, self.context, self.__dict__, self.process_key, results.add
        values, names, expires = keyed.values, keyed.names, keyed.expires
        if isinstance(values, Spilled):
            values.get_many(groups.keys)  # at once, not key by key
        for key, rows in groups:
            found = values.get(key)
            own.update(zip(names, keyed.initial() if found is None else found, strict=True))
            context.current_key = (key,)
            add(process_key(key, rows))
            if context.forgotten:
                context.forgotten = False
                keyed.forget(key)
                continue
            values[key] = tuple([own[name] for name in names])
            if expires:
                keyed.touch(key)
        self._leave()

    def _visit(self, key: Hashable, results: Results, method: Callable[..., Any], *args: Any, **inputs: Any) -> bool:
        """Call a method with the key's fields in place; whether it forgot the key."""
        keyed, context, own = self._keyed, self.context, self.__dict__
        found = keyed.values.get(key)
        own.update(zip(keyed.names, keyed.initial() if found is None else found, strict=True))
        context.current_key = (key,)
        try:
            results.add(method(key, *args, **inputs))
        except Exception as error:
            if context.blamed is None:
                raise
            if method == self.on_key_timer:
                context.blamed.timers[args[0]] = error
            else:
                context.blamed.keys[key] = error
        forgotten, context.forgotten = context.forgotten, False
        if forgotten:
            keyed.forget(key)
        else:
            keyed.values[key] = tuple([own[name] for name in keyed.names])
            if keyed.expires:
                keyed.touch(key)
        self._leave()
        return forgotten

    def _leave(self) -> None:
        """Outside a key's method its fields are nobody's: do not keep the last key's values alive."""
        self.context.current_key = None
        for name in self._keyed.names:
            self.__dict__.pop(name, None)

    def _process_inputs(self, inputs: Mapping[str, pa.Table], results: Results) -> None:
        """Several inputs: every key that appears in one of them, with its rows of each."""
        context = self.context
        rows_of: dict[Hashable, dict[str, pa.Table]] = {}
        none: dict[str, pa.Table] = {}
        for name, rows in inputs.items():
            none[name] = rows.slice(0, 0)
            if rows.num_rows:
                groups = Groups(rows, context.key_columns(name), context.shard.operator)
                self._keyed.key_types = groups.key_types
                for key, of_key in groups:
                    rows_of.setdefault(key, {})[name] = of_key
        for key, of_key in rows_of.items():
            self._visit(key, results, self.process_key, **{**none, **of_key})
