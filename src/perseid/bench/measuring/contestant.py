"""A side of the comparison: a process with its own JVM and its own Spark settings, told what to run and otherwise idle.

One session for all sides would be simpler, but then they would share one JIT, one heap and one set of settings, and what suits
one (adaptive execution off, task slots for hosts) would be put on the other. Only one side works at a time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import psutil

from perseid.errors import PerseidError

P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT_S = 600.0
LINE_CHARACTERS = 300


class SideFailed(PerseidError):
    """What a side was told to run did not end well."""


class Contestant:
    """A process that runs module-level functions, one at a time, and keeps what they keep between calls."""

    def __init__(self, name: str, folder: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self.name, self._timeout_s = name, timeout_s
        self._log = folder / f"{name}.log"
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        scratch = folder / "t"  # short: sockets lie below it
        scratch.mkdir(exist_ok=True)
        order = (theirs, str(self._log), str(scratch))
        self._process = context.Process(target=_serve, args=order, name=f"bench-{name}")
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function over there and wait for what it returns."""
        try:
            self._connection.send((function, args, kwargs))
            if not self._connection.poll(self._timeout_s):
                self._kill()
                raise SideFailed(f"{self.name}: {function.__name__} took over {self._timeout_s:.0f} s and was ended")
            worked, value = self._connection.recv()
        except (EOFError, OSError) as error:
            raise SideFailed(f"{self.name}: {function.__name__}: the process died:\n{self._last_words()}") from error
        if not worked:
            raise SideFailed(f"{self.name}: {function.__name__}: {value}")
        result: R = value
        return result

    def close(self) -> None:
        """End the process, and the JVM with it."""
        with contextlib.suppress(OSError):
            self._connection.send(None)
        self._process.join(15.0)
        if self._process.is_alive():
            self._kill()
        self._connection.close()

    def _kill(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.kill()
        self._process.join(5.0)

    def _last_words(self) -> str:
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-12:])
        except OSError:
            return ""


def _serve(connection: Connection, log: str, scratch: str) -> None:
    """The process's life. What Spark prints goes to the log; what hosts leave in the temporary folder goes with the benchmark."""
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(file, stream)
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        if order is None:
            return
        function, args, kwargs = order
        try:
            connection.send((True, function(*args, **kwargs)))
        except PerseidError as error:
            connection.send((False, str(error)))
        except Exception as error:
            traceback.print_exc()  # into the log
            connection.send((False, in_a_line(error)))


def in_a_line(error: Exception) -> str:
    """What happened, without the places in Java's and Python's code."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line.removeprefix(": ") for line in lines if line and not line.startswith(("at ", "...", "JVM stacktrace"))]
    if len(said) > 1 and said[0].startswith("An error occurred while calling"):
        del said[0]  # by Py4J: of what, only it knows
    text = said[0] if said else "no message"
    kind = type(error).__name__
    return f"{text if kind == 'Py4JJavaError' else f'{kind}: {text}'}"[:LINE_CHARACTERS]
