"""Two workers in different pools, one of which is killed in the midst of the work; the results are right all the same.

Run it with ``python examples/cluster.py``. It starts a cluster of processes on this machine, shows where things ran,
and exits with 1 where a result is wrong.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import dask
import dask.array as da
import numpy as np

import hetsched


def measure(station: int) -> float:
    """Stands for a task that takes a while."""
    time.sleep(0.2)
    return station * 1.5


def show_workers(client: hetsched.Client) -> None:
    """What the cluster consists of."""
    for name, worker in sorted(client.scheduler_info()["workers"].items()):
        slots = ", ".join(f"{n} {executor}" for executor, n in worker["executors"].items())
        print(f"  {name}: pool {worker['pool']}, Python {worker['python']}, slots: {slots}")


def count_holders(client: hetsched.Client, futures: list[hetsched.Future]) -> str:
    """How many of the results each worker holds."""
    hetsched.wait(futures)
    held = Counter(name for names in client.who_has(futures).values() for name in names)
    return ", ".join(f"{name} has {count}" for name, count in sorted(held.items()))


def main() -> int:
    """Run all of it; 1 where a result is wrong."""
    checks: list[bool] = []
    with (
        hetsched.LocalCluster(pools=["north", "south"], threads_per_worker=2) as cluster,
        hetsched.Client(cluster) as client,
    ):
        print(f"a scheduler at {cluster.address} and two workers")
        show_workers(client)

        # An array: its blocks stay on the workers, wherever the scheduler had them made.
        image = np.random.default_rng(0).random((2_000, 2_000))
        x = client.persist(da.from_array(image, chunks=250))
        blocks = list(dict(x.dask).values())
        print(f"\nthe {len(blocks)} blocks of an array: {count_holders(client, blocks)}")
        mean = client.compute((x + x.T).mean())
        checks.append(bool(np.isclose(mean.result(), (image + image.T).mean())))
        print(f"the mean of the array and its transpose: {mean.result():.6f}")

        # Delayed functions, half of them for each pool.
        halves = []
        for pool in ("north", "south"):
            with hetsched.annotate(pool=pool):
                halves.append([dask.delayed(measure, pure=True)(n) for n in range(10)])
        for pool, half in zip(("north", "south"), halves, strict=True):
            print(f"measured for pool {pool}: {count_holders(client, client.compute(*half))}")

        # Kill a worker while both are at work: what it had and what it did is made again on the other.
        victim = "worker-1"
        results = client.map(measure, range(100, 120))
        total = client.submit(sum, results)
        time.sleep(0.5)
        print(f"\n{victim} is killed; it was process {cluster.workers[victim]}")
        cluster.kill_worker(victim)
        checks.append(total.result() == sum(n * 1.5 for n in range(100, 120)))
        print(f"the sum of 20 measurements: {total.result()}; {count_holders(client, results)}")
        mean = client.compute((x - x.T).std())
        checks.append(bool(np.isclose(mean.result(), (image - image.T).std())))
        print(f"the array is whole again: {count_holders(client, blocks)}")
        stories = [client.explain(future)["text"] for future in results]
        print("\nthe story of one of them:", next((text for text in stories if "lost" in text), stories[0]), sep="\n")
    print("\nall results are right" if all(checks) else "\nsome results are wrong")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
