"""Images and signals, block by block: written by an outsider to the inspector, from what people do with CuPy."""

import functools
import json
import logging

import cupy as cp
import cupyx.scipy.ndimage as gndi
import cv2
import numpy as np
import scipy.ndimage as ndi
from cucim.skimage.filters import threshold_otsu as gpu_otsu
from cupyx.scipy import signal as gsignal
from scipy import signal

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger(__name__)
SOBEL_X = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
BACKEND = "cuda"


# ---- with CuPy


@gpu
def median_denoise(block, size=3):
    on_gpu = cp.asarray(block)
    return cp.asnumpy(gndi.median_filter(on_gpu, size=size))


@gpu
def edges(block):
    img = cp.array(block, dtype="float32")
    gx = gndi.convolve(img, cp.asarray(SOBEL_X))
    gy = gndi.convolve(img, cp.asarray(SOBEL_X.T))
    return cp.hypot(gx, gy).get()


@gpu(gives="device")
def background(frames):
    stack = cp.stack([cp.asarray(f) for f in frames])
    return cp.percentile(stack, 10, axis=0)


@gpu
def richardson_lucy(image, psf, iterations=20):
    import cupy
    from cupyx.scipy.signal import fftconvolve

    image, psf = cupy.asarray(image), cupy.asarray(psf)
    mirror = psf[::-1, ::-1]
    guess = cupy.full(image.shape, 0.5)
    for _ in range(iterations):
        guess *= fftconvolve(image / fftconvolve(guess, psf, mode="same"), mirror, mode="same")
    return guess.get()


@gpu
def segment_nuclei(tile):
    tile = cp.asarray(tile)
    labels, n = gndi.label(tile > gpu_otsu(tile))
    log.info("%d nuclei", n)
    return cp.asnumpy(labels), int(n)


@gpu
def spectrogram(wave, rate=44_100):
    f, t, s = gsignal.spectrogram(cp.asarray(wave), rate, nperseg=1024)
    return {"f": f.get(), "t": t.get(), "power": (10 * cp.log10(s + 1e-12)).get()}


class MatchedFilter:
    """Correlate traces with a template."""

    def __init__(self, template, rate):
        self.rate = rate
        self.spectrum = cp.fft.rfft(cp.asarray(template)).conj()

    def __call__(self, trace):
        found = cp.fft.irfft(cp.fft.rfft(cp.asarray(trace)) * self.spectrum)
        return float(cp.argmax(found)) / self.rate

    def snr(self, trace):
        return np.abs(trace).max() / np.median(np.abs(trace))

    @staticmethod
    def whiten(trace):
        spec = cp.fft.fft(cp.asarray(trace))
        return cp.fft.ifft(spec / cp.abs(spec)).real.get()


gpu(MatchedFilter(np.ones(16), 100.0), name="after_outsiders_images.matched_filter")
gpu(MatchedFilter.whiten, name="after_outsiders_images.whiten")


@gpu
def register_shift(fixed, moving):
    def spectrum(a):
        return cp.fft.fftn(cp.asarray(a))

    cross = spectrum(fixed) * spectrum(moving).conj()
    peak = cp.unravel_index(cp.argmax(cp.abs(cp.fft.ifftn(cross))), cross.shape)
    return tuple(int(p) for p in peak)


@gpu
def flow(prev, curr):
    a, b = cv2.cuda_GpuMat(), cv2.cuda_GpuMat()
    a.upload(prev)
    b.upload(curr)
    return cv2.cuda_FarnebackOpticalFlow.create().calc(a, b, None).download()


gpu(lambda block: cp.asnumpy(cp.clip(cp.asarray(block) * 1.5, 0, 255)), name="after_outsiders_images.brighten_lambda")


def on_device(func):
    @functools.wraps(func)
    def inner(*blocks):
        with cp.cuda.Device(0):
            return cp.asnumpy(func(*[cp.asarray(b) for b in blocks]))

    return inner


@gpu
@on_device
def normalise(block):
    return (block - block.mean()) / block.std()


@gpu(takes="device", gives="device")
def rotate_tiles(tiles, angle):
    return [gndi.rotate(t, angle, reshape=False, order=1) for t in tiles]


# ---- without


@cpu
def gaussian_block(block):
    return ndi.gaussian_filter(block, sigma=1.5)


@cpu
def bandpass(trace, low, high, fs):
    sos = signal.butter(4, [low, high], btype="band", fs=fs, output="sos")
    return signal.sosfiltfilt(sos, trace)


@cpu
def resize_to_thumbnail(path):
    img = cv2.imread(str(path))
    return cv2.resize(img, (128, 128), interpolation=cv2.INTER_AREA)


@cpu
def histogram_of_frame(path):
    frame = np.load(path)
    counts, _ = np.histogram(frame, bins=256, range=(0, 255))
    return counts


@cpu
def choose_filter(kind):
    if kind not in ("cpu", BACKEND):
        raise ValueError(f"unknown backend {kind!r}: use 'cpu' or 'cuda'")
    return {"name": kind, "kernel": SOBEL_X.tolist()}


@cpu
def read_sidecar(path):
    with open(path) as f:
        meta = json.load(f)
    meta.setdefault("acquired_on", "gpu-workstation-2")
    return meta


@cpu
def peaks_of(trace, height=0.3):
    found, props = signal.find_peaks(trace, height=height, distance=20)
    return list(zip(found.tolist(), props["peak_heights"].tolist(), strict=True))


@cpu
def tile_plan(shape, gpu_memory_gb, itemsize=4):
    per_tile = int((gpu_memory_gb * 2**30 / itemsize / 8) ** 0.5)
    return [(r, c) for r in range(0, shape[0], per_tile) for c in range(0, shape[1], per_tile)]


cpu(functools.partial(signal.decimate, q=4), name="after_outsiders_images.decimate_partial")
cpu(lambda path: np.fromfile(path, dtype="<i2").astype("f4") / 32768, name="after_outsiders_images.read_pcm")
cpu(functools.partial(ndi.zoom, zoom=0.5, order=1), name="after_outsiders_images.zoom_partial")


@cpu
def hough_lines(path):
    grey = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2GRAY)
    lines = cv2.HoughLinesP(cv2.Canny(grey, 50, 150), 1, np.pi / 180, 80)
    return [] if lines is None else lines[:, 0].tolist()


@cpu
def montage(paths, columns=4):
    images = [np.load(p) for p in paths]
    rows = [np.hstack(images[i : i + columns]) for i in range(0, len(images), columns)]
    return np.vstack(rows)


# ---- with either


@depends
def unsharp(block, amount=0.6):
    xp = cp.get_array_module(block)
    filters = gndi if xp is cp else ndi
    return xp.clip(block + amount * (block - filters.gaussian_filter(block, 2)), 0, 1)


@depends
def log_power(spectrum):
    xp = cp.get_array_module(spectrum)
    return 20 * xp.log10(xp.abs(spectrum) + 1e-9)


@depends
def mean_over_time(cube):
    return np.mean(cube, axis=0)


@depends
def stack_channels(red, green, blue):
    return np.stack([red, green, blue], axis=-1)


@gpu(takes="device")
def to_host(frames):
    return [cp.asnumpy(f) for f in frames]
