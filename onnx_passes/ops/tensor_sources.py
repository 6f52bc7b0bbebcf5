"""Operators that make tensors of numbers: constants, shapes, ranges."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import early_changes
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.domains.block_values import Blocks, Node, known_constant
from onnx_passes.ops.domains.interval_ends import Interval
from onnx_passes.ops.input_hints import ValueHint, exactly
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand
from onnx_passes.ops.use import Use

FEW = 3
_PLAIN = {
    "value_float": ir.DataType.FLOAT,
    "value_floats": ir.DataType.FLOAT,
    "value_int": ir.DataType.INT64,
    "value_ints": ir.DataType.INT64,
}


class Constant(Operator):
    """A tensor that the node holds."""

    changes = early_changes.CONSTANT

    free = one_attribute = True

    def evaluate(self, call: Call) -> Tensor:
        attributes = call.node.attributes
        if "value" in attributes:
            tensor = attributes["value"].as_tensor()
            return constant(tensor.numpy(), tensor.dtype, call.semantics)
        for name, dtype in _PLAIN.items():
            if name in attributes:
                array = np.array(attributes[name].value, dtype.numpy())
                return constant(array, dtype, call.semantics)
        raise Unsupported("a Constant that is a string or sparse")

    def blocks(self, node: Node) -> Blocks:
        if "value" not in node.node.attributes:
            for name, dtype in {
                "value_float": ir.DataType.FLOAT,
                "value_int": ir.DataType.INT64,
                "value_ints": ir.DataType.INT64,
            }.items():
                if name in node.node.attributes:
                    array = np.array(node.attribute(name, 0), dtype.numpy())
                    return known_constant(node, array, dtype)
            raise Unsupported("a Constant of this kind")
        tensor = node.node.attributes["value"].as_tensor()
        return known_constant(node, tensor.numpy(), tensor.dtype)


class ConstantOfShape(Operator):
    """A tensor of one number."""

    free = True
    steers = (0,)

    def evaluate(self, call: Call) -> Tensor:
        attr = call.node.attributes.get("value")
        fill = np.zeros(1, np.float32) if attr is None else attr.as_tensor().numpy()
        dtype = ir.DataType.FLOAT if attr is None else attr.as_tensor().dtype
        array = np.full(call.small(call.static_ints(0)), fill.reshape(-1)[0], fill.dtype)
        return constant(array, dtype, call.semantics)

    def admits(self, use: Use) -> ValueHint | None:
        output = use.output_shape()
        return exactly([FEW] * (use.length() or 1) if output is None else output)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.integers(*c.pick(((2, 3), (3,))))


class Shape(Operator):
    """The sizes of the operand, or a part of them."""

    changes = early_changes.SHAPE

    free = reads_sizes = True
    in_range = (0,)

    def evaluate(self, call: Call) -> Tensor:
        sizes = call.semantics.sizes(call.required(0).data, call.node, 0)
        # Both count from the end if negative, and are clamped, as Python's slices are.
        part = slice(call.integer("start", 0), call.integer("end", len(sizes)))
        return Tensor(sizes[part], ir.DataType.INT64)

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, float(2**63 - 1)


class Size(Operator):
    """The number of elements."""

    free = reads_sizes = True
    in_range = (0,)

    def evaluate(self, call: Call) -> Tensor:
        sizes = call.semantics.sizes(call.required(0).data, call.node, 0)
        a = call.primitives(ir.DataType.INT64)
        found = call.semantics.along(
            lambda row: a.fold("mul", row) if row.shape[-1] else a.scalar(1), sizes
        )
        return Tensor(found, ir.DataType.INT64)

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, float(2**63 - 1)


class Range(Operator):
    """The numbers from one on, up to a limit, by steps."""

    free = True
    steers = (0, 1, 2)

    def evaluate(self, call: Call) -> Tensor:
        dtype = call.required(0).dtype
        start, limit, step = (call.static(i).reshape(-1)[0] for i in range(3))
        count = max(int(np.ceil((limit - start) / step)), 0)
        call.small([count])
        numbers = (start + step * np.arange(count)).astype(dtype.numpy())
        return constant(numbers, dtype, call.semantics)

    def admits(self, use: Use) -> ValueHint | None:
        output, start = use.output_shape(), use.constant(0)
        first = 0 if start is None else start.reshape(-1)[0]
        limit = first + (FEW if output is None else output[0])
        return exactly((0, limit, 1)[use.index])


class EyeLike(Operator):
    """Ones on a diagonal, zeros elsewhere."""

    free = True

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        dtype = ir.DataType(call.integer("dtype", int(x.dtype)))
        rows, columns = x.shape
        ones = np.eye(rows, columns, call.integer("k", 0))
        return constant(ones.astype(dtype.numpy()), dtype, call.semantics)
