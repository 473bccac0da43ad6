"""How true the simulator is: live runs are recorded, and simulated with the durations that were measured.

    python benchmarks/fidelity.py [-k TEXT] [--part runs|policies] [--repeat N] [--strict]

- Runs: clusters in processes of their own and the embedded one; trees, shuffles, stencils, chains; cores and pretended
  devices; two pools with a slow link. Each takes 1 to 3 s, in tasks that sleep, so that the machine and what else it
  does matter little. The error is that of the simulated makespan to the recorded one.
- Policies: the same graph is run under each policy, some times. What each would take is simulated from the recordings
  of the default's runs alone. A pair counts where its live makespans (medians) differ by more than a tenth, and is
  right where the same one is the quicker.

Nothing is told to the simulator but the recording: the links between the pools are those that were measured.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fidelity_runs import CASES, COMPARED, Case, run_live

from hetsched.sims.calibration import scenario_of
from hetsched.sims.summary import simulate
from hetsched.sims.workloads.recorded import Recording, read_recording_of_run

MEDIAN, NINETY_FIFTH = 0.05, 0.12
RIGHT = 0.9
APART = 0.1
POLICIES = ("earliest_finish", "random", "round_robin", "dask_like", "locality")


def simulated(recording: Recording, policy: str = "earliest_finish") -> float:
    """The makespan of a recorded run under a policy (seconds)."""
    return simulate(replace(scenario_of(recording), policy=policy))[0].makespan


def live(case: Case, folder: Path, policy: str = "earliest_finish") -> Recording:
    """Run and record."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "run.hets"
    run_live(case, path, policy)
    return read_recording_of_run(path)


def runs(cases: Sequence[Case], folder: Path) -> list[float]:
    """Run, replay and print each; return the errors."""
    errors = []
    print(f"{'run':32} {'live':>8} {'replayed':>9} {'error':>7}")
    for case in cases:
        recording = live(case, folder)
        found = simulated(recording)
        errors.append(found / recording.makespan - 1)
        print(f"{case.name:32} {recording.makespan:8.3f} {found:9.3f} {errors[-1]:+7.1%}", flush=True)
    return errors


def policies(cases: Sequence[Case], folder: Path, repeat: int) -> tuple[int, int]:
    """Run each under each policy and print; return how many pairs were far enough apart, and how many were right."""
    pairs = right = 0
    print(f"\n{'policies':32} {'policy':16} {'live':>8} {'foretold':>9} {'error':>7}")
    for case in cases:
        rounds = [{policy: live(case, folder, policy) for policy in POLICIES} for _ in range(repeat)]
        took = {policy: statistics.median(turn[policy].makespan for turn in rounds) for policy in POLICIES}
        known = [turn[POLICIES[0]] for turn in rounds]
        foretold = {policy: statistics.median(simulated(one, policy) for one in known) for policy in POLICIES}
        for policy in POLICIES:
            off = foretold[policy] / took[policy] - 1
            print(f"{case.name:32} {policy:16} {took[policy]:8.3f} {foretold[policy]:9.3f} {off:+7.1%}", flush=True)
        for a, b in itertools.combinations(POLICIES, 2):
            if max(took[a], took[b]) > (1 + APART) * min(took[a], took[b]):
                pairs += 1
                same = (foretold[a] < foretold[b]) == (took[a] < took[b])
                right += same
                if not same:
                    print(f"{'':32} {a} against {b}: the other way round")
    return pairs, right


def quantile(values: Sequence[float], part: float) -> float:
    """The value that so large a part does not exceed, between the two nearest where there is none."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(part * 100) - 1]


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a bar is missed and ``--strict`` was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--part", choices=["runs", "policies"], help="only this part")
    parser.add_argument("--repeat", type=int, default=3, help="live runs of each policy (3)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a bar is missed")
    given = parser.parse_args(words)
    chosen = [case for case in CASES if given.k in case.name and given.part != "policies"]
    compared = [case for case in COMPARED if given.k in case.name and given.part != "runs"]
    if not chosen and not compared:
        parser.error(f"nothing has {given.k!r} in its name")
    verdicts = []

    def say(what: str, text: str, good: bool) -> None:
        verdicts.append(good)
        print(f"{what:68} {text:>8}  {'ok' if good else 'MISSED'}", flush=True)

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fidelity-") as folder:
        errors = [abs(error) for error in runs(chosen, Path(folder))] if chosen else []
        if errors:
            middle = statistics.median(errors)
            high = quantile(errors, 0.95) if len(errors) > 1 else errors[0]
            say(f"error of {len(errors)} replays, median (at most {MEDIAN:.0%})", f"{middle:.1%}", middle <= MEDIAN)
            say(f"  95th percentile (at most {NINETY_FIFTH:.0%})", f"{high:.1%}", high <= NINETY_FIFTH)
        if compared:
            pairs, right = policies(compared, Path(folder), given.repeat)
            share = right / pairs if pairs else 0.0
            what = f"same winner in {right} of {pairs} pairs more than {APART:.0%} apart (at least {RIGHT:.0%})"
            say(what, f"{share:.0%}", share >= RIGHT)
    print(f"{time.monotonic() - began:.0f} s")
    return int(given.strict and not all(verdicts))


if __name__ == "__main__":
    sys.exit(main())
