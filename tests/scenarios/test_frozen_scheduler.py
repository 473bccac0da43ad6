"""A scheduler that stops though its connections stand: it is sent SIGSTOP."""

from __future__ import annotations

import signal
import time

import dask
import numpy as np
import pytest
from odd_programs import Site

import hetsched
from hetsched.errors import ConnectionLost

pytestmark = pytest.mark.limit(60)

SILENCE = 1.0
"""Seconds; 30 by default."""

GONE = r"the scheduler at tcp://\S+ is gone: nothing was heard of it for 1 s \(comm.scheduler-silence\)"


def sleep(seconds):
    time.sleep(seconds)
    return seconds


@pytest.fixture
def site():
    with Site() as site, dask.config.set({"hetsched.comm.scheduler-silence": SILENCE}):
        site.scheduler()
        site.worker("w", DASK_HETSCHED__COMM__SCHEDULER_SILENCE=f"{SILENCE}s")
        yield site


def test_a_scheduler_that_is_frozen_is_noticed_and_one_that_idles_is_not(site):
    scheduler = site.processes["scheduler"]
    with hetsched.Client(site.address) as client:
        assert client.submit(sleep, 2.5 * SILENCE).result() == 2.5 * SILENCE
        waits = client.submit(sleep, 0.3)
        held = client.submit(np.ones, 3)
        hetsched.wait([held])
        scheduler.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            late = client.submit(sleep, 0)
            for future in (waits, late, held):
                with pytest.raises(ConnectionLost, match=GONE):
                    future.result()
            assert 0.7 * SILENCE < time.monotonic() - began < 5 * SILENCE
            with pytest.raises(ConnectionLost, match=GONE):
                client.submit(sleep, 0)
            site.until("w", "nothing was heard of the scheduler for 1 s")
        finally:
            scheduler.send_signal(signal.SIGCONT)
    # The scheduler is itself again, and the worker comes back to it.
    site.until("w", "serves the scheduler")
    with hetsched.Client(site.address) as client:
        assert client.submit(sleep, 0).result() == 0


def test_what_is_sent_to_one_that_is_frozen_ends_too(site):
    scheduler = site.processes["scheduler"]
    with hetsched.Client(site.address) as client:
        assert client.submit(sleep, 0).result() == 0
        scheduler.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(ConnectionLost, match=GONE):
                client.submit(np.sum, np.ones(5_000_000)).result()
        finally:
            scheduler.send_signal(signal.SIGCONT)
