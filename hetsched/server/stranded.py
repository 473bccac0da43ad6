"""Find tasks that no worker there is could run, and say so once, in the log of whoever looks after the cluster."""

from __future__ import annotations

from hetsched.core.needs import Needs
from hetsched.core.state import State

__all__ = ["Stranded"]


class Stranded:
    """Remembers since when which demands were not met; ``after`` is how long (seconds) that is nobody's business."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._since: dict[Needs, float] = {}
        self._said: set[Needs] = set()

    def look(self, state: State, now: float) -> list[str]:
        """Give a sentence for each demand that has not been met for too long and was not told of yet."""
        workers = state.capacities()
        found = []
        unmet = {
            needs: len(heap)
            for needs, heap in state.ready.items()
            if not any(needs.met_by(name, capacity) for name, capacity in workers.items())
        }
        self._since = {needs: self._since.get(needs, now) for needs in unmet}
        self._said.intersection_update(unmet)
        for needs, count in unmet.items():
            if now - self._since[needs] >= self._after and needs not in self._said:
                self._said.add(needs)
                who, what = ("a task waits", "it") if count == 1 else (f"{count} tasks wait", "them")
                found.append(f"{who} for a worker that could run {what}: {needs.why_nobody(workers)}")
        return found
