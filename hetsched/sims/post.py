"""Messages between workers and the scheduler: how long they take, and what becomes of them where nothing arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .clock import Clock
from .noise import uniform
from .world import Worker

__all__ = ["Link", "Post"]


class Link:
    """A worker's connection: what is on its way, either way, arrives in order."""

    __slots__ = ("delay", "extra", "held", "open", "to_server", "to_worker", "why", "worker")

    def __init__(self, worker: Worker, delay: float) -> None:
        self.worker = worker
        self.delay = delay
        self.extra = 0.0
        """Seconds that messages take longer, for now."""
        self.to_server = 0.0
        """When the last message on its way there arrives."""
        self.to_worker = 0.0
        self.open = True
        self.why = ""
        self.held: list[tuple[Callable[..., None], Any]] = []
        """What was said while it could not arrive, in order."""


class Post:
    """Carries messages; a message takes up to ``jitter`` seconds more than its link's delay, and never overtakes."""

    def __init__(self, clock: Clock, jitter: float, seed: int) -> None:
        self._clock = clock
        self._jitter = jitter
        self._seed = seed
        self._said = 0

    def send_up(self, link: Link, call: Callable[..., None], what: Any) -> None:
        """Have ``call(what)`` happen when a worker's message arrives at the scheduler."""
        link.to_server = arrives = max(self._clock.now + link.delay + self._late(link), link.to_server)
        self._send(link, arrives, (call, what))

    def send_down(self, link: Link, what: Any) -> None:
        """Have a worker be delivered an order when it arrives."""
        link.to_worker = arrives = max(self._clock.now + link.delay + self._late(link), link.to_worker)
        self._send(link, arrives, (link.worker.deliver, what))

    def _late(self, link: Link) -> float:
        """Seconds that a message takes longer than others."""
        if not self._jitter:
            return link.extra
        self._said += 1
        return link.extra + self._jitter * uniform(self._seed, self._said, 7) ** 3

    def _send(self, link: Link, arrives: float, said: tuple[Callable[..., None], Any]) -> None:
        if arrives > self._clock.now:
            self._clock.at(arrives, self._arrive, link, said)
        else:
            self._arrive(link, said)

    def _arrive(self, link: Link, said: tuple[Callable[..., None], Any]) -> None:
        if link.open:
            if link.worker.unreachable:
                link.held.append(said)
            else:
                call, what = said
                call(what)

    def reached_again(self, link: Link) -> None:
        """A partition is over: what was said meanwhile arrives."""
        held, link.held = link.held, []
        for call, what in held:
            call(what)
