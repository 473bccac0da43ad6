"""A cluster, and a Client of it, for the tests of a module."""

from __future__ import annotations

import pytest
from threaded_cluster import threaded_cluster

import hetsched


@pytest.fixture(scope="module")
def cluster():
    with threaded_cluster("a", "b") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with hetsched.Client(cluster) as client:
        yield client
    assert cluster.settled() == (0, 0)
