"""Results on devices that have little memory: scenario P18, with a stand-in for a GPU library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from odd_programs import Site
from scenarios.tasks import is_on_device, on_device, on_device_number

import hetsched

pytestmark = pytest.mark.limit(60)

DEVICE = Path(__file__).parent / "device"
MB = 1_000_000
COUNT, EACH = 9, MB
"""Three times the limits of 3 MB."""

HOST = {  # of results 3 MB, whatever the process takes
    "DASK_HETSCHED__WORKER__MEMORY": "{'target': 0.003, 'spill': False, 'pause': False, 'terminate': False}",
    "DASK_HETSCHED__WORKER__BEAT": "20ms",
}


@pytest.fixture
def site():
    with Site() as site:
        site.scheduler()
        yield site


def facts_when(client, fits):
    """What the worker says of its memory once that fits."""
    while True:
        (about,) = client.scheduler_info()["workers"].values()
        if "cuda_nbytes" in about["facts"] and fits(about["facts"]):
            return about["facts"]


@pytest.mark.parametrize(
    ("device", "host", "fits"),
    [
        # Device, then host, then disk.
        ("3MB", "1GB", lambda f: f["cuda_nbytes"] == 3 * EACH and f["packed"] == 3 and f["on_disk"] == 3),
        # The one limit holds without the other.
        ("3MB", "0", lambda f: f["cuda_nbytes"] == 3 * EACH and f["packed"] == 6 and f["on_disk"] == 0),
        ("0", "1GB", lambda f: f["cuda_nbytes"] == COUNT * EACH and f["packed"] == f["on_disk"] == 0),
        # Of this library nobody knows how much memory there is: the default, a part, is no limit.
        (None, "1GB", lambda f: f["cuda_nbytes"] == COUNT * EACH and f["packed"] == f["on_disk"] == 0),
    ],
    ids=["both", "device", "host", "default"],
)
@pytest.mark.filterwarnings("ignore::hetsched.errors.DeviceWarning")
def test_p18_results_of_three_times_the_limits(site, device, host, fits):
    given = () if device is None else ("--device-memory-limit", device)
    site.worker("w", "--gpus", "1", "--memory-limit", host, *given, path=[DEVICE], **HOST)
    hosts = [np.full(EACH, n, "u1") for n in range(COUNT)]
    with hetsched.Client(site.address) as client:
        made = [client.submit(on_device, one, executor="gpu") for one in hosts]
        hetsched.wait(made)
        facts_when(client, fits)
        assert client.gather([client.submit(is_on_device, one, executor="gpu") for one in made]) == [True] * COUNT
        facts_when(client, lambda f: f["cuda_nbytes"] <= (COUNT if device in ("0", None) else 3) * EACH)
        for got, one in zip(client.gather(made), hosts, strict=True):
            np.testing.assert_array_equal(got, one)
    assert site.complaints() == []


@pytest.mark.filterwarnings("ignore::hetsched.errors.DeviceWarning")
def test_p18_one_device_of_two_is_full(site):
    """What is too much on one leaves that one, however much room there is on the other."""
    site.worker("w", "--gpus", "2", "--memory-limit", "0", "--device-memory-limit", "6MB", path=[DEVICE], **HOST)
    where = [0, *[1] * 5]
    hosts = [np.full(EACH, n, "u1") for n in range(len(where))]
    with hetsched.Client(site.address) as client:
        pairs = zip(hosts, where, strict=True)
        made = [client.submit(on_device_number, host, number, executor="gpu") for host, number in pairs]
        hetsched.wait(made)
        facts = facts_when(client, lambda f: f["packed"] == 2)
        assert client.scheduler_info()["workers"]["w"]["devices"] == {"cuda": 2}
        assert [list(facts["on_devices"]), facts["cuda_nbytes"]] == [[EACH, 3 * EACH], 4 * EACH]
        for got, host in zip(client.gather(made), hosts, strict=True):
            np.testing.assert_array_equal(got, host)
    assert site.complaints() == []


def test_p18_what_is_no_limit_is_said(site):
    site.start_worker("w", "--gpus", "1", DASK_HETSCHED__WORKER__DEVICE_MEMORY_LIMIT="much")
    process = site.processes["w"]
    said = process.stdout.read()
    assert process.wait() == 1
    assert "hetsched.worker.device-memory-limit is 'much': write a size as \"4GB\", a part as \"80%\"" in said
