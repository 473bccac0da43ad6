"""Where workloads come from."""

from __future__ import annotations

import json

import pytest

from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined, WorkerLost
from hetsched.core.types import Capacity, TaskSpec, prefix_of
from hetsched.errors import HetschedError
from hetsched.server.recording import Recorder
from hetsched.sims import from_dask
from hetsched.sims.bounds import bounds
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate
from hetsched.sims.workloads import FILES, SOURCES, read_native, write_native
from hetsched.sims.workloads.recorded import read_recording_of_run
from hetsched.sims.workloads.reference import read_reference
from hetsched.sims.workloads.tiles import FACTORISATIONS
from hetsched.sims.workloads.wfformat import read_wfformat

SMALL = {
    "tree": ({"n": 16}, {"load": 16, "chunk": 16, "aggregate-ax": 2, "aggregate-bx": 1}),
    "shuffle": ({"n": 3}, {"read": 3, "split": 3, "getitem": 9, "concat": 3, "write": 3}),
    "stencil": ({"n": 3, "steps": 1}, {"load": 9, "step-m-border": 9, "step-m": 9, "store": 9}),
    "climatology": ({"years": 2, "parts": 1}, {"open": 2, "mean_chunk": 2, "mean_agg-ax": 1, "anomaly": 2, "std": 1}),
    "product": ({"n": 2}, {"left": 4, "right": 4, "dot": 8, "sum-ax": 4}),
    "independent": ({"n": 4}, {"task": 4}),
    "chains": ({"n": 2, "length": 3}, {"link": 6}),
    "fork": ({"n": 2}, {"make": 2, "left": 2, "right": 2}),
    "merge_neighbours": ({"n": 3}, {"make": 3, "merge": 3}),
    "crossv": ({"folds": 2, "models": 2}, {"split": 2, "train": 4, "score": 4, "mean": 2}),
    "splitters": ({"depth": 2}, {"split": 7}),
    "conflux": ({"depth": 2}, {"join": 7}),
    "grid": ({"n": 3}, {"cell": 9}),
    "search": (
        {"candidates": 4, "rounds": 1},
        {"load": 1, "fit-m": 4, "fit-m-score": 4, "fit-m-rank": 1, "fit-m-keep": 2},
    ),
    "rapids": (
        {"n": 2},
        {"read_parquet": 2, "clean": 2, "join": 2, "groupby": 2, "to_parquet": 2, "groupby-agg-ax": 1, "train": 1},
    ),
    "two_sites": (
        {"n": 2}, {"read_a": 2, "read_b": 2, "filter_a": 2, "filter_b": 2, "merge": 2, "total-ax": 1},
    ),
}  # fmt: skip


def test_each_generator_has_a_case():
    assert {*SMALL, *FACTORISATIONS, *FILES} == set(SOURCES)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_generators_make_graphs_that_run(name):
    arguments, kinds = SMALL[name]
    workload = SOURCES[name](**arguments)
    found = {}
    for task in workload.tasks:
        found[prefix_of(task.key)] = found.get(prefix_of(task.key), 0) + 1
    assert found == kinds
    machines = [Machine("x", 2, pool="a"), Machine("y", 2, pool="b")]
    summary, _ = simulate(Scenario([Submission(workload)], machines, NetworkSpec("simple")), is_checked=True)
    assert summary.makespan >= bounds(workload, machines, exact=False).best - 1e-9
    assert summary.runs == len(workload.tasks)


def test_a_workload_is_written_and_read(tmp_path):
    tasks = [
        Task(("x", 0, ("a", 1)), (), {"cpu": 2.0, "gpu": 0.5}, 7, {"pool": "a"}, (1.5, 9)),
        Task("y", [0], 1.0, 0),
    ]
    write_native(Workload("w", tasks, [1]), tmp_path / "w.json")
    found = read_native(tmp_path / "w.json")
    assert (found.name, found.wanted, list(map(repr, found.tasks))) == ("w", [1], list(map(repr, tasks)))
    assert (found.tasks[0].annotations, found.tasks[0].hints) == ({"pool": "a"}, (1.5, 9))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "is no workload"),
        ({"format": "hetsched workload", "version": 1, "tasks": [{"key": "x", "dependencies": [0]}]}, "not before it"),
        ({"format": "hetsched workload", "version": 1, "tasks": [{"seconds": 1}]}, "the task at 0 has no key"),
        ({"format": "hetsched workload", "version": 1, "tasks": [], "wanted": [0]}, "position 0 is wanted, and there"),
    ],
)
def test_a_file_that_is_no_workload_is_refused(tmp_path, said, why):
    (tmp_path / "w.json").write_text(json.dumps(said))
    with pytest.raises(HetschedError, match=why):
        read_native(tmp_path / "w.json")


WORKFLOW = {
    "name": "small",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"id": "b_ID2", "name": "b_ID2", "parents": ["a_ID1"], "children": ["c"], "inputFiles": ["f1"],
                 "outputFiles": ["f3"]},
                {"id": "a_ID1", "name": "a_ID1", "parents": [], "children": ["b_ID2", "c"], "inputFiles": ["f0"],
                 "outputFiles": ["f1", "f2", "f9"]},
                {"id": "c", "name": "c", "parents": ["a_ID1", "b_ID2"], "children": [], "inputFiles": ["f2", "f3"],
                 "outputFiles": ["f4"]},
            ],
            "files": [{"id": f"f{n}", "sizeInBytes": 10**n} for n in range(5)],
        },
        "execution": {"tasks": [{"id": "a_ID1", "runtimeInSeconds": 1.5}, {"id": "b_ID2", "runtimeInSeconds": 2},
                                {"id": "c", "runtimeInSeconds": 3}]},
    },
}  # fmt: skip


def test_wfformat(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(WORKFLOW))
    rows = [(t.key, list(t.dependencies), t.seconds, t.nbytes) for t in read_wfformat(path).tasks]
    assert rows == [
        (("a", "a_ID1"), [], 1.5, 110), (("b", "b_ID2"), [0], 2.0, 1000), (("c", "c"), [0, 1], 3.0, 0),
    ]  # fmt: skip
    apart = [(list(t.dependencies), t.nbytes) for t in read_wfformat(path, files=True).tasks]
    assert apart == [([], 110), ([0], 10), ([0], 100), ([1], 1000), ([2, 3], 0)]
    # Some writers name parents only.
    alone = json.loads(json.dumps(WORKFLOW))
    for task in alone["workflow"]["specification"]["tasks"]:
        del task["children"]
    path.write_text(json.dumps(alone))
    assert [(t.key, list(t.dependencies), t.seconds, t.nbytes) for t in read_wfformat(path).tasks] == rows
    with pytest.raises(HetschedError, match=r"not of WfFormat 1\.5"):
        path.write_text("{}")
        read_wfformat(path)


def test_what_wfformat_1_6_adds_changes_nothing(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(WORKFLOW))
    before = list(map(repr, read_wfformat(path).tasks))
    newer = json.loads(json.dumps(WORKFLOW)) | {"schemaVersion": "1.6", "createdAt": "2026-05-01T12:00:00Z"}
    workflow = newer["workflow"]
    workflow["specification"]["metrics"] = {"numberOfTasks": 3, "numberOfFiles": 5, "totalFileSizeInBytes": 11111}
    workflow["execution"] |= {"metrics": {"totalWorkInSeconds": 6.5}, "executedAt": "2026-05-01T12:00:00Z"}
    workflow["execution"]["tasks"][0] |= {"executedAt": "2026-05-01T12:00:01Z", "machines": ["m1"]}
    path.write_text(json.dumps(newer))
    assert list(map(repr, read_wfformat(path).tasks)) == before


def test_a_graph_of_a_reference_file(tmp_path):
    rows = [
        {"id": 7, "duration": 2.0, "cpus": 2, "outputs": [1.0, 3.0], "inputs": []},
        {"id": 9, "duration": 1.0, "cpus": 1, "outputs": [], "inputs": [[7, 1]]},
    ]
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({"graphs": {"g": {"tasks": rows}}}))
    found = [(list(t.dependencies), t.seconds, t.nbytes, t.annotations) for t in read_reference(path, "g").tasks]
    assert found == [
        ([], 2.0, 4_000_000, {"resources": {"cores": 2.0}}), ([0], 0.0, 1_000_000, None), ([0], 0.0, 3_000_000, None),
        ([2], 1.0, 0, None),
    ]  # fmt: skip
    with pytest.raises(HetschedError, match="no graph 'h'; it has g"):
        read_reference(path, "h")


def test_a_dask_collection():
    import dask

    @dask.delayed
    def load(n):
        return n

    @dask.delayed
    def add(*parts):
        return sum(parts)

    with dask.annotate(nbytes=5):
        parts = [load(n, dask_key_name=f"load-{n}") for n in range(2)]
    total = add(*parts, dask_key_name="add-0")
    workload = from_dask(total, durations={"load": 2.0, "add": {"cpu": 4.0, "gpu": 1.0}})
    rows = [(t.key, list(t.dependencies), t.seconds, t.nbytes) for t in workload.tasks]
    assert rows == [
        ("load-0", [], 2.0, 5), ("load-1", [], 2.0, 5), ("add-0", [0, 1], {"cpu": 4.0, "gpu": 1.0}, 0),
    ]  # fmt: skip
    assert workload.wanted == [2]
    assert [t.seconds for t in from_dask(total, durations=lambda key: len(key)).tasks] == [6, 6, 5]
    with pytest.raises(HetschedError, match="there is no dask collection among what was given"):
        from_dask(total.key)


def test_a_recording(tmp_path):
    specs = [TaskSpec("load-0", len), TaskSpec("load-1", len, dependencies=[0]), TaskSpec("sum", len, dependencies=[1])]
    with Recorder(tmp_path / "run.hets") as write:
        write(10.0, WorkerJoined("w", Capacity({"cpu": 2}, {"GPU": 1.0}, "a", 3, 0.05)))
        write(11.0, GraphSubmitted("c", 0, specs, [2]))
        write(12.0, WorkerLost("v", "gone"))
        write(13.5, TasksFinished("w", "cpu", [(0, 0, 5.0, 6.0, 8, 0), (1, 0, 6.25, 8.25, 16, 0)]))
        write(14.0, WorkerLost("w", "gone"))
    found = read_recording_of_run(tmp_path / "run.hets")
    ((submission,), (machine,)) = (found.submissions, found.machines)
    rows = [(t.key, list(t.dependencies), t.seconds, t.nbytes) for t in submission.workload.tasks]
    assert rows == [("load-0", [], 1.0, 8), ("load-1", [0], 2.0, 16), ("sum", [1], 0.0, 0)]
    assert (submission.at, submission.workload.wanted, machine.slots(), machine.pool) == (0.0, [2], {"cpu": 2}, "a")
    assert (found.makespan, found.ran, found.unmeasured, found.lost) == (2.5, 2, 1, ["v"])
    assert (found.gaps, found.delays) == ([0.25], [5.25])
