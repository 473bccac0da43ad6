"""The engine: lets everything of an instant happen, asks the scheduler, then starts transfers and tasks."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.state import Phase, State
from hetsched.errors import HetschedError

from .client import Job, SimulatedClient
from .faults.inflict import Inflictor
from .hands import Hands
from .model import Machine
from .network.topology import Topology
from .network.transfers import Transfers
from .policies import find_policy
from .scenario import Scenario
from .server import Mind, SimulatedServer
from .trace import Trace
from .world import Worker, World

__all__ = ["Simulation", "shipped"]


def shipped(scenario: Scenario) -> Scheduler:
    """The scheduler that ships, with the policy and the options of a scenario.

    Raises HetschedError for a policy that there is not.
    """
    policy = scenario.policy
    return Scheduler(
        find_policy(policy, scenario.seed) if isinstance(policy, str) else policy,
        Options(
            allowed_losses=scenario.allowed_losses,
            seed=scenario.seed,
            links=scenario.links,
            seconds_per_price=scenario.seconds_per_price,
        ),
    )


class Simulation:
    """One run of a scenario.

    ``mind`` takes the place of the scheduler that ships. With ``is_checked`` the state of every mind is checked after
    each event, and with ``has_values`` tasks have values, so that wrong results show. Without ``detail`` the trace has
    counts only. ``fails`` tells for a task and an attempt what it raises.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        mind: Mind | None = None,
        is_checked: bool = False,
        has_values: bool = False,
        detail: bool = True,
        fails: Callable[[int, int], Any] | None = None,
        hands: Callable[[World, Machine, str], Worker] = Hands,
    ) -> None:
        names = [machine.name for machine in scenario.machines]
        if len(set(names)) < len(names):
            twice = next(name for n, name in enumerate(names) if name in names[:n])
            raise HetschedError(f"two machines are called {twice!r}; each needs a name of its own")
        self.scenario = scenario
        self.trace = Trace(detail)
        self.world = world = World(scenario, self.trace, is_checked, has_values)
        world.fails = fails
        if mind is None:
            mind = shipped(scenario)
        self.mind = mind
        self.topology = Topology(scenario.network)
        world.server = self.server = SimulatedServer(world, mind)
        world.network = self.network = Transfers(world, self.topology)
        self._hands = hands
        for machine in scenario.machines:
            world.clock.at(machine.arrives, self._arrive, machine)
            if machine.retires is not None:
                world.clock.at(machine.retires, self._retire, machine)
        # After the workers, who then are there before the first fault and the first graph of the same instant.
        self.faults = Inflictor(world, self.server, self.network, self.topology, self.start_worker)
        world.client = self.client = SimulatedClient(world)

    def _arrive(self, machine: Machine, _: Any) -> None:
        self.start_worker(machine, machine.name)

    def start_worker(self, machine: Machine, name: str) -> None:
        """Have a worker start on a machine and join."""
        world = self.world
        self.topology.add_worker(name, machine.pool or "", machine.bandwidth, machine.pcie)
        worker = world.workers[name] = self._hands(world, machine, name)
        world.trace.note(world.clock.now, "joined", name)
        self.server.join(worker)

    def _retire(self, machine: Machine, _: Any) -> None:
        worker = self.world.workers.get(machine.name)
        if worker is not None and worker.alive:
            self.world.trace.note(self.world.clock.now, "leaves", machine.name)
            self.server.leaving(worker)

    @property
    def jobs(self) -> list[Job]:
        """What was submitted, and what has come of it."""
        return self.client.jobs

    def run(self, most_rounds: int | None = None) -> None:
        """Let everything happen until nothing is left.

        Raises HetschedError where graphs have not ended by then, and after ``most_rounds`` rounds of things that happen
        together.
        """
        # Nearly all objects live until their graph ends, and then go without a search for rings of them.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._run(most_rounds)
        finally:
            if collects:
                gc.enable()
        if any(job.ended is None for job in self.jobs):
            raise HetschedError(f"the simulation has come to a standstill: {self._plight()}")

    def _run(self, most: int | None) -> None:
        """Let all happen that is due, have the scheduler handle it, then start transfers and tasks; and so on."""
        world, clock, server, network = self.world, self.world.clock, self.server, self.network
        rounds = 0
        while clock.advance():
            while True:
                rounds += 1
                if rounds == most:
                    raise HetschedError(f"the simulation has not ended after {most} rounds: {self._plight()}")
                if clock.happen() or (server.inbox and server.settle()):
                    continue
                network.settle()
                if not world.touched:
                    break
                touched, world.touched = world.touched, []
                for worker in touched:
                    worker.open()

    def _plight(self) -> str:
        """Say what those who wait wait for."""
        return plight(self.mind.state, self.world.clock.now)


def plight(state: State, now: float) -> str:
    """Say in which phases the tasks are that have not run, and why a ready one has no worker."""
    counts = dict.fromkeys((Phase.WAITING, Phase.READY, Phase.ASSIGNED), 0)
    ready = None
    for ts in state.tasks.values():
        if ts.phase in counts:
            counts[ts.phase] += 1
            if ts.phase is Phase.READY and ready is None:
                ready = ts
    words = f"at {now:g} s " + ", ".join(f"{n} tasks are {phase.name}" for phase, n in counts.items() if n)
    if ready is not None:
        words += f"; {ready.key!r} finds no worker: {ready.needs.why_nobody(state.capacities())}"
    return words
