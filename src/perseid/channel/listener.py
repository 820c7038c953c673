"""Accepts connections for a server, whatever strangers do at its port.

Invariant: at most ``most`` peers that have not proved themselves hold a descriptor and a thread, none of them for longer than the handshake
may take; who comes then pushes the oldest of them out. Accepting never ends for want of a descriptor: one is kept in reserve, and given up
for a moment to let the next peer in and show it out; one that belongs here comes again (``handshake.connect``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Collection

from perseid.channel.connection import Connection
from perseid.channel.handshake import HANDSHAKE_SECONDS, accept
from perseid.errors import ChannelError

BACKLOG = 512
MOST_STRANGERS = 64
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_PASSING = (*_NO_DESCRIPTOR, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPROTO, errno.EINTR, errno.EPERM)


class Listener:
    """One server socket. ``serve`` gets every connection whose peer belongs here, in a thread of its own, and closes it."""

    def __init__(
        self,
        server: socket.socket,
        secret: bytes,
        name: str,
        purposes: Collection[str],
        serve: Callable[[Connection], None],
        *,
        timeout: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._server, self._secret, self._name, self._purposes = server, secret, name, purposes
        self._serve, self._timeout = serve, timeout
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = MOST_STRANGERS if limit == resource.RLIM_INFINITY else max(4, min(MOST_STRANGERS, limit // 8))
        self._strangers: dict[socket.socket, None] = {}  # in the order in which they came
        self._lock = threading.Lock()
        self._closed = False
        self._spare: int | None = None
        self._reserve()
        self._thread = threading.Thread(target=self._listen, name="perseid-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody is accepted any more; those who were stay."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closing does not
        self._server.close()
        with self._lock:
            for stranger in self._strangers:
                _show_out(stranger)

    def _listen(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._server.accept()
            except OSError as error:
                if self._closed or error.errno not in _PASSING:
                    break
                if error.errno in _NO_DESCRIPTOR:
                    self._turn_away()
                else:
                    time.sleep(0.05)
                continue
            self._admit(sock)
        if self._spare is not None:
            os.close(self._spare)

    def _admit(self, sock: socket.socket) -> None:
        with self._lock:
            if len(self._strangers) >= self.most:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                _show_out(oldest)
            self._strangers[sock] = None
        try:
            threading.Thread(target=self._meet, args=(sock,), daemon=True).start()
        except RuntimeError:  # the system has no thread to give
            with self._lock:
                self._strangers.pop(sock, None)
            sock.close()

    def _meet(self, sock: socket.socket) -> None:
        try:
            connection = accept(sock, self._secret, self._name, self._purposes, timeout=self._timeout)
        except ChannelError:
            return  # somebody who does not belong here
        finally:
            with self._lock:
                self._strangers.pop(sock, None)
        if self._closed:
            connection.close()
        else:
            self._serve(connection)

    def _turn_away(self) -> None:
        """All descriptors are taken: let the next peer in for a moment, or it would be offered again and again."""
        with self._lock:
            oldest = next(iter(self._strangers), None)
            if oldest is not None:
                del self._strangers[oldest]
                _show_out(oldest)
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            self._server.settimeout(0)
            with contextlib.suppress(OSError):
                self._server.accept()[0].close()
            with contextlib.suppress(OSError):
                self._server.settimeout(None)
        time.sleep(0.01)  # those who were shown out give their descriptors back
        self._reserve()

    def _reserve(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _show_out(sock: socket.socket) -> None:
    """Its thread notices, and closes it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
