"""Data in two places, and what crosses between them: as it happens to run, and with pools propagated.

Run it with ``python examples/pools.py``. It starts a cluster of two pools on this machine, tells what propagation would
do, computes both ways, and counts the bytes that the workers really fetched from each other. It exits with 1 where a
result is wrong or propagation has more bytes cross. ``--picture FILE`` draws the graph (it needs Graphviz).
"""

from __future__ import annotations

import argparse
import sys
import time

import dask
import dask.array as da
import numpy as np

import hetsched

ROWS, COLUMNS, CHUNK = 2000, 1000, 500


def build() -> list[da.Array]:
    """A large archive in A, one day in B, and a grid that may be made anywhere."""
    with hetsched.pool("A"):
        archive = da.random.default_rng(1).random((ROWS, COLUMNS), chunks=(CHUNK, CHUNK))
    with hetsched.pool("B"):
        day = da.random.default_rng(2).random(COLUMNS, chunks=CHUNK)
    grid = da.random.default_rng(3).random((ROWS, COLUMNS), chunks=(CHUNK, CHUNK))
    return [(archive - 1).sum(), day - archive.mean(), (archive * grid).max()]


def fetched(client: hetsched.Client) -> int:
    """The bytes that all workers have fetched from each other, once they have told of what was done before."""
    now = time.perf_counter()
    while True:
        facts = [worker["facts"] for worker in client.scheduler_info()["workers"].values()]
        if all(fact.get("time", 0) > now for fact in facts):
            return sum(fact["fetched"] for fact in facts)
        time.sleep(0.05)


def run(client: hetsched.Client, arrays: list[da.Array]) -> tuple[tuple[np.ndarray, ...], int]:
    """The results, and the bytes that crossed for them."""
    before = fetched(client)
    values = dask.compute(*arrays, scheduler=client)
    return values, fetched(client) - before


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", metavar="FILE", help="draw the graph and its pools")
    options = parser.parse_args()
    arrays = build()
    report = hetsched.pool_report(*arrays)
    print(report)
    if options.picture:
        with hetsched.propagate_pools():
            hetsched.visualize_pools(*arrays, filename=options.picture)
    with (
        hetsched.LocalCluster(pools=["A", "B"], threads_per_worker=2, silence=1.0) as cluster,
        hetsched.Client(cluster) as client,
    ):
        print("\nbytes that crossed between the pools")
        plain, before = run(client, arrays)
        print(f"  before, without propagation: {before:>12,}")
        with hetsched.propagate_pools():
            propagated, after = run(client, arrays)
        print(f"  after, with propagation:     {after:>12,}")
    right = all(np.allclose(one, other) for one, other in zip(plain, propagated, strict=True))
    if not right:
        print("the results differ")
    return 0 if right and after <= before else 1


if __name__ == "__main__":
    sys.exit(main())
