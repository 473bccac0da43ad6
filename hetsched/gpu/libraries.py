"""What the names of libraries mean: which are of a device, which may be, and which only ask, check or bring back."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "ALIASES",
    "ALWAYS",
    "ASKS",
    "BRINGS_BACK",
    "CHECKS",
    "DEVICE",
    "FOLLOWS_INPUT",
    "IMPORTS",
    "MAY",
    "NAMING",
    "NOTHING",
    "ROOTS",
    "SWITCHES",
    "UNLESS_HOST",
    "is_device_type",
    "libraries_in",
    "meaning",
    "mentions_library",
    "names_device",
    "root_of",
    "words",
]

NOTHING: Final = 0
"""Says nothing: a number, a kind of number, a version."""
MAY: Final = 1
"""May use a device; its arguments tell."""
DEVICE: Final = 2
"""Uses a device when called."""
BRINGS_BACK: Final = 3
"""Copies from a device to the host."""
FOLLOWS_INPUT: Final = 4
"""Uses what its argument lives on."""
CHECKS: Final = 5
"""Tells whether there is a device, and is assumed to say yes."""
ASKS: Final = 6
"""Tells whether its argument lives on a device."""
UNLESS_HOST: Final = 7
"""Uses a device when called, unless an argument names the CPU."""


def words(text: str) -> frozenset[str]:
    """The words of a text; lists of names are easier to read this way."""
    return frozenset(text.split())


_DEVICE_ROOTS = words(
    """
    apex bitsandbytes cucim cuda cudf cudf_polars cudnn cugraph cuml cunumeric cuopt cupy cupy_backends cupynumeric
    cupyx cuproj cuquantum cusignal cuspatial cutensornet cuvs cuxfilter dask_cuda dask_cudf flash_attn kvikio nvcomp
    nvidia nvmath nvtabular nx_cugraph pycuda pylibcudf pylibcugraph pylibraft raft_dask rapids_singlecell rmm skcuda
    tensorrt triton vllm
    """
)
_MAY_ROOTS = words(
    """
    accelerate botorch catboost chainer chainermn cv2 deepspeed dgl diffusers easyocr faiss fastai flax gpytorch haiku
    ignite jax jaxlib keras kornia lightgbm lightning monai mxnet numba onnxruntime open_clip optax paddle polars
    pyopencl pyro pytorch_lightning sentence_transformers skorch spacy stable_baselines3 taichi tensorflow thinc timm
    stumpy tinygrad torch torch_geometric torchaudio torchvision transformers ultralytics warp whisper xgboost
    """
)
ROOTS: Final = _DEVICE_ROOTS | _MAY_ROOTS
"""The top names of libraries that use a device, or may."""

ALIASES: Final = {
    "cp": "cupy", "jnp": "jax.numpy", "wp": "warp", "ti": "taichi", "xgb": "xgboost", "lgb": "lightgbm",
    "tf": "tensorflow", "tl": "triton.language", "ort": "onnxruntime", "pl": "polars", "drv": "pycuda.driver",
    "mx": "mxnet", "cuda": "numba.cuda",
    **{name: name for name in ROOTS - words("apex cuda nvidia warp ignite whisper lightning accelerate")},
}  # fmt: skip
"""What people call the modules, for names that are bound to nothing here because the library is not installed."""

ALWAYS: Final = words("cudf cugraph cuml cupy cupyx cuspatial cuvs dask_cudf pycuda rmm")
"""Those of which each object is on a device, or works there."""

NAMING: Final = words(
    """
    accelerator arch backend ctx dev device device_map device_name device_type devices engine map_location place
    predictor providers target target_offload task_type torch_device tree_method
    """
)
"""What people call the arguments and settings that name a device."""
SWITCHES: Final = words("cuda gpu use_cuda use_gpu")
"""What people call those that switch a device on."""

IMPORTS: Final = frozenset({"pycuda.autoinit", "pycuda.gpuarray", "cudf.pandas", "cuml.accel"})
"""Modules that use a device as soon as they are imported."""

_EXACT: dict[str, int] = {
    "cupy.get_array_module": FOLLOWS_INPUT, "cupyx.scipy.get_array_module": FOLLOWS_INPUT,
    "cupy.asnumpy": BRINGS_BACK, "cupyx.scipy.sparse.issparse": ASKS, "cupyx.scipy.sparse.isspmatrix": ASKS,
    "numba.cuda.is_cuda_array": ASKS, "torch.is_tensor": NOTHING, "torch.device": MAY,
    "numba.cuda.is_supported_version": CHECKS, "numba.cuda.detect": NOTHING, "numba.cuda.gpus": NOTHING,
    "torch.cuda.manual_seed": MAY, "torch.cuda.manual_seed_all": MAY, "torch.cuda.get_arch_list": NOTHING,
    "torch.cuda.is_bf16_supported": CHECKS, "torch.cuda.amp.GradScaler": MAY, "torch.cuda.nvtx": NOTHING,
    "torch.version.cuda": NOTHING, "torch.cuda.get_device_capability": CHECKS, "torch.cuda.get_device_name": CHECKS,
    "tensorflow.test.is_gpu_available": CHECKS, "tensorflow.config.list_physical_devices": CHECKS,
    "tensorflow.config.experimental.list_physical_devices": CHECKS, "tensorflow.test.is_built_with_cuda": CHECKS,
    "onnxruntime.get_available_providers": NOTHING, "onnxruntime.get_device": NOTHING,
    "cv2.cuda.getCudaEnabledDeviceCount": CHECKS, "faiss.get_num_gpus": CHECKS, "faiss.index_gpu_to_cpu": BRINGS_BACK,
    "spacy.require_gpu": DEVICE, "spacy.prefer_gpu": DEVICE, "thinc.api.require_gpu": DEVICE,
    "thinc.api.prefer_gpu": DEVICE, "polars.GPUEngine": DEVICE, "paddle.CUDAPlace": DEVICE, "mxnet.gpu": DEVICE,
    "chainer.cuda.to_gpu": DEVICE, "chainer.backends.cuda.to_gpu": DEVICE, "chainer.cuda.to_cpu": BRINGS_BACK,
    "warp.launch": UNLESS_HOST, "warp.array": UNLESS_HOST, "warp.zeros": UNLESS_HOST, "warp.empty": UNLESS_HOST,
    "warp.from_numpy": UNLESS_HOST, "warp.ones": UNLESS_HOST, "warp.full": UNLESS_HOST,
    "warp.launch_tiled": UNLESS_HOST, "triton.cdiv": NOTHING, "triton.next_power_of_2": NOTHING,
    "cuda.pathfinder": NOTHING, "torch.cuda.amp.custom_fwd": MAY, "torch.cuda.amp.custom_bwd": MAY,
    "jax.default_backend": CHECKS, "numba.cuda.cudadrv.devices.gpus": NOTHING,
}  # fmt: skip

_LEAVES: dict[str, int] = {
    **dict.fromkeys(
        words(
            """
            float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ complex64 complex128 dtype
            newaxis pi e inf nan euler_gamma result_type can_cast finfo iinfo issubdtype promote_types errstate isscalar
            set_printoptions show_config show_versions __version__ __name__ __doc__ __file__
            """
        ),
        NOTHING,
    ),
    **dict.fromkeys(
        words("is_available device_count getDeviceCount get_device_count is_initialized is_cuda_available"),
        CHECKS,
    ),
}
_FRONTS: tuple[tuple[str, int], ...] = (
    ("torch.cuda.nvtx.", NOTHING),
    ("torch.cuda.", DEVICE),
    ("numba.cuda.", DEVICE),
    ("numba_cuda.", DEVICE),
    ("cv2.cuda.", DEVICE),
    ("cv2.cuda_", DEVICE),
    ("chainer.cuda.", DEVICE),
    ("jax.experimental.pallas.triton", DEVICE),
    ("torch.backends.", NOTHING),
    ("cuda.pathfinder.", NOTHING),
)
_TELLING_BY_NAME: Final = words("faiss stumpy")
"""Libraries that have their functions for devices beside those for the CPU, under names that say so."""
_known: dict[str, int] = {}


def root_of(path: str) -> str:
    """The top name of a dotted one."""
    return path.partition(".")[0]


def names_device(text: str) -> bool:
    """Tell whether a text is a device's name, as "cuda:0", or that of a way to a device."""
    low = text.lower()
    if low.startswith(("cuda", "gpu", "/gpu", "/device:gpu", "torch.cuda.")):
        return True
    return low in _OTHER_NAMES or text in _PROVIDERS


_OTHER_NAMES: Final = words("hip rocm mps xpu nccl")
_PROVIDERS: Final = words("CUDAExecutionProvider TensorrtExecutionProvider ROCMExecutionProvider")


def is_device_type(kind: type) -> bool:
    """Tell whether its instances stand for devices: those of torch, JAX and CuPy do."""
    return kind.__name__ in ("device", "Device") and root_of(str(kind.__module__)) in ("cupy", "jax", "jaxlib", "torch")


def meaning(path: str) -> int:
    """What calling (or handing on) a library's function or class means, by its dotted name; one of the constants."""
    found = _known.get(path)
    if found is None:
        if len(_known) > 10_000:
            _known.clear()
        found = _known[path] = _meaning(path)
    return found


def _meaning(path: str) -> int:
    root, leaf = root_of(path), path.rpartition(".")[2]
    if path in _EXACT:
        return _EXACT[path]
    # Libraries show a function in one module and keep it in another: cupy._creation.from_data.asarray.
    short = f"{root}.{leaf}"
    if root in _DEVICE_ROOTS and short in _EXACT:
        return _EXACT[short]
    if root in ROOTS and leaf in _LEAVES:
        return _LEAVES[leaf]
    if leaf.endswith(("Error", "Exception", "Warning")):
        return NOTHING
    for front, told in _FRONTS:
        if path.startswith(front):
            return told
    if root in _TELLING_BY_NAME and "gpu" in leaf.lower():
        return DEVICE
    if root in _DEVICE_ROOTS:
        return DEVICE
    return MAY if root in _MAY_ROOTS else NOTHING


_NAMED = re.compile(r"\b(?:" + "|".join(sorted(ROOTS)) + r")\b")


_TOP = re.compile(r"""(?<![\w.'"])(?:""" + "|".join(sorted(ROOTS)) + r""")(?![\w'"])""")


def libraries_in(detail: str) -> list[str]:
    """The libraries that a piece of evidence on code names, by the top of a dotted name and not by a text's "cuda"."""
    return _TOP.findall(detail)


def mentions_library(text: str) -> bool:
    """Tell whether a source text has the name of any library that uses a device, or may."""
    return _NAMED.search(text) is not None
