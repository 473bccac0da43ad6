"""Arguments of libraries that say how many devices, or which, and constants that name CUDA."""

from __future__ import annotations

import types

import pytest
from gpu_corpus.stand_ins import stand_ins

from hetsched.core.evidence import STRONG
from hetsched.gpu import code

HEAD = "import cv2\nimport pytorch_lightning as pl\nimport tensorflow as tf\nimport torch\n"


@pytest.mark.parametrize(
    ("body", "there"),
    [
        ("pl.Trainer(gpus=1).fit(x)", True),
        ("pl.Trainer(gpus=[0, 1]).fit(x)", True),
        ("pl.Trainer(gpus=0).fit(x)", False),
        ("pl.Trainer(devices=2, accelerator='cpu').fit(x)", False),
        ("tf.distribute.MirroredStrategy(devices=['/gpu:0', '/gpu:1'])", True),
        ("tf.distribute.MirroredStrategy(devices=['/cpu:0'])", False),
        ("torch.nn.DataParallel(x, device_ids=[0, 1])", True),
        ("torch.nn.DataParallel(x, device_ids=None)", False),
        ("x.setPreferableTarget(cv2.dnn.DNN_TARGET_CUDA)", True),
        ("x.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)", False),
        ("submit(script=x, gpus=4)", False),  # a job for another machine
    ],
)
def test_what_arguments_name(body, there):
    code.forget()
    with stand_ins():
        module = types.ModuleType("a_persons_module")
        exec(f"{HEAD}def submit(**job): return job\ndef f(x):\n    return {body}\n", vars(module))
        assert any(e.weight >= STRONG for e in code.evidence_of(module.f)) is there
    code.forget()
