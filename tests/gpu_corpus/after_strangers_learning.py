"""Learning, boosting and questions about devices: written without a look at the inspector, as after_strangers."""

import logging

import cuml
import lightgbm as lgb
import numpy as np
import pandas as pd
import sklearn.ensemble
import tensorflow as tf
import torch
import xgboost as xgb
from cuml.decomposition import PCA as cuPCA
from cuml.ensemble import RandomForestClassifier as cuForest
from sentence_transformers import SentenceTransformer
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger("cuda.jobs")

FOREST = Pipeline([("scale", StandardScaler()), ("forest", cuForest(n_estimators=200))])
BY_COLUMN = Pipeline(
    [
        (
            "columns",
            ColumnTransformer([("cat", OneHotEncoder(), ["city"]), ("num", cuPCA(n_components=4), ["a", "b"])]),
        ),
        ("clf", LogisticRegression()),
    ]
)
SEARCH = GridSearchCV(cuForest(), {"max_depth": [4, 8]}, cv=3)
BOOSTED = make_pipeline(StandardScaler(), xgb.XGBClassifier(tree_method="hist", device="cuda"))
PLAIN = Pipeline([("scale", StandardScaler()), ("clf", LogisticRegression(C=0.1))])
BOOSTED_HOST = make_pipeline(StandardScaler(), xgb.XGBClassifier(tree_method="hist", device="cpu"))
STACK = sklearn.ensemble.StackingClassifier(
    [("lr", LogisticRegression()), ("trees", sklearn.ensemble.ExtraTreesClassifier())]
)


# ---- pipelines


@gpu
def fit_forest_pipe(X, y):
    return FOREST.fit(X, y).score(X, y)


@gpu
def predict_by_column(df):
    return BY_COLUMN.predict_proba(df)[:, 1]


@gpu
def best_depth(X, y):
    SEARCH.fit(X, y)
    return SEARCH.best_params_


@gpu
def calibrated(X, y):
    clf = CalibratedClassifierCV(cuml.svm.SVC(probability=True), cv=3)
    return clf.fit(X, y).predict_proba(X)


@gpu
def validated(X, y):
    return cross_val_score(cuml.linear_model.LogisticRegression(), X, y, cv=5).mean()


gpu(FOREST.predict, name="after_strangers.bound_method_of_pipeline")


@cpu
def plain_pipe(X, y):
    return PLAIN.fit(X, y).score(X, y)


@cpu
def boosted_pipe_host(X, y):
    return BOOSTED_HOST.fit(X, y).predict(X)


@cpu
def stacked(X, y):
    return STACK.fit(X, y).predict(X)


cpu(PLAIN.predict, name="after_strangers.bound_method_of_plain_pipeline")


# ---- boosting, deep learning


@gpu(seen=False)
def boosted_pipe(X, y):
    return BOOSTED.fit(X, y).predict(X)


@gpu(seen=False)
def old_boosting(X, y):
    params = {"objective": "reg:squarederror", "tree_method": "gpu_hist", "max_depth": 6}
    booster = xgb.train(params, xgb.DMatrix(X, y), num_boost_round=100)
    return booster.predict(xgb.DMatrix(X))


@gpu(seen=False)
def light_boosting(X, y):
    model = lgb.LGBMRegressor(n_estimators=300, device_type="gpu", gpu_device_id=0)
    return model.fit(X, y).booster_.model_to_string()


@gpu(seen=False)
def booster_set_later(booster, X):
    booster.set_param({"device": "cuda:0"})
    return booster.predict(xgb.DMatrix(X))


@gpu(seen=False)
def in_tensorflow(x):
    with tf.device("/GPU:0"):
        return tf.reduce_sum(tf.matmul(x, x)).numpy()


@gpu
def embed(texts):
    model = SentenceTransformer("all-MiniLM-L6-v2", device="cuda")
    return model.encode(texts, batch_size=64, normalize_embeddings=True)


@gpu
def sentiments(texts):
    classify = pipeline("sentiment-analysis", model="distilbert-base-uncased", device=0)
    return [r["label"] for r in classify(texts, truncation=True)]


@gpu
def generate(prompt):
    tok = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="cuda", torch_dtype=torch.float16)
    out = model.generate(**tok(prompt, return_tensors="pt").to(model.device), max_new_tokens=20)
    return tok.decode(out[0])


@gpu(seen=False)
def transcribe(path):
    from faster_whisper import WhisperModel

    segments, _ = WhisperModel("small", device="cuda", compute_type="float16").transcribe(path)
    return " ".join(s.text for s in segments)


@gpu
def read_signs(image):
    import easyocr

    return easyocr.Reader(["en", "de"], gpu=True).readtext(image, detail=0)


@gpu
def paint(prompt):
    from diffusers import StableDiffusionPipeline

    pipe = StableDiffusionPipeline.from_pretrained("runwayml/stable-diffusion-v1-5")
    pipe.enable_model_cpu_offload()
    return np.asarray(pipe.to("cuda")(prompt).images[0])


@cpu
def host_boosting(X, y):
    params = {"objective": "reg:squarederror", "tree_method": "hist", "nthread": 1}
    return xgb.train(params, xgb.DMatrix(X, y), num_boost_round=50).predict(xgb.DMatrix(X))


@cpu
def host_light(X, y):
    return lgb.train({"device_type": "cpu", "num_leaves": 31, "gpu_use_dp": False}, lgb.Dataset(X, y)).predict(X)


@cpu
def host_embed(texts):
    return SentenceTransformer("all-MiniLM-L6-v2", device="cpu").encode(texts)


@cpu
def host_sentiments(texts):
    return pipeline("sentiment-analysis", device=-1)(texts)


@cpu
def only_tokens(texts):
    tok = AutoTokenizer.from_pretrained("bert-base-uncased")
    return tok(texts, padding=True, return_tensors="np")["input_ids"]


@cpu
def read_weights(path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    return {name: t.numpy() for name, t in state.items()}


@cpu
def read_weights_lambda(path):
    state = torch.load(path, map_location=lambda storage, loc: storage)
    return sum(v.numel() for v in state.values())


@cpu
def host_tensorflow(x):
    with tf.device("/CPU:0"):
        return tf.reduce_sum(x).numpy()


@cpu
def hide_cards_tensorflow(x):
    tf.config.set_visible_devices([], "GPU")
    return tf.math.cumsum(x).numpy()


@cpu
def host_ocr(image):
    import easyocr

    return easyocr.Reader(["en"], gpu=False).readtext(image)


@cpu
def tokens_to_loader(rows):
    data = torch.utils.data.TensorDataset(torch.as_tensor(rows))
    return [b[0].numpy() for b in torch.utils.data.DataLoader(data, batch_size=8, num_workers=0, pin_memory=False)]


# ---- questions about devices, and words


@cpu
def is_there_one(_):
    return {"torch": torch.__version__, "cuda": torch.cuda.is_available(), "built": torch.version.cuda}


@cpu
def log_environment(step):
    log.info("step %s, CUDA available: %s", step, torch.cuda.is_available())
    return step


@cpu
def driver_version(_):
    import pynvml

    pynvml.nvmlInit()
    try:
        return pynvml.nvmlSystemGetDriverVersion()
    finally:
        pynvml.nvmlShutdown()


@cpu
def ask_smi(_):
    import subprocess

    asked = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv"], capture_output=True, check=False)
    return asked.stdout.decode().splitlines()


@cpu
def tf_devices(_):
    return len(tf.config.list_physical_devices("GPU"))


@cpu
def prices(df):
    return df[df["category"].isin(["gpu", "cuda", "tensor core"])].groupby("category").price.mean()


@cpu
def write_job(path):
    config = {"device": "cuda", "gpus": 4, "image": "nvidia/cuda:12.4.1-base"}
    pd.Series(config).to_json(path)
    return path


@cpu
def hide_devices(command):
    import os
    import subprocess

    return subprocess.check_output(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


# ---- what depends


@depends
def any_model(model, X):
    return model.predict(X)


@depends
def any_pipe(steps, X):
    return Pipeline(steps).fit_transform(X)


@depends
def on_model_device(model, x):
    device = next(model.parameters()).device
    with torch.inference_mode():
        return model(x.to(device))


@depends
def like_its_input(x):
    noise = torch.randn_like(x)
    return x + torch.zeros(3, device=x.device) + noise


@depends
def device_as_argument(texts, device):
    return SentenceTransformer("all-MiniLM-L6-v2", device=device).encode(texts)
