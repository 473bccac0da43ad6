"""What is learned of each kind of task: how long it takes, how big its result is, whether it is a GPU task."""

from __future__ import annotations

from .gpu import Case

__all__ = ["Estimate", "TaskPrefix"]


class Estimate:
    """What was measured of one kind of task on one executor: sums that forget by halving."""

    __slots__ = ("count", "nbytes", "seconds")

    def __init__(self) -> None:
        self.count = 0.0
        self.seconds = 0.0
        self.nbytes = 0.0


class TaskPrefix:
    """What is learned per kind of task: durations and sizes per executor, and whether it is a GPU task.

    ``kind`` is its own name; several kinds may share a ``name`` for people, if different functions make them.
    """

    __slots__ = ("bound", "case", "function", "gpu", "kind", "kinds", "met", "met_as", "met_in", "name", "on")

    def __init__(self, name: str, kind: str = "") -> None:
        self.name = name
        self.kind = kind or name
        self.bound = self.kind + "!"
        """What workers call those of its tasks of which a person has said that they are not for the GPU."""
        self.on: dict[str, Estimate] = {}
        self.function = ""
        """The digest of the function that makes them, as far as it is known."""
        self.kinds = 0  # how many others share its name
        self.met: TaskPrefix | None = None
        """What was found last, so that it need not be looked for again while tasks of a graph are taken in: of those
        with this name that the function in the place ``met_as`` makes, in the graph whose kinds ``met_in`` are, the
        kind."""
        self.met_as: object = None
        self.met_in: object = None
        self.case: Case | None = None
        """The evidence that they are GPU tasks, if there ever was any."""
        self.gpu = False
        """All of them are GPU tasks, by that evidence."""
