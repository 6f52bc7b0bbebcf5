"""Norms, and operators that divide by one of the elements beside them."""

from __future__ import annotations

import math

import numpy as np

from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.rows import along_axes, summed
from onnx_passes.ops.semantics import PADDING, Elements, Scalar, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand


def norm(call: Call, a: TypedPrimitives, row: Elements, default: int) -> Scalar:
    """Return the norm of a row whose order the attribute ``p`` gives.

    Args:
        call: The call, for the attribute.
        a: Primitives of the element type.
        row: Elements [..., n].
        default: The order if the attribute is left out.
    """
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

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
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

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.data(c.pick(((1, 4, 2, 2), (2, 3, 4))))
