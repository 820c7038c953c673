"""Runs: one seed after the other, what each came to, and what they add up to.

Invariant: a run that broke a property is told with its seed, and the seed with the same options breaks it again.
"""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from perseid.errors import OtherVersion, PerseidError, PropertyBroken, SimulationError
from perseid.simulation import journal
from perseid.simulation.garbage import uncollected
from perseid.simulation.scenario import Options, Scenario, drawn
from perseid.simulation.world import Engine, Tally, World

VERSION = 7
"""Of what seeds mean: raised whenever the same seed draws another run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run."""

    seed: int
    broken: str | None  # which property, when, what was seen
    at_ms: int
    faults: dict[str, int]
    rows: int  # compared with the oracle
    restores: int
    recoveries_ms: tuple[int, ...]
    replayed_rows: int
    checkpoints: int
    scaled: int
    bytes: int
    seconds: float
    missed: tuple[str, ...] = ()  # planned faults that would have come after its end
    story: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # only of a run that broke something


def simulate(scenario: Scenario, engine: Engine | None = None) -> Outcome:
    """Run a scenario to its end."""
    with uncollected():
        return _lived_through(scenario, engine)


def _lived_through(scenario: Scenario, engine: Engine | None) -> Outcome:
    began = time.perf_counter()
    world = World(scenario, engine)
    broken: str | None = None
    try:
        world.run()
    except PropertyBroken as error:
        broken = str(error)
    except Exception as error:  # the engine's own assertions, and whatever else it raises
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        broken = f"invariants: {type(error).__name__} in {where}: {error}"
    outcome = _outcome(world, world.tally, broken, time.perf_counter() - began)
    world.forget()
    return outcome


def _outcome(world: World, tally: Tally, broken: str | None, seconds: float) -> Outcome:
    return Outcome(
        seed=world.scenario.seed,
        broken=broken,
        at_ms=world.clock.now_ms,
        faults=dict(tally.faults),
        rows=world.witness.rows_checked,
        restores=world.witness.restores,
        recoveries_ms=tuple(tally.recoveries_ms),
        replayed_rows=tally.replayed_rows,
        checkpoints=tally.checkpoints,
        scaled=tally.scaled,
        bytes=world.root.bytes_written,
        seconds=seconds,
        missed=tuple(str(planned) for planned in world.to_come),
        story=tuple(journal.records(world.log)) if broken else (),
    )


def simulate_seed(options: Options, engine: Engine | None, seed: int) -> Outcome:
    return simulate(drawn(seed, options), engine)


def simulate_seeds(
    seeds: Iterable[int], options: Options, engine: Engine | None = None, *, jobs: int = 1
) -> Iterator[Outcome]:
    """One after the other; with ``jobs`` in so many processes, told in the same order."""
    one = partial(simulate_seed, options, engine)
    if jobs == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, seeds, chunksize=8)


def first_broken(seeds: Iterable[int], options: Options, engine: Engine | None = None) -> Outcome | None:
    """The first run that breaks something."""
    return next((outcome for outcome in simulate_seeds(seeds, options, engine) if outcome.broken), None)


@dataclass(slots=True)
class Summary:
    """What many runs add up to."""

    runs: int = 0
    broken: list[Outcome] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    restores: int = 0
    recoveries_ms: list[int] = field(default_factory=list)
    replayed_rows: int = 0
    checkpoints: int = 0
    scaled: int = 0
    bytes: int = 0
    virtual_ms: int = 0
    seconds: float = 0.0
    missed: Counter[str] = field(default_factory=Counter)  # planned faults, and in how many runs they never came

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        if outcome.broken:
            self.broken.append(outcome)
        self.faults.update(outcome.faults)
        self.rows += outcome.rows
        self.restores += outcome.restores
        self.recoveries_ms += outcome.recoveries_ms
        self.replayed_rows += outcome.replayed_rows
        self.checkpoints += outcome.checkpoints
        self.scaled += outcome.scaled
        self.bytes += outcome.bytes
        self.virtual_ms += outcome.at_ms
        self.seconds += outcome.seconds
        self.missed.update(set(outcome.missed))

    def beyond(self) -> str | None:
        """A planned fault that came in none of the runs."""
        if self.broken:
            return None  # which ended early
        return next((planned for planned, runs in self.missed.items() if runs == self.runs), None)

    def recovery_ms(self, quantile: float) -> int:
        """So many of all recoveries took no longer than this."""
        ordered = sorted(self.recoveries_ms)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else 0


def write_seed_file(path: Path, summary: Summary, options: Options) -> None:
    """What was run and what broke, so that it can be run again with ``read_seed_file``."""
    if options.faults is not None:
        plan: list[dict[str, Any]] | None = _plan_json(options)
    else:
        plan = None
    data = {
        "version": VERSION,
        "options": {"hosts": options.hosts, "epochs": options.epochs, "scheme": options.scheme,
                    "standby": options.standby, "settings": dict(options.settings), "faults": plan},
        "runs": summary.runs,
        "faults": dict(summary.faults),
        "rows": summary.rows,
        "restores": summary.restores,
        "recovery_ms": {str(q): summary.recovery_ms(q) for q in (0.5, 0.95, 0.99, 1.0)},
        "replayed_rows": summary.replayed_rows,
        "checkpoints": summary.checkpoints,
        "scaled": summary.scaled,
        "bytes": summary.bytes,
        "virtual_ms": summary.virtual_ms,
        "seconds": round(summary.seconds, 3),
        "broken": [{k: v for k, v in asdict(o).items() if k != "story"} for o in summary.broken],
    }  # fmt: skip
    path.write_text(json.dumps(data, indent=2) + "\n")


def _plan_json(options: Options) -> list[dict[str, Any]]:
    from perseid.simulation.faults import to_json

    assert options.faults is not None
    return to_json(options.faults)


def read_seed_file(path: Path) -> tuple[list[int], Options]:
    """The seeds that broke something, and the options they broke it with. Raises ``OtherVersion``, ``SimulationError``."""
    from perseid.simulation.faults import from_json

    try:
        data = json.loads(path.read_text())
        version, options, broken = data["version"], data["options"], data["broken"]
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SimulationError(f"{path} is no seed file: expected what `perseid simulate --json FILE` writes") from error
    if version != VERSION:
        raise OtherVersion(
            f"{path} is of version {version} of the simulation, this is version {VERSION}: its seeds draw other runs here; "
            "repeat them with the Perseid that wrote it"
        )
    try:
        faults = from_json(options["faults"]) if options.get("faults") is not None else None
        given = Options(
            options["hosts"], options["epochs"], options["scheme"], faults, options.get("standby"), options["settings"]
        )
        return [int(entry["seed"]) for entry in broken], given
    except PerseidError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise SimulationError(f"{path} is no seed file: {error!r}") from error
