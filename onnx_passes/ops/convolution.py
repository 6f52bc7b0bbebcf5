"""Operators that slide a kernel over an image: convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, constant
from onnx_passes.ops.domains.blocks import Blocks, Node, convolution
from onnx_passes.ops.domains.intervals import ULPS, UNBOUNDED, Interval, hull, pair, resolution
from onnx_passes.ops.input_hints import Choices, Known, Operand, first
from onnx_passes.ops.normalization import norm
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import (
    Elements,
    Misfit,
    Scalar,
    TypedPrimitives,
    Unsupported,
    columns,
    present,
)

Places = npt.NDArray[np.int64]


class Geometry:
    """A kernel over an image: which elements of the image each place of the result reads.

    ``output`` is the number of places along each axis.
    """

    output: tuple[int, ...]

    def places(self) -> Places:
        """Return flat indices by place and offset; -1 where nothing is read."""
        raise NotImplementedError

    def rows(self, call: Call, x: Tensor, padding: float) -> Elements:
        """Return the elements that are read, by sample, channel, place and offset.

        ``x`` is [samples, channels, ...]. ``padding`` is the number outside of the image.
        """
        flat = x.data.reshape(*x.shape[:2], -1)
        wide = np.empty((*flat.shape[:2], flat.shape[2] + 1), flat.dtype)
        wide[..., :-1] = flat
        wide[..., -1] = call.semantics.padding(padding, x.dtype)
        return wide[..., self.places()]


def _flat(axes: Sequence[Array], sizes: Sequence[int]) -> Places:
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
class SlidingWindow(Geometry):
    """A kernel that slides over an image of any rank; ``before`` and ``after`` are padding."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    output: tuple[int, ...]

    @staticmethod
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> SlidingWindow:
        """Read strides, dilations and padding from a node's attributes.

        Raises ``Unsupported`` if the kernel does not fit.
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
        return SlidingWindow(*(tuple(int(v) for v in part) for part in parts))

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

    ``strides`` are steps between the places of neighbours. ``before`` is cut off before each
    axis.
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

        Raises ``Unsupported`` if padding is to be worked out.
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


def conv_cost(operands: Operands, weight: int = 1, bias: int = 2) -> int:
    """Return the operations of a convolution whose weights and bias are these operands."""
    # [M, C / group, ...]: what one output element is the sum of.
    each = 2 * math.prod(operands.sizes(weight)[1:])
    return operands.made() * (each + operands.given(bias))


class Conv(Operator):
    """Sums of products of a kernel with the places of an image that it slides over."""

    algebra = Algebra(affine=(0, 1, 2))

    def bounds(self, operands: Operands) -> Interval | None:
        return _bounds(operands, transposed=False)

    def cost(self, operands: Operands) -> int | None:
        return conv_cost(operands)

    def evaluate(self, call: Call) -> Tensor:
        x, weight, bias = call.required(0), call.required(1), call.given(2)
        group = call.integer("group", 1)
        window = SlidingWindow.of(call, x.shape[2:], weight.shape[2:])
        channels, features = weight.shape[1], weight.shape[0]
        if x.shape[1] != channels * group or features % group:
            raise Unsupported(
                f"Conv of {list(x.shape)} with weights {list(weight.shape)} in {group} groups"
            )
        rows = window.rows(call, x, 0.0)
        image = rows.reshape(x.shape[0], group, channels, *rows.shape[2:])
        kernel = weight.data.reshape(group, features // group, channels, -1)
        return convolved(call, image, kernel, bias, x, window.output)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (1, 2, 5, 5))
        channels, spatial = (x[1] if len(x) > 1 else 2), max(len(x) - 2, 1)
        if channels % 2 == 0 and c.rng.random() < 0.4:
            channels //= 2  # two groups
        features = known[1][0] if len(known) > 1 and known[1] else 4
        kernel = tuple(min(c.pick((1, 3)), d) for d in x[2:]) or (1,) * spatial
        shapes = (c.shape(), (4, channels, *kernel), (features,))
        return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)

    sums = True

    def blocks(self, node: Node) -> Blocks:
        return convolution(node, node.required(0), node.required(1), node.given(2))


def convolved(
    call: Call,
    image: Elements,
    kernel: Elements,
    bias: Tensor | None,
    x: Tensor,
    output: tuple[int, ...],
) -> Tensor:
    """Sum products of an image's elements with a kernel's, over channels and offsets.

    ``image`` is by sample, group, channel, place, offset; ``kernel`` by group, feature,
    channel, offset. The result has the type of ``x``, and the sizes ``output`` in space.
    """
    samples, group, channels, places, offsets = image.shape
    features = kernel.shape[1]
    left = np.moveaxis(image, 2, 3).reshape(samples, group, 1, places, channels * offsets)
    right = kernel.reshape(1, group, features, 1, channels * offsets)
    a, extra = call.primitives(x.dtype), []
    if bias is not None:
        extra = [bias.data.reshape(1, group, features, 1, 1)]
    data = call.semantics.along(
        lambda p, q, *initial: a.dot(p, q, *(columns(i)[0] for i in initial)),
        *(left, right, *extra),
    )
    return Tensor(data.reshape(samples, group * features, *output), x.dtype)


def _bounds(operands: Operands, *, transposed: bool) -> Interval:
    """Return the hull of what one place may come to; what lies in the padding is 0."""
    sizes = operands.sizes(1)
    kernel = operands.tensor(1, sizes, exact=True)
    biased = len(operands.node.inputs) > 2 and operands.node.inputs[2] is not None
    bias = operands.tensor(2, operands.sizes(2), exact=True) if biased else None
    assert kernel is not None, "weights are required"
    group = operands.node.attributes.get_int("group", 1)
    weights = kernel.data.reshape(group, sizes[0] // group, sizes[1], -1)
    weights = np.swapaxes(weights, 1, 2) if transposed else weights
    span = pair(*hull(operands.hull(0), (0.0, 0.0)))
    image = np.broadcast_to(span, (1, group, weights.shape[2], 1, weights.shape[3]))
    call = operands.call()
    found = convolved(call, image, weights, bias, Tensor(image, kernel.dtype), (1,))
    return float(found.data["low"].min()), float(found.data["high"].max())


class ConvTranspose(Operator):
    """Each element of an image, spread over the places that a kernel covers."""

    algebra = Algebra(affine=(0, 1, 2))

    def bounds(self, operands: Operands) -> Interval | None:
        return _bounds(operands, transposed=True)

    def cost(self, operands: Operands) -> int | None:
        # [C, M / group, ...]: what each input element is spread over.
        spread = 2 * operands.elements(0) * math.prod(operands.sizes(1)[1:])
        return spread + (operands.made() if operands.given(2) else 0)

    def evaluate(self, call: Call) -> Tensor:
        x, w, bias = call.required(0), call.required(1), call.given(2)
        group = call.integer("group", 1)
        spread = Spread.of(call, x.shape[2:], w.shape[2:])
        rows = spread.rows(call, x, 0.0)
        image = rows.reshape(x.shape[0], group, x.shape[1] // group, *rows.shape[2:])
        kernel = w.data.reshape(group, w.shape[0] // group, w.shape[1], -1)
        return convolved(call, image, np.swapaxes(kernel, 1, 2), bias, x, spread.output)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (1, 2, 5, 5))
        spatial = max(len(x) - 2, 1)
        w = known[1] if len(known) > 1 and known[1] and len(known[1]) > 1 else (2, 3)
        shapes = (
            c.shape(),
            (x[1] if len(x) > 1 else 2, 3, *(3,) * spatial),
            (c.pick((w[1], 2 * w[1])),),
        )
        return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)


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

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
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
        window = SlidingWindow.of(call, x.shape[2:], kernel)
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

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        exact = call.semantics.expands or a.dtype.is_integer()
        return _largest(call, a, rows, exact, "MaxPool")


class AveragePool(_Pool):
    """The mean of the elements under the kernel."""

    fill = 0.0
    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        if call.flag("ceil_mode"):
            raise Unsupported("AveragePool with ceil_mode")
        return _averaged(call, a, rows, counts, "AveragePool[{}]")


class LpPool(_Pool):
    """The norm of the elements under the kernel."""

    changes = versions.EXPONENT

    fill = 0.0

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        return _norms(call, a, rows)


class _GlobalPool(Operator, abstract=True):
    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        return [(1, 1, *operands.sizes(0)[2:])]

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rows = x.data.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        found = self.pooled(call, call.primitives(x.dtype), rows)
        return Tensor(found.reshape(*x.shape[:2], *[1] * (len(x.shape) - 2)), x.dtype)


class GlobalMaxPool(_GlobalPool):
    """The greatest element of each channel."""

    algebra = Algebra(monotone={0: 1})

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        return _largest(call, a, rows, call.semantics.expands, "GlobalMaxPool")


class GlobalAveragePool(_GlobalPool):
    """The mean of each channel."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        counts = np.full(1, rows.shape[-1])
        return _averaged(call, a, rows, counts, "GlobalAveragePool")


class GlobalLpPool(_GlobalPool):
    """The norm of each channel."""

    changes = versions.EXPONENT

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        return _norms(call, a, rows)


def _norms(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    if call.semantics.expands:
        return call.semantics.along(lambda row: norm(call, a, row, 2), rows)
    label = f"Norm[{call.integer('p', 2)}]"
    return call.semantics.along(lambda row: a.function(label, *present(row)), rows)


def _largest(
    call: Call, a: TypedPrimitives, rows: Elements, exact: bool, label: str
) -> Elements:
    def largest(row: Elements) -> Scalar:
        if exact or len(present(row)) == 1:
            return a.fold("max", row)
        return a.function(label, *present(row))

    return call.semantics.along(largest, rows)


def _averaged(
    call: Call, a: TypedPrimitives, rows: Elements, counts: Elements, label: str
) -> Elements:
    if call.semantics.expands or rows.shape[-1] == 1:
        totals = call.semantics.along(a.total, rows)
        divisors = constant(counts.astype(a.dtype.numpy()), a.dtype, call.semantics)
        return call.semantics.map(a.div, totals, divisors.data)

    def opaque(row: Elements, count: Elements) -> Scalar:
        terms = present(row)
        if len(terms) == 1:
            return a.div(terms[0], float(count[0]))
        return a.function(label.format(int(count[0])), *terms)

    return call.semantics.along(opaque, rows, counts[..., None])
