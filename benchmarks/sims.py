"""How fast the simulator is, with the scheduler and the workers' minds that ship in the loop.

    python benchmarks/sims.py              the bars of docs/sims.md, but for the million tasks
    python benchmarks/sims.py --million    that too
    python benchmarks/sims.py --profile    where the time goes

Rates are simulated tasks per second of CPU time, so that a busy machine tells about the same; each is the best of some
runs. The workload is two maps over as many blocks and a reduction of all, eight at a time: one dependency a task.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import subprocess
import sys
import time

from hetsched import compiled
from hetsched.sims.engine import Simulation
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.noise import uniform
from hetsched.sims.scenario import Scenario

MB = 1_000_000


def map_reduce(n: int) -> Workload:
    """About ``n`` tasks: blocks that are loaded, mapped, and summed up in trees of eight."""
    blocks = int(n / 2.143)
    tasks = [Task(("load", i), (), 0.5 + uniform(i), 10 * MB) for i in range(blocks)]
    tasks += [Task(("map", i), [i], 0.5 + uniform(i, 1), MB) for i in range(blocks)]
    level = list(range(blocks, 2 * blocks))
    depth = 0
    while len(level) > 1:
        depth += 1
        above = []
        for i in range(0, len(level), 8):
            above.append(len(tasks))
            tasks.append(Task((f"sum-level-{'abcdefghij'[depth]}", i), level[i : i + 8], 0.2, MB))
        level = above
    return Workload(f"map_reduce({n})", tasks)


def scenario(n: int, workers: int, model: str, delay: float = 0.001) -> Scenario:
    """The workload on workers of four cores."""
    machines = [Machine(f"w{i}", 4) for i in range(workers)]
    return Scenario([Submission(map_reduce(n))], machines, NetworkSpec(model, 1e9), delay=delay)  # type: ignore[arg-type]


def once(n: int, workers: int, model: str, detail: bool = True) -> tuple[float, int]:
    """Run it; returns seconds of CPU time and how many tasks there were."""
    what = scenario(n, workers, model)
    start = time.process_time()
    simulation = Simulation(what, detail=detail)
    simulation.run()
    return time.process_time() - start, simulation.trace.ran


def rate(n: int, workers: int, model: str, repeat: int = 3) -> float:
    """Simulated tasks per second, the best of some runs."""
    return max(ran / seconds for seconds, ran in (once(n, workers, model) for _ in range(repeat)))


def report(what: str, value: float, unit: str, bar: float, at_most: bool = False) -> None:
    """Print a figure and whether it reaches its bar."""
    holds = value <= bar if at_most else value >= bar
    sign = "at most" if at_most else "at least"
    print(f"{what:58} {value:10,.1f} {unit:8} ({sign} {bar:,.0f}: {'yes' if holds else 'NO'})", flush=True)


def million() -> None:
    """A million tasks, in a process of its own for its memory's sake."""
    seconds, ran = once(1_000_000, 128, "simple")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    report(f"{ran:,} tasks, 128 workers, simple", seconds, "s", 180, at_most=True)
    report("  memory", memory, "GB", 3, at_most=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--only-million", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.only_million:
        million()
        return
    print(f"Python {sys.version.split()[0]}, {compiled.state()}")
    if options.profile:
        with cProfile.Profile() as profile:
            once(10_000, 32, "simple")
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    report("10,000 tasks, 32 workers, simple", rate(10_000, 32, "simple"), "tasks/s", 20_000)
    report("10,000 tasks, 32 workers, maxmin", rate(10_000, 32, "maxmin"), "tasks/s", 10_000)
    seconds, ran = once(100_000, 128, "simple")
    report(f"{ran:,} tasks, 128 workers, simple", seconds, "s", 15, at_most=True)
    small, large = rate(1_000, 32, "simple", 10), rate(100_000, 32, "simple", 1)
    report("rate at 100,000 tasks over that at 1,000, 32 workers", 100 * large / small, "%", 70)
    if options.million:
        subprocess.run([sys.executable, __file__, "--only-million"], check=True)


if __name__ == "__main__":
    main()
