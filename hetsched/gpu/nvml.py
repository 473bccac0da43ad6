"""Ask NVIDIA's management library for the devices of this machine, and for the memory that processes use on them.

It is part of the driver, and asking it makes no context on any device. It is loaded by its own name, so that no package
is needed; where it is not there, there is nothing to ask.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Final, NamedTuple

__all__ = ["Gpu", "list_gpus", "memory_of_process"]

_LIBRARIES: Final = ("libnvidia-ml.so.1", "nvml.dll")
_NAME_BYTES: Final = 96
_MOST_PROCESSES: Final = 512
_MOST_SLICES: Final = 16


class Gpu(NamedTuple):
    """A device as the driver knows it:

    its number in the driver's order, UUID, model, memory in bytes, and its MIG slices.
    """

    number: int
    uuid: str
    model: str
    memory: int
    slices: tuple[str, ...] = ()


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Refused(Exception):
    """The library answered with an error."""


def _library() -> Any:
    """The library, set up; None where there is none, or no driver that it could speak to."""
    return _opened(os.getpid())


@functools.cache
def _opened(_process: int) -> Any:
    """Once for each process: one that was forked does not share what the library keeps open."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return library if library.nvmlInit_v2() == 0 else None
    return None


def list_gpus() -> tuple[Gpu, ...] | None:
    """The machine's devices in the driver's order, whatever ``CUDA_VISIBLE_DEVICES`` says; None if nobody can tell."""
    library = _library()
    if library is None:
        return None
    try:
        count = _number(library.nvmlDeviceGetCount_v2)
        return tuple(_gpu(library, index) for index in range(count))
    except (_Refused, AttributeError):
        return None


def memory_of_process(pid: int) -> int:
    """Bytes that a process holds on all devices; 0 where that cannot be told. Costs about a millisecond."""
    library = _library()
    if library is None:
        return 0
    try:
        ask = getattr(library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if ask is None:
            return 0
        used = 0
        for index in range(_number(library.nvmlDeviceGetCount_v2)):
            rows = (_Process * _MOST_PROCESSES)()
            count = ctypes.c_uint(_MOST_PROCESSES)
            _check(ask(_handle(library, index), ctypes.byref(count), rows))
            known = [row.used for row in rows[: count.value] if row.pid == pid]
            used += sum(n for n in known if n < 1 << 62)  # more stands for "not known"
        return used
    except (_Refused, AttributeError):
        return 0


def _check(code: int) -> None:
    if code != 0:
        raise _Refused(code)


def _number(ask: Any, *given: Any) -> int:
    number = ctypes.c_uint()
    _check(ask(*given, ctypes.byref(number)))
    return int(number.value)


def _handle(library: Any, index: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _check(library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
    return handle


def _text(ask: Any, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_NAME_BYTES)
    _check(ask(handle, buffer, _NAME_BYTES))
    return buffer.value.decode("utf-8", "replace")


def _gpu(library: Any, index: int) -> Gpu:
    handle = _handle(library, index)
    memory = _Memory()
    _check(library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)))
    uuid, model = _text(library.nvmlDeviceGetUUID, handle), _text(library.nvmlDeviceGetName, handle)
    return Gpu(index, uuid, model, int(memory.total), _slices(library, handle))


def _slices(library: Any, handle: ctypes.c_void_p) -> tuple[str, ...]:
    """The UUIDs of a device's MIG slices; () where it is whole."""
    try:
        mode, pending = ctypes.c_uint(), ctypes.c_uint()
        _check(library.nvmlDeviceGetMigMode(handle, ctypes.byref(mode), ctypes.byref(pending)))
        if not mode.value:
            return ()
        most = min(_number(library.nvmlDeviceGetMaxMigDeviceCount, handle), _MOST_SLICES)
    except (_Refused, AttributeError):  # a device or a driver without MIG
        return ()
    found = []
    for number in range(most):
        part = ctypes.c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number, ctypes.byref(part)) == 0:
            found.append(_text(library.nvmlDeviceGetUUID, part))
    return tuple(found)
