"""Plugins that are named: loaded where that is allowed, and refused with a sentence where it goes wrong."""

from __future__ import annotations

import logging
import sys

import plugged
import pytest
from small_cluster import hear, small_cluster

from hetsched.comm.messages import Answered, Asked
from hetsched.comm.wire import encode
from hetsched.core.events import GraphSubmitted, WorkerJoined
from hetsched.core.plugins import Plugin, Plugins
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import HetschedError, ProtocolError
from hetsched.server.plugins import Door, installed_plugins, load_plugin, logged_plugins


def test_a_class_or_an_object_is_found_by_its_name():
    assert type(load_plugin("plugged:Shelf")) is plugged.Shelf
    assert load_plugin("plugged:shelf") is plugged.shelf


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Shelf", "the plugin 'Shelf' is not named like package.module:Class"),
        (":Shelf", "the plugin ':Shelf' is not named like package.module:Class"),
        ("plugged.Shelf", "the plugin 'plugged.Shelf' is not named like package.module:Class"),
        ("nowhere:A", "the plugin nowhere:A cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (
            "plugged:No",
            "the plugin plugged:No cannot be imported: AttributeError: module 'plugged' has no attribute 'No'",
        ),
        ("plugged:number", "the plugin plugged:number is a int, and no hetsched.Plugin"),
        ("plugged:Refuses", "the plugin plugged:Refuses cannot be made: ValueError: not today"),
    ],
)
def test_what_is_wrong_with_a_name(name, says):
    with pytest.raises(HetschedError) as caught:
        load_plugin(name)
    assert str(caught.value) == says


def test_a_door_that_is_closed_and_one_that_is_open():
    plugins = Plugins()
    with pytest.raises(ProtocolError, match=r"does not take plugins from clients: start it with --client-plugins, or"):
        Door(plugins).register("me", "plugged:Shelf")
    door = Door(plugins, open=True)
    assert [door.register("me", "plugged:Shelf") for _ in range(2)] == ["Shelf", "Shelf-2"]
    for name in (3, None, "nowhere:A"):
        with pytest.raises(ProtocolError):
            door.register("me", name)
    assert len(plugins) == 2


def test_it_is_time_to_ask_again_where_a_plugin_lets_a_task_wait():
    plugins = Plugins()
    scheduler = Scheduler(plugins=plugins)
    scheduler.handle(WorkerJoined("w-1", Capacity({"cpu": 1}, {}, None, 1)), 0.0)
    door = Door(plugins)
    asked = []

    def ask(now):
        door.ask_again(scheduler.state, now, lambda: asked.append(now))

    def submit(graph, shelf):
        tasks = [TaskSpec(f"x-{graph}", len, (), None, (), {"shelf": shelf})]
        scheduler.handle(GraphSubmitted("c", graph, tasks, [0]), 0.0)

    ask(10.0)
    plugins.add(plugged.Shelf())
    ask(20.0)
    for graph in range(3):
        submit(graph, 1)  # one runs, and two wait for room
    ask(30.0)
    assert asked == []
    submit(3, None)
    for now in (30.5, 31.5, 32.0, 32.6):
        ask(now)
    assert asked == [31.5, 32.6]


def test_what_installed_packages_bring(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "made_up-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: made-up\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[hetsched.plugins]\nshelves = plugged:Shelf\ngone = nowhere:A\nodd = plugged:number\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with caplog.at_level(logging.ERROR, "hetsched.plugins"):
        found = [(name, type(plugin)) for name, plugin in installed_plugins()]
    assert found == [("shelves", plugged.Shelf)]
    assert [record.getMessage() for record in caplog.records] == [
        "the installed plugin 'gone' (nowhere:A) cannot be loaded: No module named 'nowhere'",
        "the installed plugin 'odd' (plugged:number) cannot be loaded: the plugin odd = plugged:number is a int, and "
        "no hetsched.Plugin",
    ]


def test_what_a_plugin_raises_is_in_the_log(caplog):
    class Bad(Plugin):
        def worker_joined(self, worker):
            raise ValueError(worker.name)

    plugins = logged_plugins()
    plugins.add(Bad())
    scheduler = Scheduler(plugins=plugins)
    with caplog.at_level(logging.ERROR, "hetsched.plugins"):
        scheduler.handle(WorkerJoined("w", Capacity({"cpu": 1})), 0.0)
    (record,) = caplog.records
    assert record.getMessage() == "the plugin 'Bad' raised ValueError in worker_joined"
    assert "ValueError: w" in caplog.text


async def test_a_client_without_leave_is_told_so():
    sys.modules.pop("never_loaded", None)
    async with small_cluster() as cluster:
        channel = await cluster.channel()
        await channel.send([encode(Asked("", 1, "register_plugin", "never_loaded:A"))])
        (said,) = await hear(channel)
        assert isinstance(said, Answered)
        assert said.error == (
            "the scheduler does not take plugins from clients: start it with --client-plugins, or with --plugin "
            "never_loaded:A"
        )
        await channel.send([encode(Asked("", 2, "info", None))])
        (said,) = await hear(channel)
        assert (said.answer["plugins"], said.answer["jobs"]) == ({}, {})
        await channel.send([encode(Asked("", 3, "find", ("x", 1)))])
        (said,) = await hear(channel)
        assert said.error == "there is no task ('x', 1) now: it was released, or never came"
