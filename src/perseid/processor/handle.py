"""The handle that a processor gets in ``init``: its state variables and timers, with Spark's rules and Spark's errors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import StructType

from perseid.processor.stored import StoredForm
from perseid.processor.variables import List, Map, Value, Variable
from perseid.state.timers import Timer, Timers

TimeMode = Literal["None", "ProcessingTime", "EventTime"]
Phase = Literal["CREATED", "INITIALIZED", "DATA_PROCESSED", "TIMER_PROCESSED"]
Record = dict[str, Any]
AnyVariable = TypeVar("AnyVariable", bound=Variable)

TTL_TIMER = "perseid-ttl"  # the name of the timer at which a key's expired values are removed
_TIME_MODES = {"None": "NoTime", "ProcessingTime": "ProcessingTime", "EventTime": "EventTime"}  # as Spark's errors say


_METHODS = (
    *("getValueState", "getListState", "getMapState", "deleteIfExists"),
    *("registerTimer", "deleteTimer", "listTimers"),
)


class _NoKey(Record):
    """The record outside of a key: whoever asks for something in it is told."""

    def get(self, *_: Any) -> Any:
        raise _without_key()

    def __setitem__(self, *_: Any) -> None:
        raise _without_key()

    def pop(self, *_: Any) -> Any:
        raise _without_key()


NO_KEY = _NoKey()


class Handle(StatefulProcessorHandle):
    """One processor's handle in one epoch of one shard."""

    def __init__(
        self, records: dict[Hashable, Record], timers: Timers, time_ms: int, mode: TimeMode, forms: Forms
    ) -> None:
        self._records, self._timers, self.time_ms, self._mode, self._forms = records, timers, time_ms, mode, forms
        self.phase: Phase = "CREATED"
        self.variables: dict[str, Variable] = {}
        self.deleted: set[str] = set()
        self._due: dict[
            Hashable, set[int]
        ] = {}  # expired timers: listed until their handler is done, as Spark lists them
        self._key: Hashable = None
        self._is_new = False
        self.record: Record = NO_KEY  # the current key's; an empty one is not in ``records``

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"StatefulProcessorHandle.{name}: Perseid's handle has {', '.join(_METHODS)}")

    # -- the current key ------------------------------------------------------------------------------------------

    def turn_to(self, key: Hashable) -> None:
        """From here on state and timers are this key's."""
        self._key = key
        found = self._records.get(key)
        self._is_new = found is None
        self.record = {} if found is None else found

    def leave(self) -> None:
        """The processor is done with the key: a key without state is not kept."""
        if self._is_new:
            if self.record:
                self._records[self._key] = self.record
        elif not self.record:
            del self._records[self._key]
        self.record = NO_KEY

    def _require_key(self) -> Hashable:
        if self.record is NO_KEY:
            raise _without_key()
        return self._key

    def expires_at(self, ttl_ms: int) -> int:
        """When a value written now expires; sees to it that it is removed then."""
        at_ms = self.time_ms + ttl_ms
        if not any(timer.name == TTL_TIMER for timer in self._timers.pending(self._key)):
            self._timers.at_processing_time(self._key, at_ms, name=TTL_TIMER)
        return at_ms

    # -- state variables ------------------------------------------------------------------------------------------

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> Value:
        ttl_ms = self._declare("get_value_state", "Value", stateName, ttlDurationMs)
        return self._add(Value(self, stateName, self._forms[schema], ttl_ms), stateName)

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> List:
        ttl_ms = self._declare("get_list_state", "List", stateName, ttlDurationMs)
        return self._add(List(self, stateName, self._forms[schema], ttl_ms), stateName)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> Map:
        ttl_ms = self._declare("get_map_state", "Map", stateName, ttlDurationMs)
        made = Map(self, stateName, self._forms[userKeySchema], self._forms[valueSchema], ttl_ms)
        return self._add(made, stateName)

    def deleteIfExists(self, stateName: str) -> None:
        self._only_in_init("delete_if_exists", "deleting state")
        self.variables.pop(stateName, None)
        self.deleted.add(stateName)
        for key in [key for key, record in self._records.items() if stateName in record]:
            del self._records[key][stateName]
            if not self._records[key]:
                del self._records[key]

    def declared(self) -> dict[str, int]:
        """How many variables there are and were deleted, as Spark counts them in ``customMetrics``."""
        counts = {"numDeletedStateVars": len(self.deleted)}
        for kind in ("Value", "List", "Map"):
            of_kind = [variable for variable in self.variables.values() if variable.kind == kind]
            counts[f"num{kind}StateVars"] = sum(not variable.expires for variable in of_kind)
            counts[f"num{kind}StateWithTTLVars"] = sum(variable.expires for variable in of_kind)
        return counts

    def _add(self, variable: AnyVariable, name: str) -> AnyVariable:
        self.variables[name] = variable
        return variable

    def _declare(self, operation: str, kind: str, name: str, ttl_ms: int | None) -> int | None:
        doing = f"initializing {kind.lower()} state"
        self._only_in_init(operation, doing)
        if name in self.variables:
            raise PySparkRuntimeError(f"Error {doing}: {kind} state {name} already exists")
        if not ttl_ms:
            return None
        if self._mode != "ProcessingTime":
            raise PySparkRuntimeError(
                f"Error {doing}: [STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL for"
                f" state={name} in timeMode={_TIME_MODES[self._mode]}, use TimeMode.ProcessingTime() instead."
            )
        if ttl_ms < 0:
            raise PySparkRuntimeError(
                f"Error {doing}: [STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be greater than"
                f" zero for State store operation=update on state={name}."
            )
        return ttl_ms

    def _only_in_init(self, operation: str, doing: str) -> None:
        if self.phase != "CREATED":
            raise PySparkRuntimeError(f"Error {doing}: {_wrong_phase(operation, self.phase)}")

    # -- timers ---------------------------------------------------------------------------------------------------

    def registerTimer(self, expiryTimestampMs: int) -> None:
        self._may_use_timers("register_timer", "register timer")
        by_event_time = self._mode == "EventTime"
        register = self._timers.at_event_time if by_event_time else self._timers.at_processing_time
        register(self._require_key(), expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self._may_use_timers("delete_timer", "deleting timer")
        self._timers.cancel(self._require_key(), expiryTimestampMs)
        self._due.get(self._key, set()).discard(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        self._may_use_timers("list_timers", "listing timers")
        pending = self._timers.pending(self._require_key())
        listed = {timer.at_ms for timer in pending if timer.name != TTL_TIMER}
        return iter(sorted(listed | self._due.get(self._key, set())))

    def expired(self, due: Iterable[Timer]) -> None:
        """These timers have expired; each is there until it ``fired``."""
        for timer in due:
            self._due.setdefault(timer.key, set()).add(timer.at_ms)

    def fired(self, timer: Timer) -> None:
        self._due[timer.key].discard(timer.at_ms)

    def _may_use_timers(self, operation: str, doing: str) -> None:
        if self._mode == "None":
            raise PySparkRuntimeError(
                f"Error {doing}: [STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to perform"
                f" stateful processor operation={operation} with invalid timeMode=NoTime"
            )
        if self.phase not in ("INITIALIZED", "DATA_PROCESSED"):
            raise PySparkRuntimeError(f"Error {doing}: {_wrong_phase(operation, self.phase)}")


class Forms:
    """The stored form of each schema, made once. DDL text was parsed in the driver: a host has no JVM to ask."""

    def __init__(self, parsed: Mapping[str, StructType]) -> None:
        self._parsed = parsed
        self._made: dict[str, StoredForm] = {}

    def __getitem__(self, schema: StructType | str) -> StoredForm:
        name = schema if isinstance(schema, str) else schema.json()
        if name not in self._made:
            self._made[name] = StoredForm(self._parsed[schema] if isinstance(schema, str) else schema)
        return self._made[name]


def _without_key() -> PySparkRuntimeError:
    return PySparkRuntimeError(
        "[INTERNAL_ERROR_TWS] Implicit key not found: state can be used only while rows or timers of a key are handled"
    )


def _wrong_phase(operation: str, phase: Phase) -> str:
    return (
        "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] Failed to perform stateful processor"
        f" operation={operation} with invalid handle state={phase}."
    )
