"""Runs dask's own installed test suites on `hetsched.get` and compares them with unmodified dask.

    python tests/dask_suites/run.py                  # everything: `make dask-suites`
    python tests/dask_suites/run.py --sample         # what CI runs: `make dask-suites SAMPLE=1`
    python tests/dask_suites/run.py --suite array -k reduction
    HETSCHED_SUITE_GET=dask.threaded:get python tests/dask_suites/run.py --suite base   # another get

Each test file runs twice, in pytest processes of its own, two at a time: with every named scheduler and default
scheduler of dask replaced by the get (see `plugin.py`), and unmodified. The outcomes of unmodified dask are kept under
`.baseline/`, by the versions that matter, so that a second run needs about half the time. A test that passes
unmodified and not with ours is a deviation; it is run again, to tell whether it always is. `deviations.toml` lists the
accepted ones with the reason. Exit status 1: an unlisted deviation, or a listed one that no longer occurs.

Seconds that 16,900 tests took unmodified (dask 2026.8.0, no scipy, 2 busy cores): array 362, bag 109, dataframe 2821,
expr 601, base 16, diagnostics 4, more 24: 37 minutes by two processes, where ours took 29. The sample of about 1,000
tests takes under 3 minutes for both. A test may take 60 seconds, one that dask marks as slow five times that, and one
known to take dask more than 5 seconds ten times what it takes dask; one that takes more counts as hung, and only it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from compare import Outcomes, baseline_path, deviates, judge, read_baseline, read_known, write_baseline
from processes import HERE, WORK, Outcome, Request, kill_all, run_unit
from suites import SUITES, Unit, dask_root, sample_of, size_of, units_of

DEFAULT = "hetsched:get"

UNMODIFIED_LIMIT = 600.0
"""Seconds for one test of unmodified dask."""

Results = dict[Unit, Outcomes]


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for, print the table, return the exit status."""
    options = parse(argv)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a shell's background job: tests of Ctrl-C would wait for ever, dask's own too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    root = dask_root()
    pick = sample_of if options.sample else units_of
    units = [unit for suite in options.suite or SUITES for unit in pick(suite, root)]
    units.sort(key=lambda unit: size_of(unit, root), reverse=True)
    request = Request(os.environ.get("HETSCHED_SUITE_GET", DEFAULT), options.limit, keyword=options.k)
    print(f"dask's suites on {request.target}: {len(units)} pytest processes, {options.jobs} at a time", flush=True)
    request = request._replace(slow=slow(read_baseline(baseline_path())))
    ours = run_all(dict.fromkeys(units, request), options.jobs)
    theirs = baseline(ours, request._replace(target="", limit=UNMODIFIED_LIMIT), options)
    request = request._replace(slow=slow(theirs))
    if not (options.sample or options.k):
        add_missing(ours, theirs)
    deviating = retry(ours, theirs, request)
    print_table(ours, theirs, deviating)
    print_engine(ours, request.target)
    return print_verdict(ours, deviating, request.target, full=not (options.sample or options.k or options.suite))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="dask's own tests on hetsched.get, compared with unmodified dask")
    parser.add_argument("--sample", action="store_true", default=os.environ.get("SAMPLE", "") not in {"", "0"})
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this suite (may be repeated)")
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="only tests that match, as in pytest")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for one test (default 60)")
    parser.add_argument("--jobs", type=int, default=2, help="pytest processes at a time (default 2)")
    parser.add_argument("--fresh", action="store_true", help="run unmodified dask again, whatever was kept")
    return parser.parse_args(argv)


def slow(theirs: Outcomes) -> dict[str, float]:
    """Limits for tests that take unmodified dask long: ten times as long."""
    return {test: 10 * outcome.seconds for test, outcome in theirs.items() if outcome.seconds > 5.0}


def run_all(requests: dict[Unit, Request], jobs: int, keep: Callable[[Outcomes], object] = len) -> Results:
    """Run each unit, a few at a time, say when each is through, and have its outcomes kept."""
    one = threading.Lock()

    def run(unit: Unit) -> Outcomes:
        begin = time.monotonic()
        outcomes = run_unit(unit, requests[unit])
        bad = sum(outcome.bad for outcome in outcomes.values())
        kind = requests[unit].target or "unmodified"
        seconds = time.monotonic() - begin
        print(f"  {unit.name:14} {kind:20} {len(outcomes):5} tests {bad:4} not passed {seconds:5.0f} s", flush=True)
        with one:
            keep(outcomes)
        return outcomes

    with ThreadPoolExecutor(jobs) as pool:
        try:
            return dict(zip(requests, pool.map(run, requests), strict=True))
        except KeyboardInterrupt:
            kill_all()
            raise


def baseline(ours: Results, request: Request, options: argparse.Namespace) -> Outcomes:
    """The outcomes of unmodified dask for all that ran: the kept ones, and those that a run now finds."""
    path = baseline_path()
    kept = {} if options.fresh else read_baseline(path)
    missing = {unit: tuple(test for test in outcomes if test not in kept) for unit, outcomes in ours.items()}

    def keep(outcomes: Outcomes) -> None:
        write_baseline(path, read_baseline(path) | outcomes)

    for outcomes in run_all(
        {u: request._replace(only=m) for u, m in missing.items() if m}, options.jobs, keep
    ).values():
        kept |= outcomes
    return kept


def add_missing(ours: Results, theirs: Outcomes) -> None:
    """In a run of whole files, note tests that unmodified dask has and ours never reached."""
    for unit, outcomes in ours.items():
        for test in theirs:
            if test.partition("::")[0] in unit.files and test not in outcomes:
                outcomes[test] = Outcome("missing", error="never reached")


def retry(ours: Results, theirs: Outcomes, request: Request) -> list[str]:
    """The tests that deviate. Each is run again, now with a limit that knows how long unmodified dask takes.

    One that passes then still deviates, and is told apart: results that are wrong at times are wrong. Only a test that
    hung the first time and not the second was just slow, and its second outcome counts.
    """
    deviating: list[str] = []
    for unit, outcomes in ours.items():
        suspects = tuple(test for test, outcome in outcomes.items() if deviates(outcome, theirs.get(test)))
        again = run_unit(unit, request._replace(only=suspects, keyword="", label="again")) if suspects else {}
        for test in suspects:
            first, second = outcomes[test], again.get(test)
            if second is None or deviates(second, theirs.get(test)):
                deviating.append(test)
            elif first.outcome == "hung":
                outcomes[test] = second
            else:
                outcomes[test] = first._replace(error=f"(not when run again) {first.error}")
                deviating.append(test)
    return deviating


def print_table(ours: Results, theirs: Outcomes, deviating: list[str]) -> None:
    """One line a suite: tests, those that run a graph, passed both ways, deviations, seconds both ways."""
    print(
        f"\n{'suite':12}{'tests':>8}{'with graphs':>12}{'passed both':>12}{'deviations':>12}{'ours s':>8}{'dask s':>8}"
    )
    sums = [0.0] * 6
    for suite in dict.fromkeys(unit.suite for unit in ours):
        tests = {test: out for unit in ours if unit.suite == suite for test, out in ours[unit].items()}
        same = [theirs.get(test, Outcome("none")) for test in tests]
        row = [
            len(tests),
            sum(other.graphs > 0 for other in same),
            sum(out.outcome == other.outcome == "passed" for out, other in zip(tests.values(), same, strict=True)),
            sum(test in tests for test in deviating),
            sum(out.seconds for out in tests.values()),
            sum(other.seconds for other in same),
        ]
        print_row(suite, row)
        sums = [a + b for a, b in zip(sums, row, strict=True)]
    print_row("all", sums)


def print_row(name: str, row: list[float]) -> None:
    """One line of the table."""
    print(f"{name:12}{row[0]:8.0f}{row[1]:12.0f}{row[2]:12.0f}{row[3]:12.0f}{row[4]:8.0f}{row[5]:8.0f}")


def print_engine(ours: Results, target: str) -> None:
    """Name the tests in which dask's own engine still ran a graph: they say little about ours."""
    if not target.startswith("dask."):
        tests = [test for outcomes in ours.values() for test, outcome in outcomes.items() if outcome.graphs]
        print_list("in which dask's own engine still ran a graph (they hand it an executor)", tests, ours)


def print_list(title: str, tests: list[str], ours: Results) -> None:
    """Some tests, each with the first line of what went wrong."""
    found = {test: outcome for outcomes in ours.values() for test, outcome in outcomes.items()}
    if tests:
        print(f"\n{len(tests)} {title}:")
    for test in tests:
        print(f"  {found[test].outcome}: {test}\n      {found[test].error}")


def print_verdict(ours: Results, deviating: list[str], target: str, *, full: bool) -> int:
    """Hold the deviations against the list, say what differs, return the exit status."""
    known = read_known(HERE / "deviations.toml") if target == DEFAULT else []
    ran = {test: outcome for outcomes in ours.values() for test, outcome in outcomes.items()}
    verdict = judge(deviating, ran, known, full=full)
    reasons: dict[str, list[str]] = {}
    for test, entry in verdict.listed.items():
        reasons.setdefault(entry.reason, []).append(test)
    for reason, tests in reasons.items():
        print_list(f"known: {reason}", tests, ours)
    print_list(f"UNLISTED DEVIATIONS (output in {WORK})", verdict.unlisted, ours)
    for entry in verdict.stale:
        print(f"\nLISTED IN deviations.toml, BUT NO LONGER SO: {entry.tests}")
    if not verdict.unlisted and not verdict.stale:
        print(f"\nno deviation beyond the {len(verdict.listed)} listed")
    return 1 if verdict.unlisted or verdict.stale else 0


if __name__ == "__main__":
    sys.exit(main())
