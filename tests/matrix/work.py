"""What workers of every version run, and how it is checked; importable by all of them."""

from __future__ import annotations

import sys

__all__ = ["ask", "frame_of", "grown", "total", "version"]


def version():
    """The Python that this runs on."""
    return "{}.{}".format(*sys.version_info)


def grown(array, by):
    """An array computed from another."""
    return array + by


def total(array):
    """A number computed from an array."""
    return float(array.sum())


def frame_of(n):
    """A frame of several types, None where there is no pandas."""
    try:
        import pandas as pd
    except ImportError:
        return None
    return pd.DataFrame({"n": range(n), "half": [i / 2 for i in range(n)], "text": [str(i) for i in range(n)]})


def ask(client, workers):
    """Have each worker work for this client, and for the others; returns by worker what went wrong, in sentences."""
    import numpy as np

    array = np.arange(200_000.0).reshape(400, 500)[:, ::-1]
    ones = {name: client.submit(grown, array, 1, workers=[name]) for name in workers}
    return {name: [*_wrong(client, name, said, array, ones)] for name, said in workers.items()}


def _wrong(client, name, said, array, ones):
    import numpy as np

    def submit(func, *args):
        return client.submit(func, *args, workers=[name])

    if submit(version).result() != said:
        yield f"it is not of Python {said}"
    if not np.array_equal(ones[name].result(), array + 1):
        yield "it made another array"
    for other, one in ones.items():
        if submit(total, one).result() != total(array + 1):
            yield f"it got another array from {other}"
    yield from _wrong_values(submit)
    yield from _wrong_error(name, submit(divmod, 1, 0))
    yield from _wrong_frames(submit(frame_of, 50))


def _wrong_values(submit):
    import numpy as np

    structured = np.array([(1, "ab"), (2, "c")], dtype=[("n", ">i4"), ("s", "U3")])
    back = submit(np.flip, structured).result()
    if back.dtype != structured.dtype or list(back) != list(structured[::-1]):
        yield f"it gave {back!r}"
    values = [1, None, "x", (2.5, [b"y"]), {3}, np.float32(1.5), np.datetime64("2020-01-01")]
    if submit(list, tuple(values)).result() != values:
        yield "it gave other plain values"


def _wrong_error(name, future):
    try:
        future.result()
    except ZeroDivisionError as error:
        if not any(name in note for note in error.__notes__):
            yield "its error does not name it"
    else:
        yield "it can divide by zero"


def _wrong_frames(future):
    mine = frame_of(50)
    try:
        theirs = future.result()
    except ModuleNotFoundError as error:
        if mine is not None:
            yield f"its frame could not be loaded: {error}"
    else:
        if mine is not None and theirs is not None and _values(mine) != _values(theirs):
            yield f"it made another frame: {_values(theirs)}"


def _values(frame):
    # Not by their own comparison: two versions of pandas may keep equal texts in different ways.
    return frame.to_dict("list"), frame.dtypes.astype(str).to_dict()
