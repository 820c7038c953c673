"""Which epochs a medium that cannot be asked has got from this process: console and foreach remember it here."""

from __future__ import annotations

from perseid.vocabulary import Epoch

_REMEMBERED = 10_000


class Delivered:
    """The digests of the last epochs that were delivered. A new process knows of none."""

    def __init__(self) -> None:
        self._digests: dict[Epoch, str] = {}

    def add(self, epoch: Epoch, digest: str) -> None:
        self._digests[epoch] = digest
        if len(self._digests) > _REMEMBERED:
            del self._digests[min(self._digests)]

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._digests.get(epoch) == digest
