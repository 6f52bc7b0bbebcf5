"""Operators that resize an image, and the interpolation they share with sampling."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, normalize_axis
from onnx_passes.ops.operator_class import Composition, measured_by
from onnx_passes.ops.semantics import Elements, Unsupported


@dataclass(frozen=True)
class Taps:
    """Which elements of an axis a result reads, and how much each weighs.

    ``places`` are indices [..., k], -1 where nothing is read; ``weights`` are [..., k].
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
    """Return taps of a cubic convolution (Keys, 1981) among four neighbours."""
    low = np.floor(at)
    ratio = (at - low).astype(np.float64)
    places = np.stack([low - 1, low, low + 1, low + 2], -1).astype(np.int64)
    t = np.stack([ratio + 1, ratio, 1 - ratio, 2 - ratio], -1)
    near = ((alpha + 2) * t - (alpha + 3)) * t * t + 1
    far = ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha
    return Taps(places, np.where(t <= 1, near, far))


def rows_of(call: Call, flat: Elements, taps: Taps, dtype: ir.DataType) -> Elements:
    """Return the elements [..., m, k] that taps read, with zeros where they read nothing."""
    zero = call.semantics.constant(np.zeros((*flat.shape[:-1], 1), dtype.numpy()), dtype)
    wide = np.concatenate([flat, zero], -1)
    return np.asarray(wide[..., taps.places])


def interpolated(call: Call, x: Tensor, taps: Taps, reach: int) -> Tensor:
    """Return the sums [..., m] of what taps [m, k] read of elements [..., n].

    ``reach`` is how large coordinates are, whose rounding weights carry.
    """
    rows = rows_of(call, x.data, taps, x.dtype)
    if taps.places.shape[-1] == 1 and (taps.weights == 1).all():
        return Tensor(rows[..., 0], x.dtype)
    weights = taps.weights.astype(x.dtype.numpy())
    a = call.primitives(x.dtype)
    found = call.semantics.along(a.dot, rows, call.semantics.constant(weights, x.dtype))
    return measured_by(call, Tensor(found, x.dtype), rows, float(max(reach, 1)))


class _Resizing(Composition, abstract=True):
    """An operator that reads the axes of an image one by one, between their elements."""

    images = True

    def sizes(self, call: Call, shape: Sequence[int]) -> tuple[list[float], list[int]]:
        """Return the scale of each axis, and its size in the result."""
        raise NotImplementedError

    def taps(self, call: Call, at: Array, axis: int, scale: float, size: int) -> Taps:
        """Return what an axis reads.

        ``at`` are places of the result along the axis. ``scale`` is what it is enlarged by,
        and ``size`` is its size in the image.
        """
        raise NotImplementedError

    def computed(self, call: Call) -> Tensor:
        x = call.required(0)
        scales, sizes = self.sizes(call, x.shape)
        call.small(sizes)
        if 0 in (*sizes, *x.shape):
            raise Unsupported(f"{self.op_type} of nothing")
        mode = call.text("mode", "nearest")
        if mode != "nearest" and x.dtype not in _FLOATS:
            raise Unsupported(f"{self.op_type} between integers")
        found = x
        for axis, (scale, size) in enumerate(zip(scales, sizes, strict=True)):
            old = x.shape[axis]
            if scale == 1 and size == old:
                continue
            taps = self.taps(call, np.arange(size, dtype=np.float32), axis, scale, old)
            rows = Tensor(np.moveaxis(found.data, axis, -1), x.dtype)
            made = interpolated(call, rows, taps, old)
            found = Tensor(np.moveaxis(made.data, -1, axis), x.dtype)
        return found


_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


class Resize(_Resizing):
    """An image in another size."""

    changes = versions.RESIZE

    steers = (1, 2, 3)

    def sizes(self, call: Call, shape: Sequence[int]) -> tuple[list[float], list[int]]:
        axes = self._axes(call, len(shape))
        index = 2 if call.opset >= 11 else 1
        scales, sizes = [1.0] * len(shape), list(shape)
        given = call.given(index)
        if given is not None and given.data.size:
            for axis, scale in zip(axes, call.static(index).reshape(-1), strict=True):
                scales[axis] = float(scale)
                sizes[axis] = int(np.float32(scale) * np.float32(shape[axis]))
            return scales, sizes
        wanted = call.static_ints(3)
        policy = call.text("keep_aspect_ratio_policy", "stretch")
        for axis, size in zip(axes, wanted, strict=True):
            scales[axis] = float(np.float32(size) / np.float32(shape[axis]))
            sizes[axis] = size
        if policy != "stretch":
            chosen = (min if policy == "not_larger" else max)(scales[axis] for axis in axes)
            for axis in axes:
                scales[axis] = chosen
                sizes[axis] = math.floor(np.float32(chosen) * np.float32(shape[axis]) + 0.5)
        return scales, sizes

    def _axes(self, call: Call, rank: int) -> list[int]:
        named = call.integers("axes")
        return [normalize_axis(i, rank) for i in named] if named else list(range(rank))

    def taps(self, call: Call, at: Array, axis: int, scale: float, size: int) -> Taps:
        mode = call.text("mode", "nearest")
        if call.flag("antialias") and mode != "nearest" and scale < 1:
            raise Unsupported("Resize that reads more than neighbours")
        places = self._places(call, at, axis, np.float32(scale), size)
        rule = call.text("coordinate_transformation_mode", "half_pixel")
        beyond = np.zeros(len(at), np.bool_)
        if rule == "tf_crop_and_resize" and call.opset >= 11:
            if call.number("extrapolation_value", 0.0):
                raise Unsupported("Resize with a number outside of the image")
            beyond = (places < 0) | (places > size - 1)
        if mode == "nearest":
            taps = nearest_tap(np.clip(self._nearest(call, places, scale), 0, size - 1))
        elif mode == "linear":
            taps = linear_taps(np.clip(places, 0, size - 1))
        else:
            taps = cubic_taps(places, call.number("cubic_coeff_a", -0.75))
        outside = (taps.places < 0) | (taps.places >= size)
        weights = taps.weights
        if call.flag("exclude_outside") and mode == "cubic":
            weights = np.where(outside, 0, weights)
            weights = weights / weights.sum(-1, keepdims=True)
        read = np.clip(taps.places, 0, size - 1)
        return Taps(np.where(beyond[:, None], -1, read), weights)

    def _nearest(self, call: Call, places: Array, scale: float) -> Array:
        if call.opset < 11:
            return np.ceil(places) if scale < 1 else np.floor(places)
        rule = call.text("nearest_mode", "round_prefer_floor")
        half = places == np.floor(places) + np.float32(0.5)
        found: dict[str, Array] = {
            "floor": np.floor(places),
            "ceil": np.ceil(places),
            "round_prefer_floor": np.where(half, np.floor(places), np.floor(places + 0.5)),
            "round_prefer_ceil": np.floor(places + 0.5),
        }
        return found[rule]

    def _places(self, call: Call, at: Array, axis: int, scale: np.float32, size: int) -> Array:
        """Return coordinates in the image, in the precision that engines use."""
        rule = call.text("coordinate_transformation_mode", "half_pixel")
        if call.opset < 11:
            rule = "asymmetric"
        half, one, count = np.float32(0.5), np.float32(1), np.float32(len(at))
        match rule:
            case "asymmetric":
                return at / scale
            case "pytorch_half_pixel" if len(at) == 1:
                return np.zeros(1, np.float32)
            case "half_pixel" | "pytorch_half_pixel":
                return (at + half) / scale - half
            case "align_corners":
                if abs(float(scale) * size - len(at)) > 1e-3:
                    # The standard divides by the exact size, engines by the one rounded down.
                    raise Unsupported("aligned corners of an image whose size is rounded")
                room = np.float32(size - 1)
                return at * room / (count - one) if len(at) > 1 else np.zeros(1, np.float32)
            case "half_pixel_symmetric":
                adjustment = count / (scale * np.float32(size))
                offset = np.float32(size) / np.float32(2) * (one - adjustment)
                return offset + (at + half) / scale - half
            case "tf_crop_and_resize":
                return self._cropped(call, at, axis, size)
        raise Unsupported(f"coordinates by {rule}")

    def _cropped(self, call: Call, at: Array, axis: int, size: int) -> Array:
        roi = call.static(1).reshape(-1).astype(np.float32)
        axes = self._axes(call, len(call.required(0).shape))
        place = axes.index(axis) if axis in axes else None
        start, end = (0, 1) if place is None else (roi[place], roi[place + len(axes)])
        room = np.float32(size - 1)
        if len(at) == 1:
            return np.full(1, np.float32(0.5) * (start + end) * room)
        step = (end - start) * room / np.float32(len(at) - 1)
        return np.asarray(start * room + at * step)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        # In version 10, the second input holds the scales.
        if use.index == 2 or (use.index == 1 and len(use.node.inputs) == 2):
            return scales_of(use)
        axes, data = _resized_axes(use), use.input_shape(0)
        if use.index == 1:
            return (
                hints.exactly([0.0] * len(axes) + [1.0] * len(axes)) if use.length() else None
            )
        if use.index != 3 or data is None:
            return None
        output = use.output_shape()
        target = output or tuple(2 * d if axis >= 2 else d for axis, d in enumerate(data))
        if use.node.attributes.get("keep_aspect_ratio_policy") is None:
            return hints.exactly([target[axis] for axis in axes])
        # Any target with the declared ratio gives the declared size.
        ratio = min(target[axis] / data[axis] for axis in axes)
        return hints.exactly([math.ceil(data[axis] * ratio) for axis in axes])

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (1, 2, 3, 4))
        if index == 0:
            return c.data(c.pick(((1, 2, 3, 4), (1, 1, 4, 4), (2, 2, 5))))
        if index == 3:
            return c.integers(*x[:2], *(c.pick((d, 2 * d, d + 1)) for d in x[2:]))
        scales: hints.Shape = (len(x),) if index == 2 and c.rng.random() < 0.7 else (0,)
        return hints.Operand(scales, ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        found: dict[str, Sequence[object]] = {
            "mode": (None, "nearest", "linear", "cubic"),
            "coordinate_transformation_mode": (None, "asymmetric", "align_corners"),
            "nearest_mode": (None, "floor", "ceil", "round_prefer_ceil"),
            "keep_aspect_ratio_policy": (None,),
            "axes": (None,),
        }
        return found.get(name, ())

    def cost(self, operands: Operands) -> int | None:
        mode = operands.node.attributes.get_string("mode", "nearest")
        if mode == "nearest":
            return 0
        data, out = operands.sizes(0), operands.node.outputs[0].shape
        axes = sum(a != b for a, b in zip(data, out or (), strict=True))
        each: int = 2 * (2 if mode == "linear" else 4) ** axes
        return operands.made() * each


class Upsample(_Resizing):
    """An image, made larger."""

    changes = versions.UPSAMPLE

    steers: ClassVar[tuple[int, ...]] = (1,)

    def sizes(self, call: Call, shape: Sequence[int]) -> tuple[list[float], list[int]]:
        named = call.attribute("scales", None)
        given = call.static(1).reshape(-1).tolist() if named is None else named
        scales = [float(scale) for scale in given]
        sizes = [int(np.float32(s) * d) for s, d in zip(scales, shape, strict=True)]
        return scales, sizes

    def taps(self, call: Call, at: Array, axis: int, scale: float, size: int) -> Taps:
        places = at / np.float32(scale)
        if call.text("mode", "nearest") == "nearest":
            return nearest_tap(np.clip(np.floor(places), 0, size - 1))
        taps = linear_taps(np.clip(places, 0, size - 1))
        return Taps(np.clip(taps.places, 0, size - 1), taps.weights)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return scales_of(use) if use.index == 1 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (1, 2, 3, 4))
        if index == 0:
            return c.data(c.pick(((1, 2, 3, 4), (1, 1, 4, 4))))
        return hints.Operand((len(x),), ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (None, "nearest", "linear") if name == "mode" else ()


def _resized_axes(use: hints.Use) -> list[int]:
    data = use.input_shape(0)
    return use.integers("axes") or list(range(0 if data is None else len(data)))


def scales_of(use: hints.Use) -> hints.ValueHint | None:
    """Return the scales that make an image of the size that is declared."""
    data, output, axes = use.input_shape(0), use.output_shape(), _resized_axes(use)
    if data is None:
        return None
    if output is None:
        return hints.exactly([2.0 if axis >= 2 else 1.0 for axis in axes])
    # Half a pixel more survives the rounding down of size times scale.
    return hints.exactly([_scale(data[axis], output[axis]) for axis in axes])


def _scale(size: int, target: int) -> float:
    return target / size if target % size == 0 else (target + 0.5) / size
