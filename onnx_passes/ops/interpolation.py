"""What operators share that read an image between its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.composition import measured_by
from onnx_passes.ops.semantics import Elements


@dataclass(frozen=True)
class Taps:
    """Which elements of an axis a result reads, and how much each weighs.

    Attributes:
        places: Indices [..., k]; -1 where nothing is read.
        weights: Numbers [..., k].
    """

    places: Array
    weights: Array


def nearest_tap(places: Array) -> Taps:
    """Return taps that read one element [...] each."""
    at = places.astype(np.int64)[..., None]
    return Taps(at, np.ones(at.shape))


def linear_taps(at: Array) -> Taps:
    """Return taps between two neighbours, for coordinates [...]."""
    low = np.floor(at)
    ratio = (at - low).astype(np.float64)
    places = np.stack([low, low + 1], -1).astype(np.int64)
    return Taps(places, np.stack([1 - ratio, ratio], -1))


def cubic_taps(at: Array, alpha: float) -> Taps:
    """Return taps of a cubic convolution (Keys, 1981) among four neighbours.

    Args:
        at: Coordinates [...].
        alpha: The free coefficient of the kernel.
    """
    low = np.floor(at)
    ratio = (at - low).astype(np.float64)
    places = np.stack([low - 1, low, low + 1, low + 2], -1).astype(np.int64)
    t = np.stack([ratio + 1, ratio, 1 - ratio, 2 - ratio], -1)
    near = ((alpha + 2) * t - (alpha + 3)) * t * t + 1
    far = ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha
    return Taps(places, np.where(t <= 1, near, far))


def crossed(axes: Sequence[Taps], sizes: Sequence[int]) -> Taps:
    """Return the taps into flat elements that taps of each axis make together.

    Args:
        axes: Taps of shape [..., k], for each axis.
        sizes: Number of elements of each axis.
    """
    outer = axes[0].places.shape[:-1]
    places, weights = np.zeros((*outer, 1), np.int64), np.ones((*outer, 1))
    outside = np.zeros((*outer, 1), np.bool_)
    for taps, size in zip(axes, sizes, strict=True):
        at, beyond = taps.places[..., None, :], (taps.places < 0) | (taps.places >= size)
        places = (places[..., None] * size + at).reshape(*outer, -1)
        outside = (outside[..., None] | beyond[..., None, :]).reshape(*outer, -1)
        weights = (weights[..., None] * taps.weights[..., None, :]).reshape(*outer, -1)
    return Taps(np.where(outside, -1, places), weights)


def rows_of(call: Call, flat: Elements, taps: Taps, dtype: ir.DataType) -> Elements:
    """Return the elements that taps read, with zeros where they read nothing.

    Args:
        call: The call, for its arithmetic.
        flat: Elements [..., n].
        taps: Taps [m, k].
        dtype: Their element type.
    """
    zero = call.semantics.constant(np.zeros((*flat.shape[:-1], 1), dtype.numpy()), dtype)
    wide = np.concatenate([flat, zero], -1)
    return np.asarray(wide[..., taps.places])


def interpolated(call: Call, x: Tensor, taps: Taps, reach: int) -> Tensor:
    """Return the sums of what taps read of elements.

    Args:
        call: The call, for its arithmetic.
        x: Elements [..., n].
        taps: Taps [m, k].
        reach: How large coordinates are, whose rounding weights carry.

    Returns:
        Elements [..., m].
    """
    rows = rows_of(call, x.data, taps, x.dtype)
    if taps.places.shape[-1] == 1 and (taps.weights == 1).all():
        return Tensor(rows[..., 0], x.dtype)
    weights = taps.weights.astype(x.dtype.numpy())
    a = call.primitives(x.dtype)
    found = call.semantics.along(a.dot, rows, call.semantics.constant(weights, x.dtype))
    return measured_by(call, Tensor(found, x.dtype), rows, float(max(reach, 1)))
