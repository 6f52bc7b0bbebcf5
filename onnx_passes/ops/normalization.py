"""Normalisation, and Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import later_changes
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.domains.block_values import Blocks, Node
from onnx_passes.ops.domains.interval_ends import UNBOUNDED, Interval
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.rows import opaque_rows, summed
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use


class Dropout(Operator):
    """The operand, as long as nothing is trained."""

    changes = later_changes.DROPOUT

    moves = (0,)
    algebra = Algebra(idempotent=True, monotone={0: 1}, linear=(0,))

    def bounds(self, operands: Operands) -> Interval | None:
        training = operands.node.inputs[2:] and operands.hull(2) != (0.0, 0.0)
        return UNBOUNDED if training else None

    def evaluate(self, call: Call) -> tuple[Tensor, ...]:
        x = call.required(0)
        if call.given(2) is not None and bool(call.static(2).reshape(-1)[0]):
            raise Unsupported("Dropout while training")
        mask = constant(np.ones(x.shape, np.bool_), ir.DataType.BOOL, call.semantics)
        return x, mask

    def admits(self, use: Use) -> ValueHint | None:
        # Training mode draws random numbers, which no two runs repeat.
        return {1: between(0, 0.5), 2: exactly(False)}.get(use.index)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 2:
            return Operand((), ir.DataType.BOOL, constant=True)
        return c.data(c.shape()) if index == 0 else c.data((), constant=True)

    def blocks(self, node: Node) -> Blocks:
        if node.given(2) is not None or len([o for o in node.node.outputs if o.uses()]) > 1:
            raise Unsupported("Dropout that is not the identity")
        return node.required(0)


class BatchNormalization(Operator):
    """Each channel less its mean, by its deviation, times a factor, plus a bias."""

    changes = later_changes.BATCH_NORMALIZATION

    algebra, exact = Algebra(affine=(0, 1, 2, 3)), (1, 2, 3, 4)

    def cost(self, operands: Operands) -> int | None:
        shapes = [operands.sizes(i) for i in range(len(operands.node.inputs))]
        return operands.counted(shapes, self.evaluate)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        channels = tuple(operands.sizes(1))
        if len(operands.node.outputs) > 1:
            raise Unsupported("BatchNormalization while training")
        rank = len(operands.sizes(0))
        return [(1, *channels, *[1] * (rank - 2)), channels, channels, channels, channels]

    def evaluate(self, call: Call) -> Tensor:
        x, *parameters = (call.required(i) for i in range(5))
        if call.flag("training_mode") or call.opset < 9:
            raise Unsupported("BatchNormalization while training")
        epsilon, a = call.number("epsilon", 1e-5), call.primitives(x.dtype)

        def normalize(v: Scalar, s: Scalar, b: Scalar, m: Scalar, var: Scalar) -> Scalar:
            if not call.semantics.expands:
                return a.function(f"BatchNormalization[{epsilon!r}]", v, s, b, m, var)
            root = a.sqrt(a.add(var, epsilon))
            return a.add(a.mul(a.div(a.sub(v, m), root), s), b)

        wide = len(x.shape) > 1
        shape = (-1, *([1] * (len(x.shape) - 2)))
        per_channel = [
            Tensor(p.data.reshape(shape) if wide else p.data, p.dtype) for p in parameters
        ]
        found = call.map(normalize, x.dtype, x, *per_channel)

        def size() -> Elements:
            # Engines multiply by one factor, and add one number that has the mean in it.
            s, _, m, var = (p.data for p in per_channel)
            root = call.semantics.map(lambda v: a.sqrt(a.add(v, epsilon)), var)
            return call.semantics.map(lambda m, r, s: a.mul(a.div(m, r), s), m, root, s)

        return Tensor(call.semantics.kernel(found.data, x.dtype, size), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        return between(0.1, None) if use.index == 4 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (2, 3, 4, 4))
        if index == 0:
            return c.data(c.pick(((2, 3), (2, 3, 4, 4))))
        shape = (x[1] if len(x) > 1 else 1,)
        # From opset 15 on, statistics may be wider than the data.
        wide = c.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) and c.rng.random() < 0.5
        dtype = ir.DataType.FLOAT if wide else c.dtype
        return Operand(shape, dtype, constant=True, positive=index == 4)


def _normalized(
    call: Call, a: TypedPrimitives, rows: Elements, *, centred: bool = True
) -> Elements:
    """Return rows less their means, by their deviations."""
    if not call.semantics.expands:
        name = f"{call.node.op_type}[{call.number('epsilon', 1e-5)!r}]"
        return opaque_rows(call, a, rows, name)
    if centred:
        rows = call.semantics.map(a.sub, rows, _means(call, a, rows))
    return call.semantics.map(a.div, rows, _roots(call, a, rows))


def _means(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    count = float(rows.shape[-1])
    return call.semantics.map(lambda total: a.div(total, count), summed(call, a.total, rows))


def _roots(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    """Return the roots of the means of squares."""
    epsilon, count = call.number("epsilon", 1e-5), float(rows.shape[-1])
    squares = summed(call, lambda row: a.dot(row, row), rows)
    return call.semantics.map(lambda s: a.sqrt(a.add(a.div(s, count), epsilon)), squares)


class LayerNormalization(Operator):
    """The last axes less their mean, by their deviation, times a factor, plus a bias."""

    centred = True
    algebra = Algebra(affine=(1, 2))

    def cost(self, operands: Operands) -> int | None:
        return (7 if self.centred else 4) * operands.made()

    def evaluate(self, call: Call) -> Tensor:
        x, scale, bias = call.required(0), call.required(1), call.given(2)
        if any(o.name and o.uses() for o in call.node.outputs[1:]):
            raise Unsupported(f"{self.op_type} whose statistics are read")
        axis = call.axis(-1, len(x.shape))
        a, size = call.primitives(x.dtype), math.prod(x.shape[axis:])
        rows = x.data.reshape(*x.shape[:axis], size)
        normal = _normalized(call, a, rows, centred=self.centred)
        found = call.map(a.mul, x.dtype, Tensor(normal.reshape(x.shape), x.dtype), scale)
        found = found if bias is None else call.map(a.add, x.dtype, found, bias)
        if found.shape != x.shape:
            raise Misfit(f"{self.op_type} of {x.shape} by factors of {scale.shape}")
        return found

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        shape = first(known, (2, 3))
        return c.data(c.pick(((2, 3), (2, 3, 4))) if index == 0 else shape[-1:])


class RMSNormalization(LayerNormalization):
    """The last axes by the root of the mean of their squares, times a factor."""

    centred = False


class InstanceNormalization(Operator):
    """Each channel of each sample less its mean, by its deviation, times a factor."""

    algebra, images = Algebra(affine=(1, 2)), True

    def cost(self, operands: Operands) -> int | None:
        return 7 * operands.made()

    def groups(self, call: Call, channels: int) -> int:
        """Return into how many parts the channels are cut.

        Args:
            call: The call, for attributes.
            channels: How many channels there are.
        """
        return channels

    def evaluate(self, call: Call) -> Tensor:
        x, scale, bias = (call.required(i) for i in range(3))
        if len(x.shape) < 3:
            raise Unsupported(f"{self.op_type} of this rank")
        groups, a = self.groups(call, x.shape[1]), call.primitives(x.dtype)
        size = math.prod(x.shape[1:]) // max(groups, 1)
        rows = x.data.reshape(x.shape[0], groups, size)
        normal = _normalized(call, a, rows)
        shape = (x.shape[1], *([1] * (len(x.shape) - 2)))
        scale, bias = (Tensor(p.data.reshape(shape), p.dtype) for p in (scale, bias))
        scaled = call.map(a.mul, x.dtype, Tensor(normal.reshape(x.shape), x.dtype), scale)
        found = call.map(a.add, x.dtype, scaled, bias)

        def size_of_terms() -> Elements:
            # Engines multiply by one factor, and add one number that has the mean in it.
            means = _means(call, a, rows)
            roots = _roots(call, a, call.semantics.map(a.sub, rows, means))
            ratio = call.semantics.map(a.div, means, roots)
            spread = np.broadcast_to(ratio, rows.shape).reshape(x.shape)
            return call.map(a.mul, x.dtype, Tensor(spread, x.dtype), scale).data

        return Tensor(call.semantics.kernel(found.data, x.dtype, size_of_terms), x.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (2, 4, 3))
        shapes = ((1, 2, 3, 3), (2, 4, 5), (1, 4, 2, 2), (2, 6, 3))
        return c.data(c.pick(shapes) if index == 0 else x[1:2])


class GroupNormalization(InstanceNormalization):
    """Groups of channels less their mean, by their deviation, times a factor."""

    changes = later_changes.GROUP_NORMALIZATION

    computed_in = ir.DataType.FLOAT

    def groups(self, call: Call, channels: int) -> int:
        if call.opset < 21:
            raise Unsupported("GroupNormalization of this opset")
        return call.integer("num_groups", 1)
