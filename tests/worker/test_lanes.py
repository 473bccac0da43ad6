"""A worker moves jobs between its executors: told to, or because of what it sees; its answers claimed whole."""

from __future__ import annotations

from worker.test_state import Bench, finished, item, ok, order

from hetsched.core.commands import CancelTasks, MoveTasks
from hetsched.core.events import TasksFailed, TasksFinished, TasksReturned
from hetsched.core.evidence import RAN, Evidence
from hetsched.core.needs import rank_of
from hetsched.worker.instructions import (
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    KeysFetched,
    Reclaim,
    SlotRegained,
    SlotYielded,
    TasksReclaimed,
    Tell,
)
from hetsched.worker.jobs import Kind

GPU = {"resources": {"GPU": 1.0}, "cpu": 1, "gpu": 1}


def on_device(task, seconds=1e-5):
    return (*ok(task, seconds)[:5], 8)


def told(*outcomes, executor="cpu", seen=(), watched=False):
    return Tell(TasksFinished("w", executor, outcomes, seen, watched))


# Told to


def test_what_waits_is_moved_and_what_runs_stays() -> None:
    b = Bench(**GPU)
    assert b.run(*(order(n, prefix="p") for n in range(3)), order(3, 0, prefix="p")) == [Execute("cpu", 1, (item(0),))]
    moves = tuple((n, "gpu") for n in range(4))
    assert b(MoveTasks("w", moves, (("p", True),))) == [Reclaim(1, 1), Execute("gpu", 2, (item(1),))]
    assert b(TasksReclaimed(1, ())) == []  # it had begun
    assert b(BatchExecuted(1, [ok(0)], [], [])) == [finished(0)]
    assert b(BatchExecuted(2, [ok(1)], [], [])) == [
        finished(1, executor="gpu"),
        Execute("gpu", 3, (item(3, 0), item(2))),
    ]


def test_what_is_taken_back_out_of_a_batch_goes_its_new_way() -> None:
    b = Bench(**GPU)
    b.known(p=1e-5)
    assert b.run(*(order(n, prefix="p") for n in range(3))) == [Execute("cpu", 2, (item(0), item(1), item(2)))]
    assert b(MoveTasks("w", ((1, "gpu"), (2, "gpu")), ())) == [Reclaim(2, 3)]
    assert b(TasksReclaimed(2, (2, 1))) == [Execute("gpu", 3, (item(1), item(2)))]


def test_back_to_the_cpu() -> None:
    b = Bench(**GPU)
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
    b.run(order(0, **gpu), order(1, **gpu))
    back = MoveTasks("w", ((0, "cpu"), (1, "cpu")), (("p", False),))
    assert b(back) == [Reclaim(1, 1), Execute("cpu", 2, (item(1),))]
    assert b.mind.jobs[1].resources == ()


def test_what_is_put_down_leaves_no_copy_that_was_fetched_before_it_was_ordered() -> None:
    b = Bench(cpu=1)
    b.run(order(0, prefix="p"), order(1, prefix="p", attempt=1))
    assert b(MoveTasks("w", ((1, "gpu"),), ())) == [Drop((1,)), Tell(TasksReturned("w", ((1, 1),)))]


def test_what_there_is_no_executor_for_is_put_down_and_said() -> None:
    b = Bench(cpu=1)
    b.run(order(0, prefix="p"), order(1, prefix="p"), order(2, 1, prefix="p"), order(3, 2))
    moves = tuple((n, "gpu") for n in range(3))
    assert b(MoveTasks("w", moves, (("p", True),))) == [Reclaim(1, 1), Tell(TasksReturned("w", ((1, 0), (2, 0))))]
    assert b(TasksReclaimed(1, (0,))) == [Tell(TasksReturned("w", ((0, 0),)))]
    b(CancelTasks("w", [3]))  # as the scheduler does, since what it waits for is not coming
    b(BatchExecuted(1, [], [], []))
    b.assert_idle()


def test_moves_of_what_is_not_here_are_nothing() -> None:
    b = Bench(**GPU)
    assert b(MoveTasks("w", ((7, "gpu"),), (("p", True), ("q", False)))) == []
    b.assert_idle()
    # but the kinds are known from now on
    assert b.run(order(0, prefix="p"), order(1, prefix="q")) == [
        Execute("cpu", 1, (item(1),)),
        Execute("gpu", 2, (item(0),)),
    ]


# Room on the device


def test_a_task_waits_while_others_run_if_its_result_is_not_expected_to_fit() -> None:
    b = Bench(resources={"GPU": 2.0}, cpu=1, gpu=2)
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}

    def done(batch, task, room):
        outcome = (task, 0, 0.0, 0.01, 100, 100)
        return b(BatchExecuted(batch, [outcome], [], [], (), (), (), False, room and (room,)))

    assert b.run(*(order(n, **gpu) for n in range(6))) == [Execute("gpu", 1, (item(0),)), Execute("gpu", 2, (item(1),))]
    assert [type(said) for said in done(1, 0, 250)] == [Tell, Execute]  # 100 are coming, and 100 more fit
    assert [type(said) for said in done(2, 1, 150)] == [Tell]  # 100 are coming, and 100 more would not
    assert [type(said) for said in done(3, 2, 50)] == [Tell, Execute]  # nothing runs: it has to make do
    assert [type(said) for said in done(4, 3, None)] == [Tell, Execute, Execute]  # no limit


class Devices:
    """Lanes on several devices, each task's result 100 bytes on its own."""

    def __init__(self, devices, lanes, tasks):
        self.bench = Bench({"GPU": float(lanes)}, devices=devices, cpu=1, gpu=lanes)
        gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
        self.started = places(self.bench.run(*(order(n, **gpu) for n in range(tasks))))

    def run(self, *tasks, level=0):
        """Order more; those of a level that a waiting task asked for come before all others."""
        gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
        return places(self.bench.run(*(order(n, rank=rank_of(level, 0.0, n), **gpu) for n in tasks)))

    def done(self, batch, room=None, on=()):
        """End a batch; ``on`` tells of results which device they are on, and how many bytes."""
        (task,) = self.bench.mind.slots.batches[batch].jobs
        outcome = (task, 0, 0.0, 0.01, 100, 100)
        return places(self.bench(BatchExecuted(batch, [outcome], [], [], device_room=room, located=on)))

    def read(self, *readers, prefix="p"):
        """Order tasks that read results, ``(task, *inputs)`` each; the batches that were started."""
        gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": prefix}
        said = self.bench.run(*(order(*reader, **gpu) for reader in readers))
        return [([one[0] for one in said.items], said.device) for said in said if type(said) is Execute]


def places(said):
    """The batches that were started, each with its device."""
    return [(one.batch, one.device) for one in said if type(one) is Execute]


def test_batches_go_to_the_device_where_least_runs() -> None:
    d = Devices(2, 4, 9)
    assert d.started == [(1, 0), (2, 1), (3, 0), (4, 1)]
    assert d.done(2) == [(5, 1)]
    assert d.done(1) == [(6, 0)]
    assert d.done(3) == [(7, 0)]


def test_the_thread_that_has_ended_a_batch_goes_on() -> None:
    d = Devices(2, 2, 2)
    assert d.started == [(1, 0), (2, 1)]
    assert (d.done(1), d.done(2)) == ([], [])
    assert places(d.bench.run(order(7, executor="gpu", resources=(("GPU", 1.0),)))) == [(3, 1)]


def test_a_task_goes_to_the_device_with_room() -> None:
    d = Devices(2, 4, 9)
    assert d.done(2, room=(2000, 1000, 1000)) == [(5, 1)]
    assert d.done(1, room=(1050, 50, 1000)) == []  # device 0 has no room, and device 1 no lane
    assert d.done(5, room=(1050, 50, 1000)) == [(6, 1)]
    assert d.done(3, room=(1050, 50, 1000)) == [(7, 0)]  # nothing runs there any more: waiting would free nothing


def test_of_two_idle_devices_the_one_with_room_comes_first() -> None:
    d = Devices(2, 2, 2)
    assert (d.done(1, room=(500, 0, 500)), d.done(2, room=(500, 0, 500))) == ([], [])
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
    assert places(d.bench.run(order(7, **gpu), order(8, **gpu))) == [(3, 1), (4, 0)]


def test_an_idle_device_with_room_comes_before_the_one_whose_thread_asks() -> None:
    d = Devices(2, 2, 2)
    assert (d.done(2, room=(500, 500, 0)), d.done(1, room=(500, 0, 500))) == ([], [])
    assert d.run(7) == [(3, 1)]


def test_where_the_devices_together_are_full_an_idle_one_takes_a_task() -> None:
    """Results whose device is not known are nowhere but in the sum."""
    d = Devices(2, 2, 4)
    assert d.done(1, room=(150, 900, 900)) == [(3, 0)]  # 100 are coming, 100 more would not fit
    assert d.done(2, room=(-50, 100, -150)) == [(4, 1)]


def test_where_the_devices_together_are_full_a_task_waits_for_those_that_run() -> None:
    d = Devices(2, 4, 9)
    full = (150, 900, 900)
    assert d.done(1, room=full) == []  # the one with a lane to spare runs another
    assert d.done(2, room=full) == []
    assert d.done(3, room=full) == [(5, 0)]  # nothing runs there any more
    assert d.done(4, room=(150, 900, 50)) == [(6, 1)]
    assert d.done(5, room=(250, 900, 50)) == [(7, 0)]


def test_where_only_the_sum_is_known_a_task_waits_while_any_runs() -> None:
    d = Devices(2, 2, 4)
    assert d.done(1, room=(150,)) == []
    assert d.done(2, room=(150,)) == [(3, 1)]


def test_a_device_whose_task_waits_takes_another() -> None:
    d = Devices(2, 2, 2)
    assert places(d.bench(SlotYielded(1))) == []
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
    asked_for = (order(n, rank=rank_of(1, 0.0, n), **gpu) for n in (7, 8))
    assert places(d.bench.run(*asked_for)) == [(3, 0)]
    assert d.done(3) == [(4, 0)]
    assert d.done(4) == []
    assert d.bench(SlotRegained(1)) == []
    assert (d.done(1), d.done(2)) == ([], [])


def test_what_a_waiting_task_did_not_ask_for_goes_to_another_device() -> None:
    d = Devices(2, 2, 1)
    assert d.started == [(1, 0)]
    assert places(d.bench(SlotYielded(1))) == []
    assert d.run(7) == [(2, 1)]
    assert d.run(8) == []  # but for the thread of the one that waits, there is none
    assert d.run(9, level=1) == [(3, 0)]  # which that one asked for
    assert d.done(3) == []
    assert d.done(2) == [(4, 1)]


def test_what_a_waiting_task_asked_for_goes_to_an_idle_device_first() -> None:
    d = Devices(2, 2, 1)
    assert places(d.bench(SlotYielded(1))) == []
    assert d.run(7, 8, level=1) == [(2, 1), (3, 0)]
    assert d.done(3) == []
    assert d.run(9, level=1) == [(4, 0)]


def test_the_lane_that_ended_last_is_left_alone_while_another_task_of_its_device_waits() -> None:
    d = Devices(2, 4, 4)
    assert d.started == [(1, 0), (2, 1), (3, 0), (4, 1)]
    assert (places(d.bench(SlotYielded(1))), d.done(4), d.done(2), d.done(3)) == ([], [], [], [])
    assert d.run(7, 8) == [(5, 0), (6, 1)]  # each device has a thread that is free
    assert d.run(9, 10) == [(7, 1)]


def test_a_task_waits_where_only_the_thread_of_one_that_waits_is_left_and_the_other_device_is_full() -> None:
    d = Devices(2, 3, 3)
    assert d.started == [(1, 0), (2, 1), (3, 0)]
    assert places(d.bench(SlotYielded(2))) == []
    assert d.done(3, room=(1000, 150, 1000)) == []
    assert d.run(7) == []  # device 0 has no room while 1 runs
    assert d.run(8, level=1) == [(4, 1)]
    assert d.done(1, room=(1000, 150, 1000)) == [(5, 0)]


# Where the inputs are


def held(*on, lanes=2, devices=2):
    """Idle devices, with results of 100 bytes that are on those named: the first is task 0's."""
    d = Devices(devices, lanes, len(on))
    for n, device in enumerate(on):
        d.done(n + 1, on=[(n, device, 100)] if device >= 0 else ())
    return d


def test_a_task_goes_where_its_inputs_are() -> None:
    d = held(0, 1)  # device 1 has ended last, whose thread would be the first to be asked
    assert d.read((7, 0), (8, 1)) == [([7], 0), ([8], 1)]
    d = held(0, 1)
    assert d.read((7, 1), (8, 0)) == [([7], 1), ([8], 0)]


def test_a_task_goes_where_most_bytes_of_its_inputs_are() -> None:
    d = held(0, 1, 0, 1, 1, -1)
    assert d.read((7, 0, 1, 2)) == [([7], 0)]
    assert d.done(d.bench.last) == []
    assert d.read((8, 0, 1, 3, 5)) == [([8], 1)]


def test_it_does_not_wait_for_the_device_its_inputs_are_on() -> None:
    d = held(0, 0, 0, 0)
    assert d.read((7, 0), (8, 1), (9, 2), (10, 3)) == [([7], 0), ([8], 1)]


def test_a_free_thread_and_room_come_before_the_inputs() -> None:
    d = held(0, 1, 0)
    d.bench(BatchExecuted(d.bench.run(order(7, executor="gpu"))[0].batch, [ok(7)], [], [], device_room=(500, 0, 500)))
    assert d.read((8, 0)) == [([8], 1)]
    d = held(0, 0, lanes=4)
    assert d.read((7, 1)) == [([7], 0)]
    assert d.bench(SlotYielded(d.bench.last)) == []
    assert d.run(8, 9) == [(4, 1), (5, 0)]
    assert d.read((10, 0)) == [([10], 1)]  # the thread that is left on device 0 is that of a task that waits


def test_inputs_count_before_the_tasks_that_run() -> None:
    d = held(0, 0, 0, lanes=4)
    assert d.read((7, 0), (8, 1), (9, 2)) == [([7], 0), ([8], 0), ([9], 1)]


def test_results_of_peers_count_too() -> None:
    d = Devices(2, 2, 0)
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),), "prefix": "p"}
    assert d.bench.run(order(7, 0, holders=[(0, ("a",))], **gpu)) == [Fetch("a", (0,))]
    assert places(d.bench(KeysFetched("a", [0], [], [(0, 1, 100)]))) == [(1, 1)]
    d.bench(BatchExecuted(1, [ok(7)], [], []))
    # and what reads them is a GPU task, as of results that were made here
    d.bench.known(q=0.01)
    b = d.bench
    assert [type(one) for one in b.run(order(8, 0, prefix="q"))] == [Execute]
    assert (b.mind.slots.batches[b.last].executor, b.mind.slots.batches[b.last].device) == ("gpu", 1)


def test_short_tasks_go_together_where_their_inputs_are() -> None:
    d = held(0, 1, 0, 1)
    d.bench.mind.kinds["q"] = Kind("q")
    d.bench.mind.kinds["q"].seconds = 1e-6
    # Half of them for each device, but for those whose inputs are elsewhere than those of the first.
    assert d.read((7, 0), (8, 2), (9, 1), (10, 3), prefix="q") == [([7, 8], 0), ([9, 10], 1)]
    for batch, tasks in ((d.bench.last - 1, (7, 8)), (d.bench.last, (9, 10))):
        d.bench(BatchExecuted(batch, [ok(task) for task in tasks], [], []))
    assert d.read((17, 0), (18, 1), (19, 2), (20, 3), prefix="q") == [([17], 0), ([18], 1)]
    d.bench(BatchExecuted(d.bench.last, [ok(18)], [], []))
    assert d.bench.mind.slots.batches[d.bench.last].jobs.keys() == {19}  # an idle device takes what there is


# By what it sees


def test_a_result_on_a_device_moves_what_reads_it_and_the_others_of_its_kind() -> None:
    b = Bench(**GPU)
    b.run(order(0, prefix="p"), order(1, prefix="p"), order(2, 0, prefix="q"), order(3, prefix="q"))
    assert b(BatchExecuted(1, [on_device(0)], [], [])) == [
        told(on_device(0)),
        Execute("cpu", 2, (item(3),)),
        Execute("gpu", 3, (item(2, 0),)),
    ]
    assert b.mind.jobs[1].executor == "gpu"
    assert b.run(order(4, 0, prefix="q")) == []  # its input is here, on the device
    assert b.mind.jobs[4].executor == "gpu"


def test_tasks_that_follow_their_inputs_do_not_move_their_kind() -> None:
    b = Bench(**GPU)
    b.run(order(0, executor="gpu", resources=(("GPU", 1.0),)), order(1, 0, prefix="q"))
    b(BatchExecuted(1, [on_device(0)], [], []))
    assert b.mind.jobs[1].executor == "gpu"
    b(BatchExecuted(max(b.mind.slots.batches), [on_device(1)], [], []))
    assert not b.mind.kinds["q"].gpu


def test_a_person_s_word_is_kept() -> None:
    b = Bench(**GPU, io=0)
    b.run(order(0, prefix="p!"), order(1, prefix="p!"), order(2, 0, prefix="q!"), order(3, 0, executor="io"))
    b(BatchExecuted(1, [on_device(0)], [], []))
    assert [b.mind.jobs[n].executor for n in (1, 2, 3)] == ["cpu", "cpu", "io"]


def test_a_worker_without_a_lane_changes_nothing() -> None:
    b = Bench(cpu=1)
    b.run(order(0, prefix="p"), order(1, prefix="p"), order(2, 0, prefix="q"))
    assert b(BatchExecuted(1, [on_device(0)], [], [])) == [told(on_device(0)), Execute("cpu", 2, (item(2, 0),))]


def test_what_probes_saw_moves_a_kind_and_is_passed_on() -> None:
    b = Bench(**GPU)
    b.run(order(0, prefix="p"), order(1, prefix="p"))
    seen = ((0, Evidence(RAN, 0.9, "it took memory")),)
    assert b(BatchExecuted(1, [ok(0)], [], [], (), seen, (), True)) == [
        told(ok(0), seen=seen, watched=True),
        Execute("gpu", 2, (item(1),)),
    ]


def test_words_on_errors_of_a_device_are_passed_on() -> None:
    b = Bench(**GPU)
    b.run(order(0))
    failed = ((0, 0, "error", True),)
    assert b(BatchExecuted(1, [], failed, [], (), (), ((0, "no context"),))) == [
        Drop((0,)),
        Tell(TasksFailed("w", "cpu", failed, ((0, "no context"),))),
    ]
