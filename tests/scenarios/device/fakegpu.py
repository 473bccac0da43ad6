"""A stand-in for a GPU library. Only workers that have a GPU can import it."""

from __future__ import annotations

import ctypes

import numpy as np

__all__ = ["Array", "Numbered", "Stubborn"]


class Array:
    """An array "on the device": memory that nobody but :meth:`get` is to read."""

    def __init__(self, host):
        host = np.array(host, order="K")
        self._memory = ctypes.create_string_buffer(max(host.nbytes, 1))
        self._view = np.ndarray(host.shape, host.dtype, self._memory, strides=host.strides)
        self._view[...] = host

    dtype = property(lambda self: self._view.dtype)
    shape = property(lambda self: self._view.shape)
    nbytes = property(lambda self: self._view.nbytes)

    @property
    def __cuda_array_interface__(self):
        interface = self._view.__array_interface__
        return {name: interface[name] for name in ("shape", "typestr", "descr", "strides", "data", "version")}

    def _seen_as(self, view):
        other = object.__new__(type(self))
        other._memory, other._view = self._memory, view
        return other

    def __getitem__(self, where):
        return self._seen_as(self._view[where])

    @property
    def T(self):
        return self._seen_as(self._view.T)

    def get(self):
        """A copy in host memory."""
        return self._view.copy(order="K")

    def __reduce__(self):
        # For those who have the library; whoever has not must never get such a pickle.
        return type(self), (self._view,)


class Numbered(Array):
    """One that tells which device it is on, and comes back there."""

    def __init__(self, host, number):
        super().__init__(host)
        self._number = number

    def __dlpack_device__(self):
        return 2, self._number

    def __reduce__(self):
        return type(self), (self._view, self._number)


class Stubborn(Array):
    """One that does not come to the host."""

    get = None
