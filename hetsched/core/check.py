"""Recompute every index of the scheduler's state from the truth and compare."""

from __future__ import annotations

import math

from .state import Phase, State, TaskState, WorkerState

__all__ = ["check"]


def check(state: State) -> None:
    """Raise AssertionError where anything the state keeps in place differs from what follows from the phases."""
    dependents: dict[int, list[int]] = {task: [] for task in state.tasks}
    for (client, number), graph in sorted(state.graphs.items(), key=lambda item: item[1].base):
        assert (graph.client, graph.number) == (client, number)
        reads = set()
        for position, ts in enumerate(graph.tasks):
            for d in ts.dependencies:
                dependents[d.id].append(ts.id)
                reads.add(d.graph)
            assert ts.graph is graph and ts.id == graph.base + position and state.tasks[ts.id] is ts
        assert set(graph.reads) == reads - {graph}, f"graph {number} of {client!r} reads from {reads}"
        assert all(graph in source.readers for source in graph.reads)
        assert all(graph in reader.reads for reader in graph.readers)
        assert not graph.left or (graph.readers and not graph.wanted), f"graph {number} of {client!r} was left"
    for ts in state.tasks.values():
        assert sorted(d.id for d in ts.dependents) == dependents[ts.id], f"{ts!r} has other dependents than it is said"
    assert len(state.tasks) == sum(len(g.tasks) for g in state.graphs.values()), "a task outlives its graph"
    for ts in state.tasks.values():
        _check_task(state, ts)
    for worker in state.workers.values():
        _check_worker(state, worker)
    _check_ready(state)
    assert not state.flipped, "a verdict has not been carried out"
    for kind in state.prefixes.values():
        assert kind.gpu is (kind.case is not None and kind.case.places), f"{kind.kind}: the verdict is not its case's"
        assert state.suspects or kind.case is None
        assert kind.met_in is None and kind.met is None, f"{kind.kind} keeps the kinds of a graph"


def _check_task(state: State, ts: TaskState) -> None:
    def same(name: str, kept: object, true: object) -> None:
        assert kept == true, f"{ts!r}.{name} is {kept!r} and should be {true!r}; story: {ts.tell_story()}"

    done = (Phase.MEMORY,)
    placed = (Phase.MEMORY, Phase.ASSIGNED)
    live = (Phase.WAITING, Phase.READY, Phase.ASSIGNED)
    if ts.phase in live:
        same("waiting_on", ts.waiting_on, sum(d.phase not in done for d in ts.dependencies))
        same("unplaced", ts.unplaced, sum(d.phase not in placed for d in ts.dependencies))
    wanted = ts.id - ts.graph.base in ts.graph.wanted
    same("wanted", ts.wanted, wanted)
    if ts.phase is not Phase.FAILED:
        same("users", ts.users, sum(d.phase in live for d in ts.dependents) + wanted + ts.graph.open)
    same("is held", bool(ts.who_has), ts.phase is Phase.MEMORY)
    same("is processing", ts.processing_on is not None, ts.phase is Phase.ASSIGNED)
    for worker in ts.who_has:
        same("holder", state.workers.get(worker.id), worker)
    if ts.phase is Phase.READY:
        same("inputs of a ready task", ts.waiting_on, 0)
    if ts.phase is Phase.WAITING:
        assert ts.waiting_on > 0, f"{ts!r} waits for nothing; story: {ts.tell_story()}"
    if ts.phase is Phase.ASSIGNED:
        where = ts.processing_on
        assert where is not None
        same("its worker", state.workers.get(where.id), where)
        for d in ts.dependencies:
            assert d.phase is Phase.MEMORY or d.processing_on is where, f"{ts!r} was assigned and {d!r} is not there"
    _check_users(ts, wanted)
    _check_place(state, ts)


def _check_place(state: State, ts: TaskState) -> None:
    whole = ts.needs.whole or ts.needs
    base = whole.base or whole
    assert whole is base or whole is base.twin, f"{ts!r} has other demands than its own"
    if not base.free or ts.phase not in (Phase.WAITING, Phase.READY):
        return
    usable = any(base.on_gpu().may_meet(name, w.capacity) for name, w in state.workers.items())
    if ts.prefix.gpu and usable:
        assert whole is base.twin, f"{ts!r} is a GPU task and does not demand a GPU; story: {ts.tell_story()}"
    if not usable:
        assert whole is base, f"{ts!r} demands a GPU, and no worker has one; story: {ts.tell_story()}"


def _check_users(ts: TaskState, wanted: bool) -> None:
    if ts.phase in (Phase.MEMORY, Phase.RELEASED):
        assert (ts.users > 0) == (ts.phase is Phase.MEMORY), f"{ts!r} has {ts.users} users; {ts.tell_story()}"
    assert not ts.expected or ts.phase is Phase.ASSIGNED, f"{ts!r} is expected of nobody"
    if ts.forgets:
        assert not ts.graph.open, f"{ts!r} forgets while more readers may come"
        assert not wanted and all(d.phase not in (Phase.WAITING, Phase.READY) for d in ts.dependents), f"{ts!r} forgets"


def _check_worker(state: State, worker: WorkerState) -> None:
    assigned = dict.fromkeys(worker.assigned, 0)
    nbytes = held = coming = claims = 0
    claimed: dict[str, float] = {}
    for ts in state.tasks.values():
        if ts.processing_on is worker:
            assigned[ts.executor] += 1
            coming += ts.expected
            claims += bool(ts.needs.resources)
            for name, amount in ts.needs.resources:
                claimed[name] = claimed.get(name, 0.0) + amount
        if worker in ts.who_has:
            nbytes += ts.nbytes
            held += 1
    for kind, tasks in worker.guessed.items():
        assert tasks, f"{worker!r} is said to have {kind.name!r}, unmeasured"
        assert all(ts.processing_on is worker and ts.prefix is kind for ts in tasks), f"{worker!r} has not all {tasks}"
    for ts, readers in worker.fetching.items():
        readers_there = sum(d.processing_on is worker for d in ts.dependents)
        assert 0 < readers <= readers_there, f"{worker!r} fetches {ts!r} for {readers} tasks, truly {readers_there}"
        assert worker not in ts.who_has, f"{worker!r} fetches {ts!r}, which it has"
    assert worker.assigned == assigned, f"{worker!r} is said to run {worker.assigned} and runs {assigned}"
    assert (worker.nbytes, worker.held) == (nbytes, held), f"{worker!r}: {worker.nbytes} bytes, truly {nbytes}"
    assert worker.links is (state.links if state.links.crosses else None), f"{worker!r} knows of other links"
    _check_copies(state, worker)
    assert (worker.coming, worker.claims) == (coming, claims), f"{worker!r}: {worker.coming} bytes to come"
    for name in {**claimed, **worker.claimed}:
        near = math.isclose(worker.claimed.get(name, 0.0), claimed.get(name, 0.0), abs_tol=1e-6)
        assert near, f"{worker!r} is said to be asked for {worker.claimed} and is for {claimed}"
    if not any(assigned.values()):
        assert worker.occupancy == 0.0


def _check_copies(state: State, worker: WorkerState) -> None:
    if worker.copying is None:
        return
    others = any(w.copying is None for w in state.workers.values())
    for ts in state.tasks.values():
        if ts.who_has == (worker,):
            assert ts.id in worker.copying, f"{ts!r} would be lost with {worker!r}"
            target = worker.copying[ts.id]
            there = target is not None and state.workers.get(target.id) is target
            assert there or not others, f"{ts!r} is copied from {worker!r} by {target!r}"


def _check_ready(state: State) -> None:
    queued = {(needs, task) for needs, heap in state.ready.items() for _, task in heap}
    held = {task for heap in state.held.values() for _, task, _ in heap}
    for ts in state.tasks.values():
        if ts.phase is Phase.READY:
            known = ts.id in held or (ts.needs, ts.id) in queued
            assert known, f"{ts!r} is ready and in no queue; story: {ts.tell_story()}"
