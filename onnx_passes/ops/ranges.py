"""Between which numbers the results of a node lie, by the description of its operator.

The elements of an operand are alike as far as is known, so that a few represent all. An
operator on each element needs one, an operator that folds rows needs a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.interval_ends import UNBOUNDED, Interval, fitted, of_type, pair
from onnx_passes.ops.domains.interval_ends import hull as hull_of
from onnx_passes.ops.domains.intervals import IntervalSemantics
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator, operator_of
from onnx_passes.ops.semantics import MALFORMED, Unsupported

_MOST_ELEMENTS = 1 << 24
"""Elements that may represent all of a node's operands."""

_POINTS, _SPANS = IntervalSemantics(numbers=True), IntervalSemantics()


def range_of(operands: Operands) -> Interval:
    """Return the interval of a node's outputs; what the type holds if no more is known."""
    node = operands.node
    dtype, operator = node.outputs[0].dtype, operator_of(node, operands.opset)
    if operator is None or dtype is None:
        return of_type(dtype)
    try:
        low, high = _found(operator, operands, dtype)
    except (Unsupported, *MALFORMED):
        return of_type(dtype)
    return of_type(dtype) if math.isnan(low) or math.isnan(high) else (low, high)


def _found(operator: Operator, operands: Operands, dtype: ir.DataType) -> Interval:
    own = operator.bounds(operands)
    if own is not None:
        return own
    inputs = operands.node.inputs
    moved = [i for i, v in enumerate(inputs) if i in operator.moves and v is not None]
    if moved and not operator.elementwise:
        if operands.node.attributes.get_string("reduction", "none") != "none":
            return UNBOUNDED
        found = hull_of(*(operands.hull(i) for i in moved))
        fill = operator.fill_of(operands.node)
        return found if fill is None else hull_of(found, (fill, fill))
    shapes = operator.representatives(operands)
    if sum(map(math.prod, shapes)) > _MOST_ELEMENTS:
        raise Unsupported(f"the range of rows of {operator.op_type}")
    tensors = [
        operands.tensor(i, shape, exact=i in operator.exact) for i, shape in enumerate(shapes)
    ]
    if len(inputs) == 2 and inputs[0] is inputs[1] and operator.elementwise:
        tensors[1] = tensors[0]  # a product of equals is a square
    low, high = _hulls(operator, operands, tensors)
    ends = fitted(low, high, dtype, computed=False)
    return float(ends["low"]), float(ends["high"])


def _hulls(
    operator: Operator, operands: Operands, tensors: Sequence[Tensor | None]
) -> Interval:
    rising = operator.monotone_in(operands.node)
    # Where it never falls, its ends are at the ends of the operand.
    if not operator.elementwise or not rising:
        return _evaluated(operator, operands, tensors, _SPANS)
    sides = []
    for side in (0, 1):
        ends = []
        for index, tensor in enumerate(tensors):
            if tensor is None or index not in rising:
                ends.append(tensor)
                continue
            end = tensor.data["high" if (rising[index] > 0) == bool(side) else "low"]
            ends.append(Tensor(pair(end, end), tensor.dtype))
        all_ends = all(index in rising for index, t in enumerate(ends) if t is not None)
        sides.append(_evaluated(operator, operands, ends, _POINTS if all_ends else _SPANS))
    return hull_of(*sides)


def _evaluated(
    operator: Operator,
    operands: Operands,
    tensors: Sequence[Tensor | None],
    semantics: IntervalSemantics,
) -> Interval:
    found = operator.evaluate(Call(operands.node, tensors, semantics, operands.opset))
    result = found[0] if isinstance(found, tuple) else found
    if result is None or not result.data.size:
        return UNBOUNDED
    return float(result.data["low"].min()), float(result.data["high"].max())
