"""Havoc: what each fault does to the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perseid.simulation.faults import CutOff, Driver, Fault, Kill, Pause, Slow, Storage, name_of
from perseid.simulation.hosts import VANISHED_MS
from perseid.simulation.root import Root
from perseid.simulation.site import Machine

if TYPE_CHECKING:
    from perseid.simulation.world import World


def inject(world: World, fault: Fault) -> None:
    """Let a fault happen now. A fault that finds nothing to hit is not counted."""
    now = world.clock.now_ms
    match fault:
        case Kill(target, down_ms):
            hit = [kill_machine(world, world.machines[i], down_ms) for i in world.scenario.site.hit(target)]
        case Pause(target, for_ms):
            hit = []
            for machine in _machines(world, fault):
                machine.asleep_ms = max(machine.asleep_ms, now + for_ms)
                machine.away()
                hit.append(bool(world.processes[machine.number]))
        case Slow(target, for_ms, factor):
            hit = []
            world.slow_until_ms = max(world.slow_until_ms, now + for_ms)
            for machine in _machines(world, fault):
                machine.slow_ms, machine.slowness = now + for_ms, factor
                hit.append(bool(world.processes[machine.number]))
        case CutOff(target, for_ms):
            hit = []
            for machine in _machines(world, fault):
                machine.cut_off_ms = max(machine.cut_off_ms, now + for_ms)
                machine.away()
                hosts = world.processes[machine.number]
                hit.append(bool(hosts))
                for driver in world.drivers if for_ms > VANISHED_MS else ():
                    for host in hosts:
                        driver.hosts.vanished(host)
            world.clock.after(for_ms, world.serve_waiting)
        case Storage():
            hit = [_storage(world, fault)]
        case Driver():
            hit = [_driver(world, fault)]
    if any(hit):
        world.tally.faults[name_of(fault)] += 1


def _machines(world: World, fault: Pause | Slow | CutOff) -> list[Machine]:
    return [world.machines[i] for i in world.scenario.site.hit(fault.target)]


def kill_machine(world: World, machine: Machine, down_ms: int) -> bool:
    """Its processes die; with ``down_ms`` the machine is away for so long. Was there anything to kill?"""
    now = world.clock.now_ms
    hosts = list(world.processes[machine.number])
    if down_ms:
        machine.down_ms = max(machine.down_ms, now + down_ms)
        machine.wiped_ms = now
        machine.disk.lost()
        machine.away()
        world.clock.after(down_ms, world.serve_waiting)
    silently = down_ms > 0 and world.random.random() < 0.5
    for host in hosts:
        world.process_ended(host)
    for driver in world.drivers:
        for host in hosts:
            driver.hosts.lost(host, silently=silently)
    return bool(hosts)


def _storage(world: World, fault: Storage) -> bool:
    root, until = world.root, world.clock.now_ms + fault.for_ms
    match fault.trouble:
        case "slow":
            root.slow_ms = max(root.slow_ms, until)
        case "corrupt":
            return _rot(world, root)
        case trouble:
            root.failing_ms, root.torn = max(root.failing_ms, until), trouble == "torn"
    return True


def _rot(world: World, root: Root) -> bool:
    """Damage one file of a checkpoint, if another is whole: with none left, nobody could bring the state back."""
    manifests = list(root.manifests.values())
    if len(manifests) < 2 or not all(root.whole(m) for m in manifests):
        return False
    hit = world.random.choice(manifests[-2:])
    match world.random.choice(["snapshot", "manifest", "inflight"]):
        case "snapshot" if hit.shards:
            root.damaged.add(hit.shards[world.random.choice(sorted(hit.shards))].path)
        case "inflight" if hit.inflight:
            root.damaged.add(world.random.choice(sorted(hit.inflight.values())))
        case _:
            root.damaged.add(hit.path)
    return True


def _driver(world: World, fault: Driver) -> bool:
    driver, lease_ms = world.driver, world.scenario.times.lease
    if driver is None or not driver.alive or driver.asleep or world.starting:
        return False
    if fault.pause_ms:
        driver.asleep_ms = world.clock.now_ms + fault.pause_ms
        if fault.pause_ms <= lease_ms:
            return True
    else:
        driver.die()
    world.starting = 1
    world.clock.after(lease_ms if fault.pause_ms else fault.down_ms, world.start_driver)
    return True
