"""GPU tasks that nobody has marked: how many run in the wrong place, and what that costs.

Twenty kinds of tasks, 500 of each: six for the CPU, four that use a device and give a number back, four that put their
result on it, two that work on what is there, four that bring it to the host. The device is pretended: it works on one
thing at a time, really takes the time, and takes more when another thread uses it than the one before, as contexts do.

    python benchmarks/gpu_mixed.py            # all figures, about a minute
    python benchmarks/gpu_mixed.py --overhead # what looking costs a graph of 10,000 tasks without any device
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from statistics import median
from types import ModuleType
from typing import Any

ITEMS = 500
CPU_SECONDS = 0.0004
KERNEL_SECONDS = 0.0002
SWITCH_SECONDS = 0.0004

ran: list[tuple[str, bool]] = []
"""Each task that ran: its kind, and whether it was on a GPU lane."""


def note(kind: str) -> None:
    ran.append((kind, threading.current_thread().name.startswith("hetsched-gpu")))


class Device:
    """Serves one thread at a time, and takes a while to turn from one to another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def work(self) -> None:
        with self._lock:
            me = threading.get_ident()
            if self._last != me:
                time.sleep(SWITCH_SECONDS)
                self._last = me
            time.sleep(KERNEL_SECONDS)


device = Device()


class Array:
    """Eight numbers on the device."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.nbytes = 64

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (8,), "typestr": "<f8", "data": (id(self), False), "version": 3, "strides": None}

    def get(self) -> float:
        device.work()
        return self.value


def _asarray(value: float) -> Array:
    device.work()
    return Array(value)


def _multiply(a: Array, factor: float) -> Array:
    device.work()
    return Array(a.value * factor)


# It looks to whoever reads code as CuPy does; nothing of CuPy is there.
cp = ModuleType("cupy")
cp.asarray, cp.multiply, cp.asnumpy = _asarray, _multiply, Array.get  # type: ignore[attr-defined]
hidden = {"put": _asarray}


def _cpu(kind: str) -> Any:
    def work(*values: float) -> float:
        note(kind)
        time.sleep(CPU_SECONDS)
        return float(sum(values)) + 1.0

    return work


def _alone(kind: str, factor: float) -> Any:
    def on_device(value: float) -> float:
        note(kind)
        return float(cp.asnumpy(cp.multiply(cp.asarray(value), factor)))

    return on_device


def _put(kind: str) -> Any:
    def put(value: float) -> Array:
        note(kind)
        return cp.asarray(value)  # type: ignore[no-any-return]

    return put


def _put_unseen(kind: str) -> Any:
    def put(value: float) -> Any:
        note(kind)
        return hidden["put"](value)  # nothing in this code speaks of a device

    return put


def _double(kind: str) -> Any:
    def double(a: Any) -> Any:
        note(kind)
        device.work()
        return type(a)(2 * a.value)  # nor in this

    return double


def _fetch(kind: str) -> Any:
    def fetch(a: Any) -> Any:
        note(kind)
        device.work()
        return a.value  # nor in this

    return fetch


CPU_KINDS = [f"cpu{letter}" for letter in "abcdefgh"]
GPU_KINDS = [f"alone{c}" for c in "abcd"] + ["puta", "putb", "hidea", "hideb", "doublea", "doubleb", "fetcha", "fetchb"]


def build() -> tuple[dict[Any, Any], list[Any]]:
    """Each item goes two ways, each over the device and back."""
    func: dict[str, Any] = {kind: _cpu(kind) for kind in CPU_KINDS}
    func |= {f"alone{c}": _alone(f"alone{c}", n + 1.0) for n, c in enumerate("abcd")}
    func |= {kind: _put(kind) for kind in ("puta", "putb")} | {kind: _put_unseen(kind) for kind in ("hidea", "hideb")}
    func |= {kind: _double(kind) for kind in ("doublea", "doubleb")}
    func |= {kind: _fetch(kind) for kind in ("fetcha", "fetchb")}
    graph: dict[Any, Any] = {}
    ends = []
    for i in range(ITEMS):

        def task(kind: str, *inputs: str, i: int = i) -> None:
            graph[kind, i] = (func[kind], *[(name, i) for name in inputs]) if inputs else (func[kind], float(i))

        task("cpua")
        task("cpub")
        task("alonea", "cpua")
        task("aloneb", "cpub")
        task("cpuc", "alonea")
        task("cpud", "aloneb")
        task("puta", "cpuc")
        task("hidea", "cpud")
        task("doublea", "puta")
        task("fetcha", "doublea")
        task("doubleb", "hidea")
        task("fetchb", "doubleb")
        task("cpue", "fetcha")
        task("cpuf", "fetchb")
        task("alonec", "cpue")
        task("aloned", "cpuf")
        task("putb", "alonec")
        task("hideb", "aloned")
        graph["cpug", i] = (lambda f: lambda a: f(a.get()))(func["cpug"]), ("putb", i)
        graph["cpuh", i] = (lambda f: lambda a: f(a.get()))(func["cpuh"]), ("hideb", i)
        ends += [("cpug", i), ("cpuh", i)]
    return graph, ends


READERS = {"cpug", "cpuh"}
"""They bring an array to the host themselves, so they belong to the device too."""


def belongs(kind: str) -> bool:
    return kind in GPU_KINDS or kind in READERS


def misplaced() -> tuple[int, dict[str, int]]:
    wrong = Counter(kind for kind, on_gpu in ran if on_gpu is not belongs(kind))
    return sum(wrong.values()), dict(wrong)


def once(annotations: dict[Any, Any] | None, detect: bool = True) -> float:
    """Run the graph; the seconds it took."""
    import dask

    import hetsched

    graph, ends = build()
    ran.clear()
    with dask.config.set({"hetsched.gpu.detect": detect}):
        began = time.perf_counter()
        hetsched.get(graph, ends, num_workers=2, annotations=annotations)
        return time.perf_counter() - began


def child(cache: str) -> dict[str, Any]:
    """The first computation of a process of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "DASK_HETSCHED__GPU__LEARN": "true"}
    done = subprocess.run(
        [sys.executable, __file__, "--child"], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def placement() -> None:
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first run ever", "second run"):
            found = child(cache)
            share = 100 * found["wrong"] / found["tasks"]
            print(f"{name}: {found['wrong']} of {found['tasks']} tasks misplaced ({share:.2f}%) {found['kinds'] or ''}")


def throughput(rounds: int) -> None:
    os.environ["DASK_HETSCHED__GPU__LEARN"] = "false"
    gpu = {kind: {"gpu": True} for kind in [*GPU_KINDS, *READERS]}
    cpu = {kind: {"gpu": False} for kind in [*GPU_KINDS, *READERS]}
    once(None)
    times: dict[str, list[float]] = {"found": [], "marked by hand": [], "on the CPU": []}
    for _ in range(rounds):
        times["found"].append(once(None))
        times["marked by hand"].append(once(gpu))
        times["on the CPU"].append(once(cpu))
    for name, seconds in times.items():
        print(f"{name}: {median(seconds):.3f} s")
    print(f"throughput against marked by hand: {median(times['marked by hand']) / median(times['found']):.3f}")
    print(f"throughput against all on the CPU: {median(times['on the CPU']) / median(times['found']):.3f}")


def plain(x: int) -> int:
    return x + 1


def overhead(rounds: int) -> None:
    """CPU time of `get`, with and without looking."""
    os.environ["DASK_HETSCHED__GPU__LEARN"] = "true"
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    import dask

    import hetsched
    from hetsched.compiled import state

    graph: dict[Any, Any] = {("inc", i): (plain, i) for i in range(5000)}
    graph |= {("more", i): (plain, ("inc", i)) for i in range(5000)}
    graph["all"] = (sum, [("more", i) for i in range(5000)])
    def once(look: bool) -> float:
        with dask.config.set({"hetsched.gpu.detect": look}):
            gc.collect()
            gc.disable()
            hetsched.get(graph, "all")  # collecting leaves everything cold
            began = time.process_time()
            hetsched.get(graph, "all")
            took = time.process_time() - began
            gc.enable()
            return took

    # In pairs, and the median of what differs within them: other programs slow down both of a pair, or one of many.
    pairs = []
    for turn in range(rounds):
        first = once(bool(turn % 2))
        second = once(not turn % 2)
        pairs.append((first, second) if turn % 2 else (second, first))
    on, off = zip(*pairs, strict=True)
    shares = sorted(100 * (with_it / without - 1) for with_it, without in pairs)
    print(f"modules: {state()}; 10,001 tasks: {1e3 * median(on):.1f} ms, without looking {1e3 * median(off):.1f} ms")
    low, high = shares[rounds // 4], shares[-1 - rounds // 4]
    found = f"{median(shares):+.2f}% of get, the median of {rounds} pairs"
    print(f"cost of looking: {found} (half of them from {low:+.2f} to {high:+.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--overhead", action="store_true", help="only what looking costs")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.child:
        once(None)
        wrong, kinds = misplaced()
        print(json.dumps({"wrong": wrong, "tasks": len(ran), "kinds": kinds}))
        return
    if not given.overhead:
        placement()
        throughput(given.rounds)
    overhead(8 * given.rounds)


if __name__ == "__main__":
    main()
