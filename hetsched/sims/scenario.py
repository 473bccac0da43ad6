"""One thing to simulate, and how: everything a run depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetsched.core.links import Link, PoolPair
from hetsched.core.placement import Policy

from .detection import Detection
from .faults.plan import Fault
from .model import Knowledge, Machine, Noise, ServerCost, Submission
from .network.spec import NetworkSpec

__all__ = ["Scenario"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What runs where. Equal scenarios give equal runs.

    ``links`` is what the scheduler is told of the pools' links, and ``seconds_per_price`` what money is worth to it.
    ``policy`` is the name of one or an object that is made anew for each run; ``delay`` the seconds a message takes
    between the scheduler and a worker, and ``jitter`` by how much more one may take now and then. A worker that was not
    heard for ``silence`` seconds is lost, one that wants to leave may take ``leaving`` seconds; one that has failed is
    started anew after ``restart`` seconds. ``overhead`` is what a worker spends on each task beside its duration.
    ``detection`` is how well GPU tasks that nobody marked show.
    """

    submissions: Sequence[Submission]
    machines: Sequence[Machine]
    network: NetworkSpec = field(default_factory=NetworkSpec)
    policy: str | Policy = "earliest_finish"
    knowledge: Knowledge = "learned"
    seed: int = 0
    delay: float = 0.0
    jitter: float = 0.0
    server: ServerCost = field(default_factory=ServerCost)
    noise: Noise = field(default_factory=Noise)
    detection: Detection = field(default_factory=Detection)
    overhead: float = 0.0
    faults: Sequence[Fault] = ()
    silence: float = 20.0
    leaving: float = 60.0
    restart: float = 1.0
    allowed_losses: int = 3
    links: Mapping[PoolPair, Link] = field(default_factory=dict)
    seconds_per_price: float = 0.0
