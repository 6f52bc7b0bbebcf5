"""Random calls of an operator that the standard admits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.admitted import admitted
from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.semantics import is_float
from onnx_passes.ops.suggestions import Shape
from onnx_passes.ops.use import Use
from onnx_passes.plain import PlainDict
from onnx_passes.verify.rules.attributes import attribute_value
from onnx_passes.verify.rules.draws import Draws
from onnx_passes.verify.rules.plausible_operands import Chooser
from onnx_passes.verify.rules.schemas import admits, may_be_absent, schema_of

NUMBERS = (0.5, 1.0, 2.0, 0.1, 0.25, 3.0)


OPSETS = (13, 18, 21, 23, 24, 26)

_OLD = 9
"""The opset of operators that have gone since."""


_BITS = 40
"""Bits of the largest integers that are drawn, if an operator has no smaller limit."""


_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5)


@dataclass(frozen=True)
class RandomCall:
    """One call of an operator on numbers.

    Attributes:
        node: The node.
        opset: Its version.
        arrays: What each operand is.
    """

    node: ir.Node
    opset: int
    arrays: dict[ir.Value, Array]


def random_call(operator: Operator, rng: np.random.Generator) -> RandomCall | None:
    """Return a random call that the standard admits; None where a draw fits nothing.

    Args:
        operator: The operator.
        rng: Draws types, shapes, attributes and numbers.
    """
    opset = int(rng.choice(OPSETS))
    schema = schema_of(operator.op_type, opset)
    if schema is None:
        opset, schema = _OLD, schema_of(operator.op_type, _OLD)
    if schema is None or not schema.inputs:
        return None
    formal = max(schema.inputs, key=lambda formal: len(formal.types))
    names = sorted(t[7:-1].upper() for t in formal.types if t.startswith("tensor("))
    known = [n for n in names if n in ir.DataType.__members__]
    numbers = [
        d for n in known if (d := ir.DataType[n]).is_integer() or is_float(d) or n == "BOOL"
    ]
    if not numbers:
        return None
    choose = Chooser(Draws(rng), numbers[int(rng.integers(len(numbers)))], NUMBERS)
    choose.prefer({operator.op_type})
    count = _arity(schema, rng)
    shapes: list[Shape | None] = [None] * count
    inputs: list[ir.Value | None] = []
    arrays: dict[ir.Value, Array] = {}
    for index in range(count):
        if may_be_absent(schema, index) and rng.random() < 0.4:
            inputs.append(None)
            continue
        operand = choose.operand(operator.op_type, index, shapes)
        shapes[index] = operand.shape
        dtype = _typed(schema, index, operand.dtype)
        made = ir.val(f"x{index}", dtype=dtype, shape=list(operand.shape))
        inputs.append(made)
        if operand.ints is not None:
            array = np.array(operand.ints, dtype.numpy()).reshape(operand.shape)
            made.const_value = ir.tensor(array)
            arrays[made] = array
    while inputs and inputs[-1] is None:
        inputs.pop()
    outputs = 2 if _is_variadic(schema.outputs[-1]) else max(1, schema.min_output)
    given = _attributes(choose, operator.op_type, schema, shapes, rng)
    node = ir.node(operator.op_type, inputs, attributes=given, num_outputs=outputs)
    dtypes = [None if v is None else v.dtype for v in inputs]
    if not admits(operator.op_type, opset, dtypes):
        return None
    for index, value in enumerate(inputs):
        if value is not None and value not in arrays:
            hint = admitted(Use(node, index, rng)) or ValueHint()
            arrays[value] = _numbers(value, hint, rng, operator.exact_bits or _BITS)
    return RandomCall(node, opset, arrays)


def _arity(schema: onnx.defs.OpSchema, rng: np.random.Generator) -> int:
    if _is_variadic(schema.inputs[-1]):
        return len(schema.inputs) + int(rng.integers(0, 3))
    return len(schema.inputs)


def _is_variadic(formal: onnx.defs.OpSchema.FormalParameter) -> bool:
    return "Variadic" in str(formal.option)


def _typed(schema: onnx.defs.OpSchema, index: int, wanted: ir.DataType) -> ir.DataType:
    """Return the type that an operand must have, if it has no choice."""
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    types = [t[7:-1].upper() for t in formal.types if t.startswith("tensor(")]
    if wanted.name in types or not types:
        return wanted
    fitting = [t for t in ("INT64", "FLOAT", "BOOL", "INT32", "UINT8") if t in types]
    return ir.DataType[fitting[0]] if fitting else wanted


def _attributes(
    choose: Chooser,
    op_type: str,
    schema: onnx.defs.OpSchema,
    shapes: list[Shape | None],
    rng: np.random.Generator,
) -> PlainDict:
    found = {}
    for name, attribute in schema.attributes.items():
        if attribute.required or rng.random() < 0.5:
            value = attribute_value(choose, op_type, name, shapes)
            if value is not None:
                found[name] = value
    return found


def _numbers(value: ir.Value, hint: ValueHint, rng: np.random.Generator, bits: int) -> Array:
    shape = tuple(int(str(d)) for d in value.shape or ())
    dtype = value.dtype or ir.DataType.FLOAT
    if hint.exact is not None:
        return np.broadcast_to(hint.exact, shape).astype(dtype.numpy())
    if dtype == ir.DataType.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer():
        low, high = (-9 if dtype.is_signed() else 0), 10
        if not hint.bounded and rng.random() < 0.2:
            low, high = max(int(dtype.min), 1 - 2**bits), min(int(dtype.max), 2**bits)
        array = rng.integers(low, high, shape)
    else:
        array = rng.standard_normal(shape) * rng.choice((0.1, 1.0, 4.0, 30.0))
        if rng.random() < 0.3:
            array = rng.choice(_SPECIAL, shape)
    if hint.low is not None or hint.high is not None:
        array = np.clip(array, hint.low, hint.high)
    if hint.nonzero:
        # The least integer divided by -1 ends the engine's process.
        array = np.where(abs(array) < 1e-2, 1, abs(array) if dtype.is_integer() else array)
    return np.asarray(array).astype(dtype.numpy())
