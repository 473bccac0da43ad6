"""Settings: the same with dask and without, and each of them in the file of defaults."""

from __future__ import annotations

import json
import subprocess
import sys

import dask
import pytest
from package_source import PACKAGE
from programs import ENVIRONMENT

from hetsched import config

ASK = """
import json, sys
if sys.argv[1] == "dask":
    import dask
from hetsched import config
print(json.dumps([config.get(name) for name in sys.argv[2:]]))
assert ("dask" in sys.modules) is (sys.argv[1] == "dask")
"""


def ask(with_dask: bool, *names: str, **variables: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", ASK, "dask" if with_dask else "alone", *names],
        capture_output=True, text=True, check=True, env={**ENVIRONMENT, **variables},
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("with_dask", [True, False])
def test_files_and_variables(with_dask, tmp_path):
    (tmp_path / "a.yaml").write_text("hetsched: {worker: {beat: 3s, death_timeout: 4s}, comm: {compression: lz4}}")
    (tmp_path / "b.yml").write_text("hetsched:\n  worker:\n    beat: 5s\nother: {beat: 1}")
    (tmp_path / "c.txt").write_text("hetsched: {worker: {beat: 9s}}")
    names = ["worker.beat", "worker.death-timeout", "comm.compression", "scheduler.allowed-failures", "address"]
    assert ask(with_dask, *names, DASK_CONFIG=str(tmp_path)) == ["5s", "4s", "lz4", 3, None]
    variables = {
        "DASK_CONFIG": str(tmp_path),
        "DASK_HETSCHED__WORKER__DEATH_TIMEOUT": "None",
        "DASK_HETSCHED__SCHEDULER__ALLOWED_FAILURES": "7",
        "DASK_HETSCHED__ADDRESS": "tcp://here:1",
    }
    assert ask(with_dask, *names, **variables) == ["5s", None, "lz4", 7, "tcp://here:1"]


@pytest.mark.parametrize("with_dask", [True, False])
def test_children_have_the_settings_of_their_parent(with_dask):
    with dask.config.set({"hetsched.worker.beat": "2s", "hetsched.comm.compression": {"send": "none"}}):
        environment = config.child_environment({"scheduler.worker-silence": 0.5})
    told = {"DASK_INTERNAL_INHERIT_CONFIG": environment["DASK_INTERNAL_INHERIT_CONFIG"]}
    names = ["worker.beat", "comm.compression", "scheduler.worker-silence", "worker.leave-timeout"]
    assert ask(with_dask, *names, **told) == ["2s", {"send": "none"}, 0.5, "60s"]


def test_what_was_handed_down_needs_no_files(tmp_path):
    """A start of a cluster waits for each of its processes: none reads again what its parent has read."""
    (tmp_path / "a.yaml").write_text("hetsched: {worker: {beat: 3s}}")
    program = """
import sys
from hetsched import config
assert config.get("worker.beat") == "1s"
assert config.size("comm.max-frame") == 64 * 2**30
assert not {"yaml", "psutil"} & set(sys.modules)
"""
    environment = {**config.child_environment({}), "DASK_CONFIG": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env={**ENVIRONMENT, **environment})


def test_the_defaults_outlive_a_setting_for_a_while():
    program = """
import dask
from hetsched import config
with dask.config.set({"hetsched.worker.beat": "2s"}):
    assert config.get("worker.beat") == "2s"
assert config.get("worker.beat") == "1s"
assert config.get("worker.leave-timeout") == "60s"
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=ENVIRONMENT)


def test_a_setting_that_is_not_there():
    with pytest.raises(KeyError, match=r"there is no setting hetsched\.worker\.nose"):
        config.get("worker.nose")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("20s", 20.0), (3, 3.0), ("1.5", 1.5), ("500ms", 0.5), ("5 min", 300.0), ("2 hours", 7200.0), ("1 day", 86400.0),
     (None, None), (False, None)],
)  # fmt: skip
def test_times(value, seconds):
    with dask.config.set({"hetsched.worker.beat": value}):
        assert config.seconds("worker.beat") == seconds


@pytest.mark.parametrize("value", ["soon", "5 weeks", "-1s", "1.2.3", ""])
def test_times_that_are_none(value):
    with (
        dask.config.set({"hetsched.worker.beat": value}),
        pytest.raises(ValueError, match=r"hetsched\.worker\.beat is"),
    ):
        config.seconds("worker.beat")


def test_sizes():
    assert config.size("comm.max-frame") == 64 * 2**30
    with dask.config.set({"hetsched.comm.max-frame": 5}):
        assert config.size("comm.max-frame") == 5


@pytest.mark.parametrize(
    ("compression", "protocol", "pins"),
    [
        ("auto", "auto", {}),
        ("lz4", 4, {"send-compression": "lz4", "receive-compression": "lz4", "pickle-protocol": 4}),
        (None, "auto", {"send-compression": "none", "receive-compression": "none"}),
        ({"send": "none"}, None, {"send-compression": "none"}),
        ({"receive": "zlib", "send": "auto"}, "5", {"receive-compression": "zlib", "pickle-protocol": 5}),
    ],
)
def test_pins(compression, protocol, pins):
    with dask.config.set({"hetsched.comm.compression": compression, "hetsched.comm.pickle-protocol": protocol}):
        assert config.pins() == pins


def leaves(settings: object, path: str = "") -> list[str]:
    if not isinstance(settings, dict):
        return [path]
    return [leaf for name, value in settings.items() for leaf in leaves(value, f"{path}.{name}".lstrip("."))]


def test_every_setting_is_read_somewhere():
    import yaml

    defaults = yaml.safe_load((PACKAGE / "hetsched.yaml").read_text())["hetsched"]
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    unread = [name for name in leaves(defaults) if f'"{name}"' not in code]
    assert [name for name in unread if not name.startswith(("comm.tls.", "worker.memory."))] == []  # put together there
