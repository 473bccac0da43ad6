"""Programs of a few lines, run from their texts, in which ``f`` is the task: no file tells what their names are."""

from __future__ import annotations

import types

import pytest
from gpu_corpus.stand_ins import stand_ins

from hetsched.core.evidence import STRONG, WEAK
from hetsched.gpu import code

GPU = [
    """
import cupy as cp
def f(x):
    return cp.asarray(x) + 1
""",
    """
from numba import cuda
import numpy as np
@cuda.jit
def kernel(a):
    i = cuda.grid(1)
    if i < a.size: a[i] += 1
def f(x):
    kernel[32, 128](x)
    return x
""",
    """
import torch
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
model = torch.nn.Linear(2, 2).to(device)
def f(x):
    return model(torch.tensor(x).to(device)).cpu().numpy()
""",
    """
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.l(x.to('cuda'))
def f(x): return M()(x)
""",
    """
import jax
def f(x):
    gpu = jax.devices('gpu')[0]
    return jax.device_put(x, gpu) * 2
""",
    """
import tensorflow as tf
def f(x):
    with tf.device('/device:GPU:0'):
        return tf.reduce_sum(x).numpy()
""",
    """
import cudf
def f(df): return cudf.DataFrame.from_pandas(df).groupby('a').sum().to_pandas()
""",
    """
import dask_cudf
def f(p): return dask_cudf.read_csv(p).compute()
""",
    """
from cuml.ensemble import RandomForestClassifier as RF
model = RF()
def f(x): return model.predict(x)
""",
    """
import cugraph
def f(e): return cugraph.louvain(e)
""",
    """
import cupy
class Op:
    xp = cupy
    def __call__(self, x): return self.xp.sqrt(x)
f = Op()
""",
    """
import cupy
def make(lib):
    def g(x): return lib.asarray(x)
    return g
f = make(cupy)
""",
    """
import numpy as np
def f(x):
    try:
        import cupy as xp
    except ImportError:
        xp = np
    return xp.asarray(x).sum()
""",
    """
import torch
def f(x):
    x = torch.as_tensor(x)
    if torch.cuda.is_available():
        x = x.to(torch.device('cuda'))
    return x.sum().item()
""",
    """
import torch
DEVICES = ['cuda:0', 'cuda:1']
def f(i, x): return torch.tensor(x, device=DEVICES[0])
""",
    """
import torch
DEVICES = ['cuda:0', 'cuda:1']
def f(i, x): return torch.tensor(x, device=DEVICES[i])
""",
    """
import torch
def f(i, x): return torch.tensor(x).to('cuda:%d' % i), torch.tensor(x).to('cuda:{}'.format(i))
""",
    """
import torch, os
def f(x):
    rank = int(os.environ.get('LOCAL_RANK', 0))
    torch.cuda.set_device(rank)
    return torch.tensor(x).cuda(rank)
""",
    """
import torch.distributed as dist
def f(x):
    dist.init_process_group('nccl')
    dist.all_reduce(x)
""",
    """
import cupy as cp
def f(x):
    out = []
    for a in x:
        if a is None:
            continue
        out.append(cp.asnumpy(cp.sqrt(cp.asarray(a))))
    return out
""",
    """
import cupy as cp, logging
def f(x):
    t0 = 1
    try:
        a = cp.asarray(x)
        r = cp.linalg.norm(a)
    except Exception as e:
        logging.exception('cuda failed')
        raise
    else:
        return float(r)
    finally:
        logging.info('done')
""",
    """
import cupy as cp
def f(x, y=None):
    if y is None:
        y = cp.ones(3)
    return y
""",
    """
import cupy as cp
from functools import partial, reduce
def step(a, b): return a + cp.asarray(b)
def f(xs): return reduce(step, xs)
""",
    """
import cupy as cp
f = lambda x: cp.asarray(x) if x is not None else None
""",
    """
import cupy as cp
def f(x):
    return cp.asarray(x).sum() if len(x) else 0
""",
    """
import warp as wp
@wp.kernel
def k(a: wp.array(dtype=float)): a[wp.tid()] = 1.0
def f(n):
    a = wp.zeros(n, dtype=float, device='cuda')
    wp.launch(k, dim=n, inputs=[a])
    return a.numpy()
""",
    """
import triton, torch
import triton.language as tl
@triton.jit
def k(p, n): tl.store(p, n)
def f(x):
    grid = lambda meta: (triton.cdiv(len(x), meta['B']),)
    k[grid](x, len(x), B=128)
    return x
""",
    """
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule
mod = SourceModule('...')
g = mod.get_function('g')
def f(x):
    g(drv.InOut(x), block=(4, 1, 1))
    return x
""",
    """
import kvikio
def f(p, n):
    with kvikio.CuFile(p, 'r') as fh: return fh.read(n)
""",
    """
from cucim.skimage.filters import gaussian
def f(x): return gaussian(x)
""",
    """
from cuml.dask.cluster import KMeans
def f(x): return KMeans().fit(x)
""",
    """
import lightning as L
def f(m, d):
    t = L.Trainer(accelerator='cuda', devices=2)
    t.fit(m, d)
""",
    """
from sentence_transformers import SentenceTransformer
def f(xs): return SentenceTransformer('m', device='cuda').encode(xs)
""",
    """
from transformers import AutoModelForCausalLM
def f(t): return AutoModelForCausalLM.from_pretrained('m', device_map='auto').generate(t)
""",
    """
import xgboost as xgb
def f(x, y):
    b = xgb.Booster()
    b.set_param({'device': 'cuda'})
    return b.predict(xgb.DMatrix(x))
""",
    """
import whisper
def f(p): return whisper.load_model('base', 'cuda').transcribe(p)
""",
    """
from ultralytics import YOLO
def f(p): return YOLO('m').predict(p, device=0)
""",
]

DEPENDS = [
    """
import cupy as cp
def f(x):
    xp = cp.get_array_module(x)
    y = xp.zeros_like(x)
    return y
""",
    """
import cupy as cp, numpy as np
def f(x):
    if cp.get_array_module(x) is cp:
        return cp.linalg.inv(x)
    return np.linalg.inv(x)
""",
    """
import cupy as cp, numpy as np
def f(x):
    lib = cp if isinstance(x, cp.ndarray) else np
    return lib.sum(x)
""",
    """
def f(x):
    if type(x).__module__.split('.')[0] == 'cupy':
        import cupy
        return cupy.asnumpy(x)
    return x
""",
    """
import numpy as np
def f(x):
    if hasattr(x, 'get'):
        x = x.get()
    return np.sum(x)
""",
    """
import cupy as cp, numpy as np
def f(x, use_gpu=None):
    xp = cp if use_gpu else np
    return xp.asarray(x)
""",
    """
import cupy as cp, numpy as np
def f(x, config):
    if config['gpu']:
        return cp.asarray(x).sum()
    return np.asarray(x).sum()
""",
    """
import torch
def f(model, x):
    device = next(model.parameters()).device
    return model(x.to(device))
""",
    """
import torch
def f(x): return torch.nn.functional.relu(x)
""",
]

CPU = [
    """
import torch
def f(x):
    t = torch.tensor(x)
    return (t * 2).numpy()
""",
    """
CUDA_MESSAGE = 'no cuda device; install cupy'
def f(x):
    if x is None: raise RuntimeError(CUDA_MESSAGE)
    return x + 1
""",
    """
def cuda_like(x): return x
def f(x): return cuda_like(x)
""",
    """
class cuda:
    @staticmethod
    def to_device(x): return x
def f(x): return cuda.to_device(x)
""",
    """
import types
cupy = types.SimpleNamespace(asarray=list)
def f(x): return cupy.asarray(x)
""",
    """
import numpy
def make(lib):
    def g(x): return lib.asarray(x)
    return g
f = make(numpy)
""",
    """
import torch.distributed as dist
def f(x):
    dist.init_process_group('gloo')
    dist.all_reduce(x)
""",
    """
import torch
def f(x):
    with torch.no_grad():
        return torch.as_tensor(x).to(torch.float32).cpu().numpy()
""",
    """
import nvtx
@nvtx.annotate('step')
def f(x): return x + 1
""",
]


@pytest.fixture
def telling():
    code.forget()
    with stand_ins():
        yield


@pytest.fixture(params=[True, False], ids=["telling", "mute"])
def any_kind(request):
    code.forget()
    with stand_ins(telling=request.param):
        yield


def found(text):
    module = types.ModuleType("a_persons_module")
    exec(compile(text, "<a person's program>", "exec", dont_inherit=True), vars(module))
    return code.evidence_of(module.f)


@pytest.mark.usefixtures("telling")
@pytest.mark.parametrize("text", GPU)
def test_gpu_tasks(text):
    assert any(e.weight >= STRONG for e in found(text))


@pytest.mark.usefixtures("any_kind")
@pytest.mark.parametrize("text", CPU + DEPENDS)
def test_other_tasks(text):
    assert not any(e.weight >= WEAK for e in found(text))
