"""A call of the embedded cluster: what came of one graph, and the lock that its caller waits on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hetsched.core.commands import KeysFailed
from hetsched.core.types import Outcome

__all__ = ["LOOK_SECONDS", "Call", "Run"]

LOOK_SECONDS = 0.5
"""How often a thread that waits looks up."""


class Run(NamedTuple):
    """A batch of finished tasks as the report wants it: executor and outcomes, ids counted from the scheduler's."""

    executor: str
    outcomes: Sequence[Outcome]


class Call:
    """One graph on its way; waits in the caller's thread."""

    def __init__(
        self, number: int, count: int, wanted: int, depth: int, follow: Callable[[Call], None] | None = None
    ) -> None:
        self.number = number
        self.count = count
        self.depth = depth
        self.results: dict[int, Any] = {}
        self.failure: KeysFailed | None = None
        self.crash: BaseException | None = None
        self.base = 0
        self.runs: list[Run] = []
        """What ran of this call."""
        self._follow = follow
        self._wanted = wanted
        self._over = threading.Lock()
        self._over.acquire()
        self._then: list[Callable[[], None]] = []
        self._is_over = False

    def wait(self) -> None:
        """Block until the results are there or cannot be had; an exception such as KeyboardInterrupt passes through."""
        if self._follow is not None:
            self._follow(self)
        # In turns: a signal that comes just before an endless wait would not be looked at until its end.
        while not self._is_over and not self._over.acquire(timeout=LOOK_SECONDS):
            pass

    def finished(self) -> bool:
        """Tell whether it is over."""
        return self._is_over

    def on_finish(self, call: Callable[[], None]) -> None:
        """Have something called in the loop's thread when it is over, at once if it is."""
        self._then.append(call)
        if self._is_over:
            call()

    def add_results(self, results: dict[int, Any]) -> bool:
        """Take results by position; tells whether these were the last."""
        self.results.update(results)
        return len(self.results) >= self._wanted

    def finish(self) -> None:
        """Let the caller go on."""
        if not self._is_over:
            self._is_over = True
            self._over.release()
            for call in self._then:
                call()
