"""Operators that slide a kernel over an image and sum: Conv, ConvTranspose."""

from __future__ import annotations

import math

import numpy as np

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.block_values import Blocks, Node
from onnx_passes.ops.domains.block_windows import convolution
from onnx_passes.ops.domains.interval_ends import Interval, hull, pair
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Elements, Unsupported, columns
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.window_places import SlidingWindow, Spread


def conv_cost(operands: Operands, weight: int = 1, bias: int = 2) -> int:
    """Return the operations of a convolution whose weights and bias are these operands.

    Args:
        operands: The operands of the node.
        weight: Number of the operand with the weights.
        bias: Number of the operand with the bias.
    """
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

    Args:
        call: The node.
        image: Elements by sample, group, channel, place, offset.
        kernel: Elements by group, feature, channel, offset.
        bias: What is added to each feature.
        x: The image, whose type the result has.
        output: Sizes of the result in space.
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
