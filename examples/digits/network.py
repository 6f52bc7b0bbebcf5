"""A small convolutional network and its gradients, in numpy.

Two blocks of convolution, batch normalisation and ReLU, a 2x2 max-pool, and two linear
layers with dropout before each. Arrays are ``[batch, channel, row, column]``; every
``*_backward`` takes the gradient of the loss by its layer's output and returns that by its
inputs, in their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, Array]

EPSILON = 1e-5
"""Added to the variance by batch normalisation, as in the exported model."""
MOMENTUM = 0.9
"""Share of the old running statistics that one training step keeps."""
DROPOUT = 0.25
"""Probability with which training drops an activation."""


def initialise(rng: np.random.Generator, pixels: Array, dtype: Any = np.float32) -> Params:
    """Draw weights (He et al., 2015) and note the mean and variance of the pixels.

    Args:
        rng: Source of all randomness.
        pixels: Training images in [0, 1], ``[images, 1, 8, 8]``.
        dtype: Type of every parameter.
    """
    params: Params = {"pixel_mean": np.mean(pixels), "pixel_variance": np.var(pixels)}
    for name, shape in {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3)}.items():
        params[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        for part, value in {"weight": 1, "bias": 0, "mean": 0, "variance": 1}.items():
            params[f"{name.replace('conv', 'bn')}.{part}"] = np.full(shape[0], value)
    for name, (rows, columns) in {"fc1": (512, 64), "fc2": (64, 10)}.items():
        params[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / rows), (rows, columns))
        params[f"{name}.bias"] = np.zeros(columns)
    return {name: np.asarray(value, dtype) for name, value in params.items()}


def trainable(params: Params) -> list[str]:
    """Names of the parameters that gradient descent moves."""
    return [name for name in params if name.endswith((".weight", ".bias"))]


def _windows(x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sliding_window_view(padded, (3, 3), (2, 3))  # [batch, channel, row, column, 3, 3]


def conv(x: Array, weight: Array) -> Array:
    """Correlate with 3x3 kernels ``[out, in, 3, 3]``, padded to keep the size."""
    return np.moveaxis(np.tensordot(_windows(x), weight, ((1, 4, 5), (1, 2, 3))), -1, 1)


def conv_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array]:
    """Gradients by ``x`` and ``weight``."""
    flipped = weight.swapaxes(0, 1)[:, :, ::-1, ::-1]
    return conv(grad, flipped), np.tensordot(grad, _windows(x), ((0, 2, 3), (0, 2, 3)))


def _by_channel(vector: Array) -> Array:
    return vector[:, None, None]


def batch_norm(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """Normalise each channel with the statistics given."""
    factor = scale / np.sqrt(variance + EPSILON)
    return x * _by_channel(factor) + _by_channel(shift - mean * factor)


def batch_norm_backward(
    grad: Array, x: Array, scale: Array, mean: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Gradients by ``x``, ``scale`` and ``shift``, where the statistics are those of ``x``."""
    inverse = _by_channel(1 / np.sqrt(variance + EPSILON))
    normal = (x - _by_channel(mean)) * inverse
    by_scale, by_shift = (grad * normal).sum((0, 2, 3)), grad.sum((0, 2, 3))
    count = x.size // x.shape[1]
    centred = grad - _by_channel(by_shift / count) - normal * _by_channel(by_scale / count)
    return centred * inverse * _by_channel(scale), by_scale, by_shift


def _tiles(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def max_pool(x: Array) -> Array:
    """Maximum over 2x2 tiles."""
    return _tiles(x).max((3, 5))


def max_pool_backward(grad: Array, x: Array, y: Array) -> Array:
    """Gradient by ``x``; tied maxima share it."""
    winners = _tiles(x) == y[:, :, :, None, :, None]
    share = grad / winners.sum((3, 5))
    return (winners * share[:, :, :, None, :, None]).reshape(x.shape)


def dropout_mask(rng: np.random.Generator, x: Array) -> Array:
    """What to multiply ``x`` with: 0 where dropped, else what keeps the expectation."""
    return ((rng.random(x.shape) >= DROPOUT) / (1 - DROPOUT)).astype(x.dtype)


def predict(params: Params, pixels: Array) -> Array:
    """Scores ``[images, 10]`` in inference mode: running statistics, no dropout."""
    x = (pixels - params["pixel_mean"]) / np.sqrt(params["pixel_variance"] + EPSILON)
    for n in "12":
        norm = (params[f"bn{n}.{part}"] for part in ("weight", "bias", "mean", "variance"))
        x = np.maximum(batch_norm(conv(x, params[f"conv{n}.weight"]), *norm), 0)
    x = max_pool(x).reshape(len(x), -1)
    x = np.maximum(x @ params["fc1.weight"] + params["fc1.bias"], 0)
    return x @ params["fc2.weight"] + params["fc2.bias"]


def loss_and_gradients(
    params: Params, pixels: Array, labels: Array, rng: np.random.Generator
) -> tuple[float, Params]:
    """One training step's cross-entropy and gradients; moves the running statistics.

    Args:
        params: The parameters; ``bn*.mean`` and ``bn*.variance`` are updated in place.
        pixels: Images in [0, 1], ``[batch, 1, 8, 8]``.
        labels: Digits 0 to 9, ``[batch]``.
        rng: Source of the dropout masks.
    """
    p, grads = params, Params()
    x0 = (pixels - p["pixel_mean"]) / np.sqrt(p["pixel_variance"] + EPSILON)
    blocks, x = [], x0
    for n in "12":
        z = conv(x, p[f"conv{n}.weight"])
        mean, variance = z.mean((0, 2, 3)), z.var((0, 2, 3))
        for part, value in {"mean": mean, "variance": variance}.items():
            p[f"bn{n}.{part}"] += (1 - MOMENTUM) * (value - p[f"bn{n}.{part}"])
        normal = batch_norm(z, p[f"bn{n}.weight"], p[f"bn{n}.bias"], mean, variance)
        blocks.append((n, x, z, mean, variance, normal))
        x = np.maximum(normal, 0)
    pooled = max_pool(x)
    flat = pooled.reshape(len(pixels), -1)
    mask1 = dropout_mask(rng, flat)
    hidden = (flat * mask1) @ p["fc1.weight"] + p["fc1.bias"]
    active = np.maximum(hidden, 0)
    mask2 = dropout_mask(rng, active)
    scores = (active * mask2) @ p["fc2.weight"] + p["fc2.bias"]

    likelihood = np.exp(scores - scores.max(1, keepdims=True))
    likelihood /= likelihood.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(likelihood[rows, labels]).mean())

    grad = likelihood.copy()
    grad[rows, labels] -= 1
    grad /= len(labels)
    grads["fc2.weight"], grads["fc2.bias"] = (active * mask2).T @ grad, grad.sum(0)
    grad = (grad @ p["fc2.weight"].T) * mask2 * (hidden > 0)
    grads["fc1.weight"], grads["fc1.bias"] = (flat * mask1).T @ grad, grad.sum(0)
    grad = ((grad @ p["fc1.weight"].T) * mask1).reshape(pooled.shape)
    grad = max_pool_backward(grad, x, pooled)
    for n, x, z, mean, variance, normal in reversed(blocks):
        grad, grads[f"bn{n}.weight"], grads[f"bn{n}.bias"] = batch_norm_backward(
            grad * (normal > 0), z, p[f"bn{n}.weight"], mean, variance
        )
        grad, grads[f"conv{n}.weight"] = conv_backward(grad, x, p[f"conv{n}.weight"])
    return loss, grads
