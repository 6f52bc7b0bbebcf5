"""Operators on signals: spectra, windows, and the mel scale."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.input_hints import Choices, Known, Operand, Use, ValueHint, below, exactly
from onnx_passes.ops.operator_class import Composition, measured_by
from onnx_passes.ops.semantics import Elements, Misfit, Unsupported


class DFT(Composition):
    """The spectrum of a signal along an axis, or the signal of a spectrum."""

    changes = versions.DFT

    steers = (1, 2)
    computed_in = ir.DataType.FLOAT  # ONNX Runtime divides by a float

    def computed(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        if call.opset >= 20:
            given = call.given(2)
            axis = normalize_axis(-2 if given is None else call.static_ints(2)[0], rank)
        else:
            axis = call.axis(1, rank)
        if axis == rank - 1:
            raise Misfit("a spectrum along the parts of numbers")
        size = x.shape[axis] if call.given(1) is None else call.static_ints(1)[0]
        inverse, half = call.flag("inverse"), call.flag("onesided")
        if (inverse and half) or size < 1:
            raise Unsupported("DFT of half a spectrum, or of nothing")
        rows = np.moveaxis(x.data, axis, -2)
        found = spectrum(call, x.dtype, rows, size, inverse=inverse, half=half)
        return Tensor(np.moveaxis(found, -2, axis), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        data, output = use.input_shape(0), use.output_shape()
        if use.index == 2:
            # The last axis holds the real and imaginary parts.
            return below(max(1, (1 if data is None else len(data)) - 1))
        if use.index != 1 or data is None:
            return None
        given = use.constant(2)
        axis = use.integer("axis", 1) if given is None else int(given.reshape(-1)[0])
        onesided = use.integer("onesided")
        return exactly(data[axis] if output is None or onesided else output[axis])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index:
            number = c.pick((4, 5, 8)) if index == 1 else 1
            return Operand((), ir.DataType.INT64, (number,), constant=True)
        return c.data(c.pick(((1, 8, 1), (2, 5, 2), (1, 4, 3, 1))))

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (1,) if name == "axis" else ()


def spectrum(
    call: Call,
    dtype: ir.DataType,
    rows: Elements,
    size: int,
    *,
    inverse: bool = False,
    half: bool = False,
) -> Elements:
    """Return the discrete Fourier transform of rows.

    ``rows`` are numbers [..., n, 1], or real and imaginary parts [..., n, 2]. They are filled
    up with zeros, or cut off, to ``size`` terms. ``half`` omits the second half. The result is
    [..., m, 2].
    """
    used = min(size, rows.shape[-2])
    count = size // 2 + 1 if half else size
    angles = 2 * np.pi * (np.outer(np.arange(count), np.arange(used)) % size) / size
    cos, sin = np.cos(angles), np.sin(angles) * (-1 if inverse else 1)
    scale = 1 / size if inverse else 1.0
    a, parts = call.primitives(dtype), []
    data = np.concatenate([rows[..., :used, k] for k in range(rows.shape[-1])], -1)
    for matrix in (np.hstack([cos, sin]), np.hstack([-sin, cos])):
        numbers = (scale * matrix)[:, : data.shape[-1]].astype(dtype.numpy())
        weights = call.semantics.constant(numbers, dtype)
        found = call.semantics.along(a.dot, data[..., None, :], weights)
        # Fast transforms of any length add up other terms.
        made = measured_by(call, Tensor(found, dtype), data[..., None, :], 8 * scale)
        parts.append(made.data)
    return np.stack(parts, -1)


class _Window(Composition, abstract=True):
    """The weights of a frame of a signal: a sum of cosines with the factors ``terms``."""

    steers = (0,)
    computed_in = ir.DataType.FLOAT
    terms: ClassVar[tuple[float, ...]]

    def computed(self, call: Call) -> Tensor:
        size, dtype = call.static_ints(0)[0], ir.DataType(call.integer("output_datatype", 1))
        call.small([max(size, 0)])
        period = size if call.flag("periodic", 1) else size - 1
        if period < 1:
            raise Unsupported(f"{self.op_type} of {size} elements")
        angles = 2 * np.pi * np.arange(size) / period
        numbers = sum(f * np.cos(k * angles) for k, f in enumerate(self.terms))
        return _table(call, np.asarray(numbers), dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return Operand((), ir.DataType.INT64, (c.pick((4, 7, 10)),), constant=True)

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (1, 11) if name == "output_datatype" else ()

    def admits(self, use: Use) -> ValueHint | None:
        output = use.output_shape()
        return exactly(8 if output is None else output[0])


def _table(call: Call, numbers: Array, dtype: ir.DataType) -> Tensor:
    """Return numbers that an engine computes by steps of its own, relative to 1."""
    made = constant(numbers.astype(dtype.numpy()), dtype, call.semantics)
    size = float(max(np.max(np.abs(numbers), initial=1.0), 8.0))
    return Tensor(call.semantics.kernel(made.data, dtype, lambda: np.full((), size)), dtype)


class HannWindow(_Window):
    """A raised cosine."""

    terms = (0.5, -0.5)


class HammingWindow(_Window):
    """A raised cosine that does not end at zero."""

    terms = (25 / 46, -21 / 46)


class BlackmanWindow(_Window):
    """Two cosines, which leave less beside a peak."""

    terms = (0.42, -0.5, 0.08)


class STFT(Composition):
    """The spectra of the frames of a signal."""

    steers = (1, 3)

    def computed(self, call: Call) -> Tensor:
        x, step, window = call.required(0), call.static_ints(1)[0], call.given(2)
        data = x.data if len(x.shape) == 3 else x.data[..., None]
        if call.given(3) is not None:
            size = call.static_ints(3)[0]
        else:
            size = data.shape[1] if window is None else window.shape[0]
        if window is not None and window.shape != (size,):
            raise Misfit(f"a window of {window.shape} for frames of {size}")
        starts = np.arange(0, data.shape[1] - size + 1, max(step, 1))
        if not len(starts) or step < 1:
            raise Unsupported("STFT without a frame")
        frames = data[:, starts[:, None] + np.arange(size)]
        if window is not None:
            a = call.primitives(x.dtype)
            frames = call.semantics.map(a.mul, frames, window.data[:, None])
        half = call.flag("onesided", 1)
        if half and frames.shape[-1] == 2:
            raise Unsupported("half of the spectrum of complex numbers")
        return Tensor(spectrum(call, x.dtype, frames, size, half=half), x.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index in (1, 3):
            return Operand((), ir.DataType.INT64, (2 if index == 1 else 4,), constant=True)
        return c.data((1, 8, 1) if index == 0 else (4,))

    def admits(self, use: Use) -> ValueHint | None:
        frame = _frame_size(use)
        if use.index == 3:
            return None if frame is None else exactly(frame)
        if use.index != 1:
            return None
        # Frames of the output: 1 + (signal - frame) // step.
        signal, output = use.input_shape(0), use.output_shape()
        if signal is None or output is None or frame is None or output[1] < 2:
            return exactly(2)
        return exactly(max(1, (signal[1] - frame) // (output[1] - 1)))


class MelWeightMatrix(Composition):
    """The matrix that takes a spectrum to the mel scale."""

    steers = (0, 1, 2, 3, 4)

    def computed(self, call: Call) -> Tensor:
        bands, length, rate, low, high = (call.static(i).reshape(-1)[0] for i in range(5))
        bins = int(length) // 2 + 1
        ends = [2595 * np.log10(1 + float(hertz) / 700) for hertz in (low, high)]
        step = (ends[1] - ends[0]) / (int(bands) + 2)
        hertz = 700 * (10 ** ((np.arange(int(bands) + 2) * step + ends[0]) / 2595) - 1)
        exact = (int(length) + 1) * hertz / int(rate)
        if (np.abs(exact - np.rint(exact)) < 1e-4 * (1 + np.abs(exact))).any() and low > 0:
            raise Unsupported("a band that ends at a bin, but for rounding")
        places = np.floor(exact).astype(np.int64)
        found = np.zeros((bins, int(bands)))
        at = np.arange(bins)
        for band in range(int(bands)):
            first, middle, last = places[band : band + 3]
            if middle == first:
                found[middle, band] = 1
            else:
                rising = (at >= first) & (at <= middle)
                found[rising, band] = (at[rising] - first) / (middle - first)
            falling = (at >= middle) & (at < last)
            if last > middle:
                found[falling, band] = (last - at[falling]) / (last - middle)
        return _table(call, found, ir.DataType(call.integer("output_datatype", 1)))

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index < 3:
            number = (c.pick((3, 5)), c.pick((32, 64)), 8192)[index]
            return Operand((), ir.DataType.INT64, (number,), constant=True)
        return Operand((), ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (1, 11) if name == "output_datatype" else ()

    def admits(self, use: Use) -> ValueHint:
        output = use.output_shape()
        if output is not None and use.index < 2:
            return exactly(output[1] if use.index == 0 else 2 * (output[0] - 1))
        return exactly((8, 16, 8192, 0.0, 4000.0)[use.index])


def _frame_size(use: Use) -> int | None:
    window, output = use.input_shape(2), use.output_shape()
    if window is not None:
        return window[0]
    if output is None:
        return 4
    bins = output[2]
    return 2 * (bins - 1) if use.integer("onesided", 1) else bins
