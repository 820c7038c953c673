"""Every exception Perseid raises on purpose, in one tree.

    PerseidError
    ├── GraphError            the application as written cannot run (found before anything starts)
    ├── SettingsError         a setting is out of range, or the cluster is too small for it
    ├── RootError             the checkpoint root cannot be used
    │   ├── GraphChanged      it belongs to another graph
    │   ├── LeaseHeld         another driver is running on it
    │   └── Fenced            another driver took it over from this one
    ├── CorruptData           a file under the root is torn or fails its hash
    ├── StorageFailed         storage is full, slow or out of reach
    ├── ChannelError          a peer broke the protocol or could not be reached
    │   └── NotAuthentic      a peer did not prove the application's secret
    ├── OperatorFailed        user code raised; operator, shard, epoch and first rows are in the message
    │   └── OperatorMistake   its code is wrong: it would fail again whenever it is tried
    ├── NoAnswer              a running application did not answer a request put to it by way of its root
    ├── ScaleFailed           an operator could not be scaled; it has the shards it had
    ├── RequestFailed         a checkpoint or a restore that was asked for did not happen; the application goes on
    ├── SourceChanged         a source slice is no longer the bytes it was
    ├── MalformedLine         a line of a file does not fit its schema, and malformed="fail"
    ├── FaultError            a test's fault names what is not there, or came to nothing
    ├── SimulationError       a simulation was asked for something that cannot be
    │   ├── UnknownFault      an unknown fault or target
    │   ├── FaultBeyondRun    a fault at a moment the run does not have
    │   └── OtherVersion      a seed file of another version of the simulation
    ├── PropertyBroken        a simulated run did what must never happen: a bug of the engine, with the seed that shows it
    ├── CheckpointFailed      the application has ended, its output is complete, but its last checkpoint failed
    └── ApplicationFailed     the application stopped; the cause is chained

A message says where, what was expected, what came, and what to do.
"""

from __future__ import annotations

__all__ = [
    "ApplicationFailed",
    "ChannelError",
    "CheckpointFailed",
    "CorruptData",
    "FaultBeyondRun",
    "FaultError",
    "Fenced",
    "GraphChanged",
    "GraphError",
    "LeaseHeld",
    "MalformedLine",
    "NoAnswer",
    "NotAuthentic",
    "OperatorFailed",
    "OperatorMistake",
    "OtherVersion",
    "PerseidError",
    "PerseidWarning",
    "PropertyBroken",
    "RequestFailed",
    "RootError",
    "ScaleFailed",
    "SettingsError",
    "SimulationError",
    "SourceChanged",
    "StorageFailed",
    "UnknownFault",
]


class PerseidError(Exception):
    """The root of all errors Perseid raises."""


class PerseidWarning(UserWarning):
    """Something in an application that runs, and may not do what it is meant to: silence it with ``warnings.filterwarnings``."""


class GraphError(PerseidError):
    """The application as written cannot run. ``mistakes`` lists every mistake found, not only the first."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        head = "the application cannot run" if len(mistakes) == 1 else f"the application has {len(mistakes)} mistakes"
        super().__init__(head + ":\n" + "\n".join(f"  - {mistake}" for mistake in mistakes))


class SettingsError(PerseidError):
    """A setting is out of range, or the cluster is too small for it."""


class RootError(PerseidError):
    """The checkpoint root cannot be used."""


class GraphChanged(RootError):
    """The checkpoint root belongs to another graph."""


class LeaseHeld(RootError):
    """Another driver is running on this checkpoint root."""


class Fenced(RootError):
    """Another driver has taken the checkpoint root over; this one must stop."""


class CorruptData(PerseidError):
    """A file under the root is torn or fails its hash."""


class StorageFailed(PerseidError):
    """Storage is full, slow or out of reach."""


class ChannelError(PerseidError):
    """A peer broke the protocol or could not be reached."""


class NotAuthentic(ChannelError):
    """A peer did not prove that it knows the application's secret."""


class OperatorFailed(PerseidError):
    """User code in an operator raised."""


class OperatorMistake(OperatorFailed):
    """The code of an operator is wrong (its result is not what it declared, a name is not defined): trying again cannot help."""


class NoAnswer(PerseidError):
    """A running application did not answer in time what another process asked of it."""


class ScaleFailed(PerseidError):
    """An operator could not be scaled. It has the shards it had, and goes on."""


class RequestFailed(PerseidError):
    """A checkpoint or a restore that was asked of a running application did not happen. The application goes on."""


class SourceChanged(PerseidError):
    """A source slice that was read before is no longer the same bytes."""


class MalformedLine(PerseidError):
    """A line of a file does not fit the schema of its source, which says that this ends the application."""


class FaultError(PerseidError):
    """A fault that a test wants names something that is not there, cannot be done here, or lies beyond the run."""


class SimulationError(PerseidError):
    """A simulation was asked for something that cannot be."""


class UnknownFault(SimulationError):
    """A fault plan names an unknown fault or target."""


class FaultBeyondRun(SimulationError):
    """A fault plan names a moment that the run does not have."""


class OtherVersion(SimulationError):
    """A seed file was written by another version: its seeds draw other runs here."""


class PropertyBroken(PerseidError):
    """A simulated run did what must never happen. The message says which property, when, and what was seen."""


class CheckpointFailed(PerseidError):
    """The application has ended and all its output is committed, but its last checkpoint failed: its newest state is not saved.

    Nothing is lost. The next start goes back to the checkpoint before and works through the epochs since once more.
    """


class ApplicationFailed(PerseidError):
    """The application stopped because of an error it could not survive; it can be resumed after a fix."""


def headline(message: str) -> str:
    """The one line of an error that says most: of a traceback its last, else its first."""
    lines = [line for line in message.splitlines() if line.strip()]
    if not lines:
        return message
    return lines[-1].strip().removeprefix("perseid.errors.") if lines[0].startswith("Traceback ") else lines[0].strip()
