"""Experiments: files, runs, expectations, tables, pictures, and what the command line makes of them."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from hetsched.core.links import Link
from hetsched.errors import HetschedError
from hetsched.sims.commands import sims
from hetsched.sims.expectation import Expectation, judge
from hetsched.sims.experiment import read_experiment
from hetsched.sims.measures import MEASURES
from hetsched.sims.model import ServerCost
from hetsched.sims.network.spec import Wire
from hetsched.sims.running import orders_of, run_one
from hetsched.sims.statistics import bootstrap, geometric_mean, mean

SMALL = """
question = "What do two workers buy?"
policies = ["earliest_finish", "random"]
seeds = 2
workload = { source = "independent", n = 8, seconds = 1.0, nbytes = 1e6 }
notes = "Little."

[[variants]]
name = "one"
machines = { name = "a" }

[[variants]]
name = "two"
machines = { count = 2 }
network = { model = "maxmin" }

[[expect]]
claim = "half the time"
of = "two / earliest_finish"
to = "one / earliest_finish"
at_most = BAR
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL.replace("BAR", "0.5"))
    return path


def ask(*arguments):
    return CliRunner().invoke(sims, list(map(str, arguments)))


def test_a_file_gives_a_cell_for_each_variant_and_policy(small):
    experiment = read_experiment(small)
    assert [(name, s.policy, len(s.machines), s.network.model) for name, s in experiment.cells()] == [
        ("one / earliest_finish", "earliest_finish", 1, "simple"), ("one / random", "random", 1, "simple"),
        ("two / earliest_finish", "earliest_finish", 2, "maxmin"), ("two / random", "random", 2, "maxmin"),
    ]  # fmt: skip
    assert [order.scenario.seed for order in orders_of(experiment)] == [0, 1] * 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("colour = 1\n" + SMALL.replace("BAR", "1"), "an experiment has no colour"),
        (SMALL.replace("BAR", "1").replace('of = "two ', 'of = "ten '), "nothing is called 'ten / earliest_finish'"),
        (SMALL.replace("BAR", "1").replace('"independent"', '"none"'), "there is no workload 'none'; there are chains"),
        (SMALL.replace("BAR", "1").replace("nbytes =", "bytes ="), "bytes"),
        ("question = 'Why?'", r"\[workload\] is missing; write such a table"),
        ("question = 1", "small.toml: question is 1; write a text"),
        ("seeds = 0\n", "seeds, policies and measures are one at least"),
        ('policies = "random"', "policies is 'random'; write a list"),
        ('measures = ["length"]', "there is no measure 'length'; there are makespan"),
        ('knowledge = "all"', "knowledge is 'all'; write 'exact' or 'user' or 'mean' or 'blind' or 'learned'"),
        ("delay = -1.0", "delay is -1.0; write a number of at least 0"),
        ("silence = inf", "silence is inf; write a number that is finite"),
        ("workload = { n = 3 }", "there is no workload None; there are chains"),
        ("workload = { source = 'cholesky', n = 3 }", "source = 'cholesky' lacks 'times'; write times = ..."),
        ("workload = { source = 'tree', n = 'many' }", "n in .workload. with source = 'tree' is 'many'; write a whole"),
        ("workload = { source = 'tree', of = 1 }", "reads 1 at a time never ends; write of = 2 or more"),
        ("workload = { source = 'cholesky', n = 2, times = { potrf = { cpu = 'x' } } }", "cpu of potrf of times in"),
        ("workload = { source = 'file', path = 'nope.json' }", "small.toml: .*No such file.*nope.json"),
        ("workload = 3", r"\[workload\] is 3; it has to be a table"),
        ("machines = { cpu = 4 }", r"\[\[machines\]\] has no 'cpu'; it has ahead, arrives"),
        ("machines = { cpus = 4.5 }", r"cpus in \[\[machines\]\] is 4.5; write a whole number"),
        ("machines = { cpus = true }", r"cpus in \[\[machines\]\] is True; write a whole number"),
        ("machines = { count = 0 }", "has none; write count = 1 or more"),
        ("machines = { speed = 0 }", "speed in .* is 0; write how many times"),
        ("machines = { resources = { licence = 'one' } }", "licence of resources in .* is 'one'; write a number"),
        ("network = { model = 'fair' }", "is 'fair'; write 'instant' or 'simple' or 'maxmin'"),
        ("network = { between = { from = 'a' } }", r"\[\[network.between\]\] lacks 'to'; write the name of a pool"),
        ("network = { uplinks = { bandwidth = 1 } }", r"\[\[network.uplinks\]\] lacks 'pool'; write the name of"),
        ("network = { downloads = 0 }", r"downloads in \[network\] is 0, so that nothing would ever move; write 1"),
        ("links = { from = 'a', to = 'b', speed = 1 }", r"\[\[links\]\] has no 'speed'; it has bandwidth, latency"),
        ("links = { from = 'a', to = 'b', bandwidth = 0 }", r"bandwidth in \[\[links\]\] is 0; write bytes per second"),
        ("noise = { straggler_chance = 2 }", "straggler_chance = 2; a chance is from 0 to 1"),
        ("server = { transition = 'measured' }", r"transition in \[server\] is 'measured'; write a number"),
        ("workload = { source = 'wfformat', path = 'small.toml' }", "small.toml is no JSON: Expecting"),
        ("workload = { source = 'file', path = 'small.toml' }", "small.toml is no JSON: Expecting"),
        ("workload = { source = 'reference', path = 'small.toml', graph = 'x' }", "small.toml is no JSON: Expecting"),
        ("noise = { sigmas = 1 }", r"\[noise\] has no 'sigmas'; it has sigma"),
        ("faults = { at = 1, kind = 'fire', worker = 'w0' }", "is 'fire'; write 'crash' or"),
        ("faults = { at = 1, worker = 'w0' }", r"\[\[faults\]\] lacks 'kind'; write kind = ..."),
        ("faults = { at = 1, kind = 'crash', worker = 'x' }", "one of 'x', and there is no such machine"),
        ("faults = { at = 1, kind = 'slow', worker = 'w0', amount = 0 }", "amount = 0 of its bandwidth"),
        ("expect = { claim = 'c', of = 'earliest_finish' }", "'c' lacks 'at_most' or 'at_least': it says nothing"),
        ("expect = { of = 'a' }", r"\[\[expect\]\] lacks 'claim'"),
        ("variants = [{ seed = 3 }]", r"each of \[\[variants\]\] needs a name of its own; one has None"),
        ("variants = [{ name = 'a' }, { name = 'a' }]", "one has 'a'"),
        ("question = ", "small.toml"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(small, words, why):
    if words.split(" ")[0] not in ("question", "colour"):
        # A whole file but for the line that is wrong.
        words += "\nworkload = { source = 'fork' }" * ("workload" not in words)
        words += "\nmachines = { count = 2 }" * ("machines" not in words)
    small.write_text(words)
    with pytest.raises(HetschedError, match=why):
        read_experiment(small)


def test_machines_without_a_name_are_numbered_on(small):
    small.write_text(
        "workload = { source = 'fork' }\n[[machines]]\ncount = 2\nmemory = 8e9\n[[machines]]\ngpus = 1\n"
        "[[machines]]\nname = 'big'\n[[machines]]\nname = 'n'\ncount = 2\n"
    )
    (scenario,) = read_experiment(small).variants.values()
    assert [(m.name, m.memory, m.gpus) for m in scenario.machines] == [
        ("w0", 8_000_000_000, 0), ("w1", 8_000_000_000, 0), ("w2", 0, 1), ("big", 0, 0), ("n0", 0, 0), ("n1", 0, 0),
    ]  # fmt: skip


def test_links_are_told_to_the_network_and_to_the_scheduler(small):
    small.write_text(
        "workload = { source = 'fork' }\nmachines = { count = 2 }\nseconds_per_price = 60\nrestart = 3\n"
        "links = { from = 'a', to = 'b', bandwidth = 5e6, price = 0.5 }\nserver = { transition = 1e-5 }\n"
        "[[network.uplinks]]\npool = 'a'\nbandwidth = 1e6\nprice = 2.0\n"
        "[[network.between]]\nfrom = 'b'\nto = 'a'\nlatency = 0.5\n"
    )
    (s,) = read_experiment(small).variants.values()
    assert (dict(s.links), s.seconds_per_price, s.restart) == ({("a", "b"): Link(5e6, None, 0.5)}, 60, 3)
    assert dict(s.network.uplinks) == {"a": Wire(1e6, 0.0, 2.0)}
    assert dict(s.network.between) == {("b", "a"): Wire(0.0, 0.5)}
    assert s.server == ServerCost(transition=1e-5)


def test_run_prints_a_table_and_fails_where_an_expectation_does(small):
    result = ask("run", small)
    assert result.exit_code == 0, result.output
    assert "yes: half the time" in result.output
    small.write_text(SMALL.replace("BAR", "0.4"))
    result = ask("run", small, "--json", "--seeds", 1)
    assert result.exit_code == 1
    found = json.loads(result.output)["small"]
    assert [(run["cell"], run["seed"], run["measures"]["makespan"]) for run in found["runs"]][:3:2] == [
        ("one / earliest_finish", 0, 8.0), ("two / earliest_finish", 0, 4.0),
    ]  # fmt: skip
    assert found["expectations"][0]["found"] == pytest.approx(0.5)
    assert set(found["runs"][0]["measures"]) == set(MEASURES)
    # With other policies there is nothing to expect.
    assert ask("run", small, "--policy", "round_robin", "--policy", "eft").exit_code == 0
    small.write_text(SMALL.replace("BAR", "0.4").replace(', "random"', "").replace(" / earliest_finish", ""))
    assert [ask("run", small, *more).exit_code for more in ((), ("--policy", "random"))] == [1, 0]
    result = ask("run", small, "--policy", "cheapest")
    assert (result.exit_code, "no placement policy 'cheapest'" in result.output) == (1, True)


def test_run_writes_pictures_a_trace_and_a_report(small, tmp_path):
    pytest.importorskip("matplotlib")
    small.write_text(SMALL.replace("BAR", "0.5").replace(', "random"', "").replace(" / earliest_finish", ""))
    out = tmp_path / "out"
    assert ask("run", small, "--out", out, "--seeds", 1).exit_code == 0
    names = {path.name for path in out.iterdir()}
    assert names >= {"report.html", "small.json", "small.svg", "small.two.gantt.png", "small.two.memory.svg"}
    page = (out / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 4
    assert "http" not in page.replace("http://www.w3.org", "")
    again = tmp_path / "again"
    assert ask("run", small, "--out", again, "--seeds", 1).exit_code == 0
    assert {name: (again / name).read_bytes() for name in names} == {name: (out / name).read_bytes() for name in names}
    events = json.loads((out / "small.two.trace.json").read_text())["traceEvents"]
    tasks = [e for e in events if e["ph"] == "X"]
    assert sorted((e["pid"], e["ts"], e["dur"]) for e in tasks) == [(w, 1e6 * n, 1e6) for w in (0, 1) for n in range(4)]
    counters = [e for e in events if e["ph"] == "C"]
    assert max(e["args"]["in memory"] for e in counters if e["name"] == "bytes") == 4e6
    running = [(e["pid"], e["ts"], e["args"]["cpu"]) for e in counters if e["name"] == "running"]
    assert running == [(w, 1e6 * n, n < 4) for w in (0, 1) for n in range(5)]


def test_equal_orders_give_equal_cells(small):
    order = orders_of(read_experiment(small))[-1]
    assert run_one(order) == run_one(order)


def test_compare_counts_wins(small):
    result = ask("compare", "earliest_finish", "locality", "random", "--on", small, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["against"] == "earliest_finish"
    assert found["policies"]["earliest_finish"]["ties"] == 2
    assert found["policies"]["random"]["mean"] >= 1.0
    assert "geometric mean" in ask("compare", "random", "--on", small).output
    assert "there is no measure 'length'; there are makespan" in ask("compare", "random", "--measure", "length").output


def test_a_run_that_comes_to_a_standstill_is_named(small):
    small.write_text("workload = { source = 'two_sites', pinned = 'all' }\nmachines = { pool = 'a' }")
    result = ask("run", small)
    assert (result.exit_code, "small, earliest_finish: the simulation has come to a" in result.output) == (1, True)


def test_results_of_two_experiments_of_one_name_are_not_mixed_up(small, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "small.toml").write_text(small.read_text())
    result = ask("run", small, tmp_path / "other" / "small.toml")
    assert (result.exit_code, "another experiment is called 'small', too" in result.output) == (1, True)


def test_list_names_what_there_is(tmp_path, small):
    found = json.loads(ask("list", tmp_path, "--json").output)
    assert found["experiments"] == {str(small): "What do two workers buy?"}
    assert {"heft", "earliest_finish"} <= set(found["policies"])


def test_expectations_compare_runs_of_equal_seeds():
    runs = {"a": [{"makespan": 2.0}, {"makespan": 9.0}], "b": [{"makespan": 1.0}, {"makespan": 18.0}]}
    assert judge(Expectation("c", "a", to="b", at_most=1.0), runs).found == pytest.approx(1.0)
    assert judge(Expectation("c", "a", at_least=5.6), runs).sentence() == (
        "NO: c (makespan of a: 5.5; expected at least 5.6)"
    )
    with pytest.raises(HetschedError, match="no measure 'length'; there are makespan"):
        judge(Expectation("c", "a", "length"), runs)


def test_means_and_intervals():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert (geometric_mean([0.0, 1.0]), geometric_mean([1.0, float("inf")])) == (0.0, float("inf"))
    values = [float(n % 10) for n in range(100)]
    low, high = bootstrap(values)
    assert 3.5 < low < mean(values) < high < 5.5
    assert bootstrap([3.0]) == (3.0, 3.0)


def test_what_needs_the_extra_says_so(small, tmp_path, monkeypatch):
    times = "{ potrf = { cpu = 1, gpu = 2 }, trsm = { cpu = 1 }, syrk = { cpu = 1 }, gemm = { cpu = 1 } }"
    small.write_text(f"workload = {{ source = 'cholesky', n = 2, times = {times} }}\nmachines = {{ gpus = 1 }}")
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = ask("run", small)
    assert (result.exit_code, "need scipy: pip install 'hetsched[sims]'" in result.output) == (1, True)
    result = ask("run", small, "--out", tmp_path / "out")
    assert (result.exit_code, "needs matplotlib: pip install 'hetsched[sims]'" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run", "--jobs", "0"], "0 is not in the range x>=1"),
        (["faults", "--seeds", "0"], "0 is not in the range x>=1"),
        (["compare", "random", "--jobs", "0"], "0 is not in the range x>=1"),
        (["adversary", "random", "eft", "--steps", "-1"], "-1 is not in the range x>=0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(small, words, why):
    result = ask(*words, *([small] if words[0] == "run" else []))
    assert (result.exit_code, why in result.output) == (2, True)


def test_names_in_tables_are_printed_as_they_are(small):
    small.write_text(SMALL.replace("BAR", "0.5").replace('"two"', '"[red]"').replace("two / ", "[red] / "))
    assert "[red] / random" in ask("run", small).output
