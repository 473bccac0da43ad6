"""A scheduler and the file of what was learned of GPU tasks, for which its loop never waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from hetsched.core.events import LessonsForgotten
from hetsched.core.gpu import Lesson
from hetsched.core.makers import Maker
from hetsched.core.state import State
from hetsched.core.verdicts import cases_of, lessons
from hetsched.gpu.learned import Learned, moment

__all__ = ["Lessons"]


class Lessons:
    """What the scheduler with this ``state`` has learned, and its ``file`` if any; ``feed`` tells it an event."""

    __slots__ = ("_feed", "_state", "_told", "file")

    def __init__(self, file: Learned | None, state: State, feed: Callable[[LessonsForgotten], None]) -> None:
        self.file = file
        self._state = state
        self._feed = feed
        self._told = moment()
        """The last forgetting that the scheduler was told of: whatever it knows it has learned since."""

    async def refresh(self) -> None:
        """Read the file if it has changed, in a thread, and have the scheduler forget what people had forgotten."""
        file = self.file
        if file is None:
            return
        if file.is_stale():
            await trio.to_thread.run_sync(file.refresh)
        patterns, last = file.forgotten(self._told)
        if patterns:
            self._feed(LessonsForgotten(patterns))
            self._told = last

    def recall(self, makers: Sequence[Maker]) -> Sequence[Maker]:
        """Add to functions what the file said of them when it was read last."""
        return makers if self.file is None else self.file.recall(makers, read=False)

    async def keep(self, everything: bool = False) -> None:
        """Write down, in a thread, what was learned since the last time, or all of it."""
        found: list[Lesson] = [] if self.file is None else lessons(cases_of(self._state), everything)
        if found and self.file is not None:
            await trio.to_thread.run_sync(self.file.note, found, self._told)
