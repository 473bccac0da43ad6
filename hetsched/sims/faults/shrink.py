"""Make a case that goes wrong smaller, as long as it goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hetsched.sims.model import Noise, ServerCost, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec

from .case import Case

__all__ = ["shrink", "tell"]


def shrink(case: Case, fails: Callable[[Case], bool], most: int = 500) -> Case:
    """Leave out of a case whatever can be left out, trying ``most`` smaller cases at most."""
    tried = 0
    while True:
        for smaller in _smaller(case):
            tried += 1
            if tried > most:
                return case
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with something less, those that lack most first."""
    scenario = case.scenario
    for kept in _without(scenario.submissions):
        if kept:
            yield replace(case, scenario=replace(scenario, submissions=kept))
    for kept in _without(scenario.faults):
        yield replace(case, scenario=replace(scenario, faults=kept))
    *others, last = scenario.machines
    for kept in _without(others):
        yield replace(case, scenario=replace(scenario, machines=[*kept, last]))
    for n, submission in enumerate(scenario.submissions):
        for tasks in _fewer_tasks(submission.workload.tasks):
            less = list(scenario.submissions)
            less[n] = replace(submission, workload=Workload(submission.workload.name, tasks))
            yield replace(case, scenario=replace(scenario, submissions=less))
    yield from _simpler(case)


def _simpler(case: Case) -> Iterator[Case]:
    """Cases that differ from the usual by less."""
    scenario = case.scenario
    if case.broken or case.flaky:
        yield replace(case, broken=frozenset(), flaky=frozenset())
    if scenario.noise != Noise():
        yield replace(case, scenario=replace(scenario, noise=Noise()))
    if scenario.server != ServerCost():
        yield replace(case, scenario=replace(scenario, server=ServerCost()))
    if scenario.network != NetworkSpec("instant"):
        yield replace(case, scenario=replace(scenario, network=NetworkSpec("instant")))
    if scenario.delay:
        yield replace(case, scenario=replace(scenario, delay=0.0))
    for n, submission in enumerate(scenario.submissions):
        tasks = submission.workload.tasks
        for k, task in enumerate(tasks):
            if task.annotations:
                plain = Task(task.key, task.dependencies, task.seconds, task.nbytes)
                less = list(scenario.submissions)
                workload = Workload(submission.workload.name, [*tasks[:k], plain, *tasks[k + 1 :]])
                less[n] = Submission(workload, submission.at)
                yield replace(case, scenario=replace(scenario, submissions=less))


def _without(things: Sequence[Any]) -> Iterator[list[Any]]:
    """The things without the first half, without the second, and without each."""
    count = len(things)
    if count > 3:
        yield list(things[count // 2 :])
        yield list(things[: count // 2])
    for n in range(count):
        yield [*things[:n], *things[n + 1 :]]


def _fewer_tasks(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """The tasks without some of them; what read those reads them no more."""
    for kept in _without(range(len(tasks))):
        if kept:
            where = {old: new for new, old in enumerate(kept)}
            yield [
                Task(t.key, [where[d] for d in t.dependencies if d in where], t.seconds, t.nbytes, t.annotations)
                for t in (tasks[old] for old in kept)
            ]


def tell(case: Case) -> str:
    """Write a case down for a person."""
    scenario = case.scenario
    lines = [
        f"seed {case.seed}, {scenario.policy}, knowledge {scenario.knowledge}, delay {scenario.delay:g} s, silence "
        f"{scenario.silence:g} s",
        f"  {scenario.server}, {scenario.noise}",
        f"  {scenario.network}",
    ]
    lines += [f"  {machine}" for machine in scenario.machines]
    for submission in scenario.submissions:
        lines.append(f"  graph {submission.workload.name} at {submission.at:g} s, wanted {submission.workload.goals()}")
        for position, task in enumerate(submission.workload.tasks):
            fate = "always fails" if task.key in case.broken else "fails once" if task.key in case.flaky else ""
            lines.append(f"    {position}: {task!r} {dict(task.annotations or {}) or ''} {fate}".rstrip())
    lines += [f"  {fault}" for fault in scenario.faults]
    return "\n".join(lines)
