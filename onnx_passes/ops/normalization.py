"""Normalisation layers, norms, and Dropout."""

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, constant, normalize_axis
from onnx_passes.ops.domains.blocks import Blocks, Node
from onnx_passes.ops.domains.intervals import UNBOUNDED, Interval
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.reduction import along_axes, opaque_rows, summed
from onnx_passes.ops.semantics import (
    PADDING,
    Elements,
    Misfit,
    Scalar,
    TypedPrimitives,
    Unsupported,
)


class Dropout(Operator):
    """The operand, as long as nothing is trained."""

    changes = versions.DROPOUT

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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        # Training mode draws random numbers, which no two runs repeat.
        return {1: hints.between(0, 0.5), 2: hints.exactly(False)}.get(use.index)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 2:
            return hints.Operand((), ir.DataType.BOOL, constant=True)
        return c.data(c.shape()) if index == 0 else c.data((), constant=True)

    def blocks(self, node: Node) -> Blocks:
        if node.given(2) is not None or len([o for o in node.node.outputs if o.uses()]) > 1:
            raise Unsupported("Dropout that is not the identity")
        return node.required(0)


class BatchNormalization(Operator):
    """Each channel less its mean, by its deviation, times a factor, plus a bias."""

    changes = versions.BATCH_NORMALIZATION

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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(0.1, None) if use.index == 4 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (2, 3, 4, 4))
        if index == 0:
            return c.data(c.pick(((2, 3), (2, 3, 4, 4))))
        shape = (x[1] if len(x) > 1 else 1,)
        # From opset 15 on, statistics may be wider than the data.
        wide = c.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) and c.rng.random() < 0.5
        dtype = ir.DataType.FLOAT if wide else c.dtype
        return hints.Operand(shape, dtype, constant=True, positive=index == 4)


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

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        shape = hints.first(known, (2, 3))
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
        """Return into how many parts the channels are cut."""
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

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (2, 4, 3))
        shapes = ((1, 2, 3, 3), (2, 4, 5), (1, 4, 2, 2), (2, 6, 3))
        return c.data(c.pick(shapes) if index == 0 else x[1:2])


class GroupNormalization(InstanceNormalization):
    """Groups of channels less their mean, by their deviation, times a factor."""

    changes = versions.GROUP_NORMALIZATION

    computed_in = ir.DataType.FLOAT

    def groups(self, call: Call, channels: int) -> int:
        if call.opset < 21:
            raise Unsupported("GroupNormalization of this opset")
        return call.integer("num_groups", 1)


def norm(call: Call, a: TypedPrimitives, row: Elements, default: int) -> Scalar:
    """Return the norm of a row whose order the attribute ``p`` gives."""
    order = call.integer("p", default)
    if order == 2:
        return a.sqrt(a.dot(row, row))

    def power(v: Scalar) -> Scalar:
        size = PADDING if v is PADDING else a.abs(v)
        return size if v is PADDING or order == 1 else a.pow(size, float(order))

    total = a.total(call.semantics.map(power, np.asarray(row)))
    return total if order == 1 else a.pow(total, 1.0 / order)


class LpNormalization(Operator):
    """Elements over the norm of an axis; zeros where that is 0."""

    def cost(self, operands: Operands) -> int | None:
        return 3 * operands.elements(0)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        label = f"{self.op_type}[{call.integer('p', 2)}]"
        return along_axes(call, x, [call.axis(-1, len(x.shape))], label, self._rows)

    def _rows(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        norms = summed(call, lambda row: norm(call, a, row, 2), rows)
        return call.semantics.map(
            lambda v, n: a.select(a.equal(n, 0.0), 0.0, a.div(v, n)), rows, norms
        )


class MeanVarianceNormalization(Operator):
    """Some axes less their mean, by their deviation."""

    def cost(self, operands: Operands) -> int | None:
        return 6 * operands.made()

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        given = call.integers("axes")
        axes = sorted({normalize_axis(i, len(x.shape)) for i in given or (0, 2, 3)})
        return along_axes(call, x, axes, self.op_type, self._rows)

    def _rows(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        count = float(rows.shape[-1])
        means, squares = (
            call.semantics.map(lambda total: a.div(total, count), summed(call, function, rows))
            for function in (a.total, lambda row: a.dot(row, row))
        )
        spread = call.semantics.map(lambda s, m: a.sqrt(a.sub(s, a.mul(m, m))), squares, means)
        found = call.semantics.map(
            lambda v, m, s: a.div(a.sub(v, m), a.add(s, 1e-9)), rows, means, spread
        )

        def size() -> Elements:
            # ONNX Runtime divides 0 by 0 where all are equal, and takes the root of a negative
            # number where a variance of nearly 0 comes out as one.
            least = 64 * float(np.finfo(np.float32).eps) * count
            return call.semantics.map(
                lambda y, v, s: a.select(
                    a.less_equal(a.mul(v, v), a.mul(s, least)), math.inf, y
                ),
                *(found, spread, squares),
            )

        return call.semantics.kernel(found, a.dtype, size)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return c.data(c.pick(((2, 3, 2, 4), (1, 2, 3, 3))))


class LRN(Operator):
    """Elements by a power of the mean of squares in the channels beside them."""

    def cost(self, operands: Operands) -> int | None:
        return (2 * operands.node.attributes.get_int("size", 1) + 4) * operands.made()

    def evaluate(self, call: Call) -> Tensor:
        x, size = call.required(0), call.integer("size", 1)
        if len(x.shape) < 3:
            raise Unsupported("LRN of this rank")
        a, beta = call.primitives(x.dtype), call.number("beta", 0.75)
        alpha, bias = call.number("alpha", 1e-4) / size, call.number("bias", 1.0)
        before = (size - 1) // 2

        def squares(channels: Elements) -> Elements:
            rows = np.moveaxis(channels, 1, -1)
            return call.semantics.along(lambda row: a.dot(row, row), rows)

        sums = [
            squares(x.data[:, max(0, at - before) : at + size - before])
            for at in range(x.shape[1])
        ]
        if not sums:
            return x
        scales = call.semantics.map(
            lambda s: a.add(bias, a.mul(alpha, s)), np.stack(sums, axis=1)
        )
        found = call.semantics.map(lambda v, s: a.div(v, a.pow(s, beta)), x.data, scales)

        def size_of_terms() -> Elements:
            # ONNX Runtime adds a channel to the sum and subtracts one, so that the rounding of
            # all channels is in each.
            share = call.semantics.map(
                lambda t, s: a.add(1.0, a.div(a.mul(alpha * beta, t), s)),
                squares(x.data)[:, None],
                scales,
            )
            return call.semantics.map(a.mul, found, share)

        return Tensor(call.semantics.kernel(found, x.dtype, size_of_terms), x.dtype)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return c.data(c.pick(((1, 4, 2, 2), (2, 3, 4))))
