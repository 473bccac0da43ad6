"""Workloads that want devices, pools, or have tasks of very different length."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsched.sims.model import Workload
from hetsched.sims.noise import uniform

from .building import MB, Tasks

__all__ = ["MIXED"]


def search(candidates: int = 60, rounds: int = 4, seconds: float = 4.0, nbytes: float = 50 * MB) -> Workload:
    """A search for hyper-parameters by halving: all are trained for a while, the better half goes on, and so on.

    How long a model takes differs by an order of magnitude, as it does.
    """
    tasks = Tasks("search")
    data = tasks.add("load", (), 2.0, 4 * nbytes)
    models = list(range(candidates))
    last = dict.fromkeys(models, data)
    for turn in range(rounds):
        kind = f"fit-{'mnopqrst'[turn % 8]}"
        trained = {}
        for m in models:
            lasts = seconds * 10 ** (uniform(m, 5) - 0.5) * 2**turn
            trained[m] = tasks.add((kind, m), {data: None, last[m]: None}, lasts, nbytes)
        scores = [tasks.add((f"{kind}-score", m), [trained[m], data], seconds / 10, 8) for m in models]
        best = tasks.add(f"{kind}-rank", scores, 0.01, 8)
        models = sorted(models, key=lambda m: uniform(m, 6))[: max(1, len(models) // 2)]
        last = {m: tasks.add((f"{kind}-keep", m), [trained[m], best], 0.001, nbytes) for m in models}
    return tasks.done()


def rapids(
    n: int = 40, seconds: float = 1.0, nbytes: float = 200 * MB, speedup: float = 10.0, marked: bool = False
) -> Workload:
    """Frames read and cleaned on cores, then joined, grouped and trained on, devices being ``speedup`` times as fast.

    With ``marked`` a person has said which tasks are a device's (``executor="gpu"``); else they go where they are put.
    """
    tasks = Tasks("rapids")
    notes = {"executor": "gpu"} if marked else {}
    device = {"cpu": seconds * 2, "gpu": seconds * 2 / speedup}
    grouped = []
    for i in range(n):
        read = tasks.add(("read_parquet", i), (), seconds * (0.7 + 0.6 * uniform(i)), nbytes)
        clean = tasks.add(("clean", i), [read], seconds / 2, nbytes)
        joined = tasks.add(("join", i), [clean], device, nbytes, **notes)
        grouped.append(tasks.add(("groupby", i), [joined], device, MB, **notes))
        tasks.add(("to_parquet", i), [joined], seconds / 2, 8)
    total = tasks.reduce("groupby-agg", grouped, 0.05, MB, 8)
    tasks.add("train", [total], {"cpu": seconds * 20, "gpu": seconds * 20 / speedup}, MB, **notes)
    return tasks.done()


def two_sites(
    n: int = 24, seconds: float = 2.0, nbytes: float = 200 * MB, a: str = "a", b: str = "b", pinned: str = "sources"
) -> Workload:
    """Tables that lie at two sites are filtered and joined.

    The sources of each can only be read at their own site. ``pinned`` says what else is told where to run: nothing
    ("sources"), the filters, as propagation through the graph would have them ("filters"), or everything at a ("all").
    """
    tasks = Tasks("two_sites")
    ends: list[list[int]] = []
    for pool in (a, b):
        near = {"pool": pool} if pinned == "filters" else {"pool": a} if pinned == "all" else {}
        sources = [tasks.add((f"read_{pool}", i), (), seconds, nbytes, pool=pool) for i in range(n)]
        ends.append([tasks.add((f"filter_{pool}", i), [s], seconds, nbytes / 20, **near) for i, s in
        enumerate(sources)])
    here = {"pool": a} if pinned == "all" else {}
    pairs = enumerate(zip(*ends, strict=True))
    joined = [tasks.add(("merge", i), [left, right], seconds, MB, **here) for i, (left, right) in pairs]
    tasks.reduce("total", joined, 0.1, MB, 8)
    return tasks.done()


MIXED: Mapping[str, Callable[..., Workload]] = {make.__name__: make for make in (search, rapids, two_sites)}
