"""What the scenarios' tasks run: functions and classes that a worker can import quickly."""

from __future__ import annotations

import dataclasses
import sys

__all__ = [
    "Held", "Landmine", "ToldProtocol", "Unpicklable", "arrays", "in_containers", "is_on_device", "lay", "on_device",
    "on_device_number", "own_annotations", "raise_unpicklable", "same", "stubborn", "thing", "thing_fails",
]  # fmt: skip


def same(x):
    """Give it back."""
    return x


def own_annotations():
    """What the task is told of itself."""
    import hetsched

    return dict(hetsched.current_task().annotations)


@dataclasses.dataclass
class Held:
    """A dataclass that holds something."""

    name: str
    what: object


def arrays(count, nbytes):
    """So many arrays of so many bytes."""
    import numpy as np

    return [np.full(nbytes, n % 251, "u1") for n in range(count)]


def on_device(host):
    """Bring an array to the device."""
    import fakegpu

    return fakegpu.Array(host)


def on_device_number(host, number):
    """Bring an array to that one of the devices."""
    import fakegpu

    return fakegpu.Numbered(host, number)


def is_on_device(array):
    """Whether it is what it was made as."""
    import fakegpu

    return isinstance(array, fakegpu.Array)


def in_containers(hosts):
    """Arrays on the device, as they are and in containers, and seen in ways that are not contiguous."""
    import fakegpu
    import pandas as pd

    one = {name: fakegpu.Array(host) for name, host in hosts.items()}
    column = pd.Series(list(one.values()), dtype=object)
    square = one["C"]
    return {
        "dict": one, "list": list(one.values()), "tuple": tuple(one.values()), "held": Held("C", [square]),
        "frame": pd.DataFrame({"n": range(len(one)), "what": column}), "sliced": square[::2, ::-3],
        "turned": square.T[1:], "twice": [square, square],
    }  # fmt: skip


def stubborn(wrap):
    """Something on the device that does not come to the host."""
    import fakegpu

    return wrap([fakegpu.Stubborn([1.0])])


def thing():
    """An object of a class that not everybody can import."""
    import only_there

    return only_there.Thing()


def thing_fails(text):
    """Raise an error of such a class."""
    import only_there

    only_there.fail(text)


def _explode(*_):
    raise RuntimeError("loading this failed")


class Landmine:
    """It can be sent, and not be loaded."""

    def __reduce__(self):
        return _explode, ("x",)


def lay(deep=False):
    """Make one."""
    return [1, {"a": Landmine()}] if deep else Landmine()


class ToldProtocol:
    """It comes to whoever loads it as the protocol that it was pickled with."""

    def __reduce_ex__(self, protocol):
        return int, (protocol,)


class Unpicklable(Exception):
    """An error that holds what cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.held = sys._getframe()


def raise_unpicklable(text):
    """Raise it."""
    raise Unpicklable(text)
