"""What convolution and pooling share, and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.ops.base import Algebra, Operator
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.domains.intervals import (
    ULPS,
    UNBOUNDED,
    Interval,
    hull,
    resolution,
)
from onnx_passes.ops.norms import norm
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.semantics import Elements, Misfit, Primitives, Unsupported, present

Places = npt.NDArray[np.int64]


class Geometry:
    """A kernel over an image: which elements of the image each place of the result reads.

    Attributes:
        output: Number of places along each axis.
    """

    output: tuple[int, ...]

    def places(self) -> Places:
        """Return flat indices by place and offset; -1 where nothing is read."""
        raise NotImplementedError

    def rows(self, call: Call, x: Tensor, padding: float) -> Elements:
        """Return the elements that are read, by sample, channel, place and offset.

        Args:
            call: The call, for its arithmetic.
            x: The tensor [samples, channels, ...].
            padding: The number outside of the image.
        """
        flat = x.data.reshape(*x.shape[:2], -1)
        wide = np.empty((*flat.shape[:2], flat.shape[2] + 1), flat.dtype)
        wide[..., :-1] = flat
        wide[..., -1] = call.semantics.padding(padding, x.dtype)
        return wide[..., self.places()]


def _flat(axes: Sequence[npt.NDArray[Any]], sizes: Sequence[int]) -> Places:
    """Combine indices along axes, by place and offset each, into flat ones."""
    rank, found = len(axes), np.zeros((), np.int64)
    outside = np.zeros((), np.bool_)
    for k, (at, size) in enumerate(zip(axes, sizes, strict=True)):
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = at.shape
        at = at.reshape(shape)
        outside = outside | (at < 0) | (at >= size)
        found = found * size + at
    found = np.where(outside, -1, found)
    return found.reshape(math.prod(a.shape[0] for a in axes), -1)


@dataclass(frozen=True, slots=True)
class Window(Geometry):
    """A kernel that slides over an image, in any number of spatial dimensions.

    Attributes:
        image: Spatial sizes of the image.
        kernel: Spatial sizes of the kernel.
        strides: Steps between places.
        dilations: Steps between elements of the kernel.
        before: Padding before each axis.
        after: Padding after each axis.
        output: Number of places along each axis.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    output: tuple[int, ...]

    @staticmethod
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> Window:
        """Read strides, dilations and padding from a node's attributes.

        Args:
            call: The call, for attributes.
            image: Spatial sizes of the input.
            kernel: Spatial sizes of the window.

        Raises:
            Unsupported: The kernel does not fit.
        """
        rank = len(image)
        strides = call.integers("strides") or [1] * rank
        dilations = call.integers("dilations") or [1] * rank
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        mode = call.text("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            pads = [
                _same(size, span, step, mode == "SAME_UPPER")
                for size, span, step in zip(image, reach, strides, strict=True)
            ]
            before, after = [p[0] for p in pads], [p[1] for p in pads]
        else:
            given = call.integers("pads") if mode == "NOTSET" else None
            given = given or [0] * (2 * rank)
            before, after = given[:rank], given[rank:]
        ceil = call.flag("ceil_mode")
        output = [
            _places(size + b + a - span, step, size + b if ceil else None)
            for size, b, a, span, step in zip(
                image, before, after, reach, strides, strict=True
            )
        ]
        if any(o <= 0 for o in output):
            raise Misfit(f"a kernel of {list(kernel)} over {list(image)}")
        parts = (image, kernel, strides, dilations, before, after, output)
        return Window(*(tuple(int(v) for v in part) for part in parts))

    def places(self) -> Places:
        axes = [
            np.arange(o)[:, None] * s + np.arange(k) * d - b
            for o, s, k, d, b in zip(
                *(self.output, self.strides, self.kernel, self.dilations, self.before),
                strict=True,
            )
        ]
        return _flat(axes, self.image)


@dataclass(frozen=True, slots=True)
class Spread(Geometry):
    """A kernel that each element of an image is spread over.

    Attributes:
        image: Spatial sizes of the image.
        kernel: Spatial sizes of the kernel.
        strides: Steps between the places of neighbours.
        dilations: Steps between elements of the kernel.
        before: What is cut off before each axis.
        output: Sizes of the result.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    output: tuple[int, ...]

    @staticmethod
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> Spread:
        """Read strides, dilations and padding from a node's attributes.

        Args:
            call: The call, for attributes.
            image: Spatial sizes of the input.
            kernel: Spatial sizes of the window.

        Raises:
            Unsupported: Padding is to be worked out.
        """
        rank = len(image)
        if call.text("auto_pad", "NOTSET") != "NOTSET" or call.integers("output_shape"):
            raise Unsupported("ConvTranspose with padding that is worked out")
        strides = call.integers("strides") or [1] * rank
        dilations = call.integers("dilations") or [1] * rank
        pads = call.integers("pads") or [0] * (2 * rank)
        extra = call.integers("output_padding") or [0] * rank
        output = [
            s * (size - 1) + e + (k - 1) * d + 1 - pads[i] - pads[i + rank]
            for i, (size, k, s, d, e) in enumerate(
                zip(image, kernel, strides, dilations, extra, strict=True)
            )
        ]
        parts = (image, kernel, strides, dilations, pads[:rank], output)
        return Spread(*(tuple(int(v) for v in part) for part in parts))

    def places(self) -> Places:
        axes = []
        parts = (self.image, self.kernel, self.strides, self.dilations, self.before)
        for o, size, k, s, d, b in zip(self.output, *parts, strict=True):
            at, rest = np.divmod(np.arange(o)[:, None] - np.arange(k) * d + b, s)
            axes.append(np.where((rest == 0) & (at < size), at, -1))
        return _flat(axes, self.image)


def _same(size: int, span: int, step: int, upper: bool) -> tuple[int, int]:
    total = max((-(-size // step) - 1) * step + span - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def _places(room: int, step: int, limit: int | None) -> int:
    """Count the places of a kernel; with a limit, count a last one that hangs over."""
    if limit is None:
        return room // step + 1
    count = -(-room // step) + 1
    # The last place must start inside the image or its padding before.
    return count - 1 if (count - 1) * step >= limit else count


class _Pool(Operator, abstract=True):
    """A function of the elements under a kernel."""

    fill: ClassVar[float]

    def cost(self, operands: Operands) -> int | None:
        size = operands.node.attributes.get_ints("kernel_shape", ())
        return operands.made() * math.prod(size)

    def bounds(self, operands: Operands) -> Interval | None:
        found, size = operands.hull(0), operands.node.attributes.get_ints("kernel_shape", (1,))
        if self.fill:
            return found
        low, high = hull(found, (0.0, 0.0))
        dtype = operands.node.outputs[0].dtype or ir.DataType.FLOAT
        error = (ULPS + math.prod(size)) * resolution(dtype) * max(abs(low), abs(high))
        return (low - error, high + error) if math.isfinite(error) else UNBOUNDED

    def pooled(self, call: Call, a: Primitives, rows: Elements, counts: Elements) -> Elements:
        """Return what rows of elements become if ``counts`` of them lie in the image."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        if len([o for o in call.node.outputs if o.name]) > 1:
            raise Unsupported(f"{self.op_type} with indices")
        x = call.required(0)
        kernel = call.integers("kernel_shape") or []
        dilated = set(call.integers("dilations") or ()) - {1}
        if dilated and call.text("auto_pad", "NOTSET").startswith("SAME"):
            raise Unsupported("a dilated pool of the same size, where engines differ")
        window = Window.of(call, x.shape[2:], kernel)
        inside = (window.places() >= 0).sum(-1)
        if not inside.all():
            raise Unsupported("a pooling window that lies in the padding")
        counts = np.full_like(inside, math.prod(kernel)) if self._whole(call) else inside
        rows = window.rows(call, x, self.fill)
        found = self.pooled(call, call.primitives(x.dtype), rows, counts)
        return Tensor(found.reshape(*x.shape[:2], *window.output), x.dtype)

    def _whole(self, call: Call) -> bool:
        """Whether padding counts."""
        return call.flag("count_include_pad")


class MaxPool(_Pool):
    """The greatest element under the kernel."""

    fill, chooses = -math.inf, (0,)
    algebra = Algebra(monotone={0: 1})

    def pooled(self, call: Call, a: Primitives, rows: Elements, counts: Elements) -> Elements:
        exact = call.semantics.expands or a.dtype.is_integer()
        return _largest(call, a, rows, exact, "MaxPool")


class AveragePool(_Pool):
    """The mean of the elements under the kernel."""

    fill = 0.0
    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(self, call: Call, a: Primitives, rows: Elements, counts: Elements) -> Elements:
        if call.flag("ceil_mode"):
            raise Unsupported("AveragePool with ceil_mode")
        return _averaged(call, a, rows, counts, "AveragePool[{}]")


class LpPool(_Pool):
    """The norm of the elements under the kernel."""

    fill = 0.0

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(self, call: Call, a: Primitives, rows: Elements, counts: Elements) -> Elements:
        return _norms(call, a, rows)


class Resize(Operator):
    """An image in another size."""

    steers = (1, 2, 3)

    def cost(self, operands: Operands) -> int | None:
        mode = operands.node.attributes.get_string("mode", "nearest")
        if mode == "nearest":
            return 0
        data, out = operands.sizes(0), operands.node.outputs[0].shape
        axes = sum(a != b for a, b in zip(data, out or (), strict=True))
        each: int = 2 * (2 if mode == "linear" else 4) ** axes
        return operands.made() * each


class _GlobalPool(Operator, abstract=True):
    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        return [(1, 1, *operands.sizes(0)[2:])]

    def pooled(self, call: Call, a: Primitives, rows: Elements) -> Elements:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rows = x.data.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        found = self.pooled(call, call.primitives(x.dtype), rows)
        return Tensor(found.reshape(*x.shape[:2], *[1] * (len(x.shape) - 2)), x.dtype)


class GlobalMaxPool(_GlobalPool):
    """The greatest element of each channel."""

    algebra = Algebra(monotone={0: 1})

    def pooled(self, call: Call, a: Primitives, rows: Elements) -> Elements:
        return _largest(call, a, rows, call.semantics.expands, "GlobalMaxPool")


class GlobalAveragePool(_GlobalPool):
    """The mean of each channel."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(self, call: Call, a: Primitives, rows: Elements) -> Elements:
        counts = np.full(1, rows.shape[-1])
        return _averaged(call, a, rows, counts, "GlobalAveragePool")


class GlobalLpPool(_GlobalPool):
    """The norm of each channel."""

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(self, call: Call, a: Primitives, rows: Elements) -> Elements:
        return _norms(call, a, rows)


def _norms(call: Call, a: Primitives, rows: Elements) -> Elements:
    if call.semantics.expands:
        return call.semantics.along(lambda row: norm(call, a, row, 2), rows)
    label = f"Norm[{call.integer('p', 2)}]"
    return call.semantics.along(lambda row: a.function(label, *present(row)), rows)


def _largest(call: Call, a: Primitives, rows: Elements, exact: bool, label: str) -> Elements:
    def largest(row: Elements) -> Any:
        if exact or len(present(row)) == 1:
            return a.fold("max", row)
        return a.function(label, *present(row))

    return call.semantics.along(largest, rows)


def _averaged(
    call: Call, a: Primitives, rows: Elements, counts: Elements, label: str
) -> Elements:
    if call.semantics.expands or rows.shape[-1] == 1:
        totals = call.semantics.along(a.total, rows)
        divisors = constant(counts.astype(a.dtype.numpy()), a.dtype, call.semantics)
        return call.semantics.map(a.div, totals, divisors.data)

    def opaque(row: Elements, count: Elements) -> Any:
        terms = present(row)
        if len(terms) == 1:
            return a.div(terms[0], float(count[0]))
        return a.function(label.format(int(count[0])), *terms)

    return call.semantics.along(opaque, rows, counts[..., None])
