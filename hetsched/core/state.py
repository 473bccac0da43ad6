"""Everything the scheduler knows, and the one method that takes tasks from phase to phase."""

from __future__ import annotations

from .links import LinkTable
from .needs import Needs
from .phases import LEGAL, LEGAL_BITS, LIVE, Phase
from .prefixes import TaskPrefix
from .records import NOBODY, Graph, Pool, TaskState, WorkerState
from .remembered import Remembered
from .steering import Steering
from .types import Capacity, ClientId, TaskId, WorkerId

__all__ = ["LEGAL", "LIVE", "NOBODY", "Graph", "Phase", "Pool", "State", "TaskState", "WorkerState"]


class State:
    """All tasks, graphs and workers, and the queues of what can run."""

    __slots__ = (
        "flipped", "graphs", "held", "links", "needs", "next_id", "pools", "prefixes", "ready", "steering", "suspects",
        "tasks", "twins", "undemanding", "workers",
    )  # fmt: skip

    def __init__(self, links: LinkTable | None = None) -> None:
        self.links = LinkTable() if links is None else links
        self.tasks: dict[TaskId, TaskState] = {}
        self.graphs: dict[tuple[ClientId, int], Graph] = {}
        self.workers: dict[WorkerId, WorkerState] = {}
        self.pools: dict[str, Pool] = {}
        self.prefixes: Remembered[TaskPrefix] = Remembered()
        self.undemanding = Needs({})
        """What a task without annotations demands."""
        self.needs: Remembered[Needs] = Remembered()
        self.needs[self.undemanding.key()] = self.undemanding
        self.ready: dict[Needs, list[tuple[int, TaskId]]] = {}
        """Per kind of demand a heap of ``(rank, id)``; may hold stale entries, lacks no READY task but those held."""
        self.held: dict[tuple[WorkerState, str], list[tuple[int, TaskId, float]]] = {}
        """Per worker and executor a heap of ``(rank, id, expected seconds)``: READY tasks that wait for it alone."""
        self.next_id: TaskId = 0
        self.steering: Steering | None = None
        """The plugins, if there are any. They may be exchanged by another thread at any moment: look once."""
        self.suspects = False
        """There is evidence on some kind of task, or was a result on a device: GPU tasks are being looked for."""
        self.flipped: dict[TaskPrefix, None] = {}
        """Kinds of tasks whose :attr:`TaskPrefix.gpu` has changed and that are still to be moved."""
        self.twins: dict[Needs, Needs] = {}
        """What GPU tasks demand, by what they would demand otherwise; as long as the workers are the same."""

    def move(self, tasks: list[TaskState], phase: Phase, cause: str, now: float) -> None:
        """Take tasks to a phase, if the table allows it, and write it into their stories.

        Raises AssertionError (a bug of ours), with the task's story, where the change is not legal.
        """
        graph: Graph | None = None
        moved: list[TaskState] = []
        legal: Phase | None = None
        for ts in tasks:
            if ts.phase is not legal:
                if not LEGAL_BITS[ts.phase] >> phase & 1:
                    tale = f"{ts.key!r}: {ts.phase.name} -> {phase.name} ({cause}); story: {ts.tell_story()}"
                    raise AssertionError(tale)
                legal = ts.phase
            ts.phase = phase
            if ts.graph is not graph:
                graph = ts.graph
                moved = []
                graph.log.append((now, phase, cause, moved))
            moved.append(ts)
        if (steering := self.steering) is not None and tasks:
            steering.moved(tasks, phase.name, cause, now)

    def on_gpu(self, needs: Needs) -> Needs:
        """What a task with these demands has as a GPU task: the same where no worker it may run on has a GPU lane."""
        found = self.twins.get(needs)
        if found is None:
            twin = needs.on_gpu()
            usable = any(twin.may_meet(name, w.capacity) for name, w in self.workers.items())
            found = self.twins[needs] = twin if usable else needs
        return found

    def add_worker(self, worker: WorkerId, capacity: Capacity) -> WorkerState:
        """Take a worker in."""
        w = self.workers[worker] = WorkerState(worker, capacity)
        w.links = self.links if self.links.crosses else None
        self.twins.clear()
        self._enter_pool(w)
        return w

    def change_capacity(self, worker: WorkerState, capacity: Capacity) -> None:
        """Note that a worker can do something else than before."""
        self._leave_pool(worker)
        worker.capacity = capacity
        self.twins.clear()
        self._enter_pool(worker)
        for executor in capacity.executors:
            worker.assigned.setdefault(executor, 0)

    def learn_link(self, worker: WorkerState, peer: WorkerState, nbytes: int, seconds: float) -> None:
        """Take note of how long it took to bring bytes from a peer to a worker."""
        links = self.links
        links.learn(worker.capacity.pool, peer.capacity.pool, nbytes, seconds)
        if links.crosses and worker.links is None:
            for w in self.workers.values():
                w.links = links

    def remove_worker(self, worker: WorkerId) -> WorkerState | None:
        """Take a worker out of the tables; what it held and ran is the caller's to mend."""
        w = self.workers.pop(worker, None)
        self.twins.clear()
        if w is not None:
            self._leave_pool(w)
        return w

    def _enter_pool(self, worker: WorkerState) -> None:
        name = worker.capacity.pool
        if name is not None:
            self.pools.setdefault(name, Pool(name)).members[worker.id] = worker

    def _leave_pool(self, worker: WorkerState) -> None:
        name = worker.capacity.pool
        if name is not None:
            pool = self.pools[name]
            del pool.members[worker.id]
            if not pool.members:
                del self.pools[name]

    def capacities(self) -> dict[WorkerId, Capacity]:
        """What each worker announced."""
        return {name: w.capacity for name, w in self.workers.items()}
