"""Libraries to import where the real ones are not installed: anything in them exists, and nothing computes.

Two kinds. A *telling* library is like a real one in what can be seen of its objects: functions and classes name the
module they are of. A *mute* one is one class of objects that answer to every name and tell nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

import dask.array  # noqa: F401 - it notes what kinds of arrays there are as it is imported, and shall see no stand-in

__all__ = ["ROOTS", "stand_ins"]

ROOTS = (
    "array_api_compat",
    "bitsandbytes",
    "catboost",
    "cucim",
    "cudf",
    "cugraph",
    "cuml",
    "cupy",
    "cupyx",
    "cuspatial",
    "cuvs",
    "cv2",
    "dask_cudf",
    "dask_cuda",
    "faiss",
    "jax",
    "kvikio",
    "lightgbm",
    "networkx",
    "numba",
    "nvtx",
    "onnxruntime",
    "paddle",
    "polars",
    "pycuda",
    "pylibraft",
    "pynvml",
    "pytorch_lightning",
    "rmm",
    "scipy",
    "sklearn",
    "spacy",
    "stumpy",
    "taichi",
    "tensorflow",
    "torch",
    "transformers",
    "triton",
    "warp",
    "xgboost",
    "whisper",
    "ultralytics",
    "sentence_transformers",
    "lightning",
)


class Thing:
    """What calls return: it has every name, can be called, indexed, entered and calculated with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made_of = (args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return _wrapped(args[0])
        return Thing()

    def __getitem__(self, item: Any) -> Any:
        return Thing()

    def __matmul__(self, other: Any) -> Any:
        return Thing()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        return None


def _wrapped(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


class Module(types.ModuleType):
    """A module that is pickled as cloudpickle does modules."""

    __path__: list[str] = []

    def __reduce__(self) -> Any:
        from cloudpickle.cloudpickle import subimport

        return subimport, (self.__name__,)


class Telling(Module):
    """A module whose functions and classes say where they are from, as those of real libraries do."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _special(self.__name__, name)
        if made is None:
            is_class = name[0].isupper() or name == "ndarray"
            made = _class(self.__name__, name) if is_class else _function(self.__name__, name)
        setattr(self, name, made)
        return made


def _method(name: str, module: str) -> Any:
    """A method of an estimator: bound to it when asked for, as with the real ones."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return Thing()

    call.__name__, call.__module__ = name, module
    return call


_LEARNING = ("cuml", "lightgbm", "sklearn", "xgboost")


def _class(module: str, name: str) -> Any:
    """A class that is where it says it is."""
    learns = module.partition(".")[0] in _LEARNING and name != "ndarray"
    methods = {name: _method(name, module) for name in ("fit", "kneighbors", "predict", "transform")} if learns else {}
    made = type(name, (Thing,), {"__module__": module, **methods})
    return vars(importlib.import_module(module)).setdefault(name, made)


def _function(module: str, name: str) -> Any:
    """A function that makes arrays, or what its library makes."""
    array = _class(module.partition(".")[0], "ndarray")

    def call(*args: Any, **kwargs: Any) -> Any:
        return array(*args, **kwargs)

    call.__module__, call.__name__, call.__qualname__ = module, name, name
    return call


class Device:
    """What ``torch.device`` makes."""

    def __init__(self, said: str, index: int | None = None) -> None:
        self.type, _, number = said.partition(":")
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> Any:
        return Device, (str(self),)


Device.__module__, Device.__qualname__, Device.__name__ = "torch", "device", "device"


def _decorates(module: str, kind: str, keep: str) -> Any:
    """A decorator, with or without arguments, that makes dispatchers of the kind."""

    def decorate(*args: Any, **kwargs: Any) -> Any:
        def make(func: Any) -> Any:
            made = _class(module, kind)()
            setattr(made, keep, func)
            return made

        return make(args[0]) if len(args) == 1 and isinstance(args[0], types.FunctionType) else make

    return decorate


def _vectorize(*args: Any, target: str = "cpu", **kwargs: Any) -> Any:
    on_device = ("numba.cuda.vectorizers", "CUDAUFuncDispatcher", "py_func")
    return _decorates(*(on_device if target == "cuda" else ("numba.np.ufunc.dufunc", "DUFunc", "py_func")))


def _special(module: str, name: str) -> Any:
    """What is neither a plain function nor a plain class."""
    full = f"{module}.{name}"
    if full in _MADE:
        return _MADE[full]
    return importlib.import_module(full) if full in _MODULES else None


_NUMBA_CPU = _decorates("numba.core.registry", "CPUDispatcher", "py_func")
_MADE: dict[str, Any] = {
    "cupy.fuse": _decorates("cupy._core.fusion", "Fusion", "func"),
    "cupyx.jit.rawkernel": _decorates("cupyx.jit._interface", "_JitRawKernel", "_func"),
    "torch.device": Device,
    "torch.__version__": "2.9.0",
    "numba.cuda.jit": _decorates("numba.cuda.dispatcher", "CUDADispatcher", "py_func"),
    "numba.cuda.reduce": _decorates("numba.cuda.kernels.reduction", "Reduce", "_functor"),
    "numba.njit": _NUMBA_CPU,
    "numba.jit": _NUMBA_CPU,
    "numba.vectorize": _vectorize,
    "numba.prange": range,
    "sklearn.pipeline.make_pipeline": lambda *steps: _class("sklearn.pipeline", "Pipeline")(list(enumerate(steps))),
    "triton.jit": _decorates("triton.runtime.jit", "JITFunction", "fn"),
    "warp.kernel": _decorates("warp._src.context", "Kernel", "func"),
}
_MODULES = frozenset(
    {
        "cupy.cuda",
        "cupy.cuda.runtime",
        "cupy.fft",
        "cupy.linalg",
        "cupy.random",
        "cupyx.jit",
        "cupyx.scipy",
        "cupyx.scipy.ndimage",
        "cupyx.scipy.signal",
        "cupyx.scipy.sparse",
        "cv2.cuda",
        "jax.numpy",
        "jax.random",
        "numba.cuda",
        "scipy.ndimage",
        "scipy.signal",
        "scipy.sparse",
        "tensorflow.config",
        "torch.backends",
        "torch.cuda",
        "torch.nn",
        "torch.nn.functional",
        "torch.optim",
        "torch.utils",
        "torch.distributed",
        "triton.language",
    }
)


class Mute(Module):
    """A module of which every name is the same kind of thing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        return importlib.import_module(full) if full in _MODULES else _MUTE.get(full, Thing())


_MUTE = {
    "cupy.ndarray": type("ndarray", (), {}),
    "torch.nn.Module": type("Module", (Thing,), {}),
    "numba.prange": range,
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, kind: type[types.ModuleType], roots: frozenset[str]) -> None:
        self._kind, self._roots = kind, roots

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.partition(".")[0] in self._roots:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return self._kind(spec.name)

    def exec_module(self, module: Any) -> None:
        return None


@contextlib.contextmanager
def stand_ins(*, telling: bool = True, real: bool = False) -> Iterator[None]:
    """Have the libraries of ``ROOTS`` importable; with ``real`` those that are installed are themselves."""
    hidden = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ROOTS} if not real else {}
    roots = frozenset(r for r in ROOTS if not (real and importlib.util.find_spec(r)))
    finder = _Finder(Telling if telling else Mute, roots)
    for name in hidden:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
            del sys.modules[name]
        sys.modules.update(hidden)
