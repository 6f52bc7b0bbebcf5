"""Replace two operators that bound a tensor by one."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.bounds import ClipBounds, clip_bounds_of
from onnx_passes.passes.common.matches import node_of, opset_at
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of

TYPES = (
    *(ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE),
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64),
)
"""Types that ONNX Runtime has Min, Max and Clip for."""

UNARY = ("Relu", "Clip")


@passes.verify.tolerance
@passes.register("fuse")
class FuseMinMax(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace two operators that bound a tensor by one.

    Before: ``Min(Max(x, 0), 6)``, ``Max(Min(x, 6), 0)``, ``Min(Relu(x), 6)``;
            ``Max(Max(x, 1), 2)``
    After:  ``Clip(x, 0, 6)``; ``Max(x, 2)``

    Two of Min, Max, Relu and Clip in a row, one of them Min or Max.

    Sound because each keeps order and is constant outside of its bounds: so are both in a row,
    and their bounds are what the second makes of the first's. NaN goes through all four. The
    contract is a tolerance for the sign of zero only: engines choose which of -0 and 0 is the
    greater one.

    Leaves alone: bounds that are NaN, computed, that callers may override, or that make the
    tensor bigger; more than two operands; opsets before 12, where Clip has no integers; types
    that ONNX Runtime has no kernel for; a value between that something else reads; two Clip or
    Relu, which `merge-clips` merges.
    """

    needs = ("shape-inference",)
    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for chain in (
            *product(("Max", "Min", *UNARY), ("Min", "Max"), (True, False)),
            *product(("Min", "Max"), UNARY, (True,)),
        ):
            yield Rule(partial(_chain, *chain), _bounded, _can_be_fused)


def _chain(inner: str, outer: str, first: bool, op: Op, a: Var, c: Var) -> Var:
    """Two operators in a row, the inner one first or second among the outer one's operands."""
    t = getattr(op, inner)(a, _allow_other_inputs=True, _outputs=["t"])
    if outer in UNARY:
        return getattr(op, outer)(t, _allow_other_inputs=True, _outputs=["y"])
    return getattr(op, outer)(*((t, c) if first else (c, t)), _outputs=["y"])


def _can_be_fused(context: MatchContext, t: Value, y: Value, **_: object) -> bool:
    return opset_at(context) >= 12 and _parts(t, y) is not None


def _bounded(op: Op, t: Value, y: Value, **_: object) -> Value:
    parts = _parts(t, y)
    assert parts is not None, "check has seen to it"
    x, bounds = parts
    whole = _open(bounds.dtype)
    made: Value
    if bounds.low == whole.low:
        made = op.Min(x, _constant(op, bounds.high))
    elif bounds.high == whole.high:
        made = op.Max(x, _constant(op, bounds.low))
    else:
        made = bounds.build(op, x, attributes=False)
    return made


def _constant(op: Op, number: object) -> Value:
    return op.Constant(value=ir.tensor(np.asarray(number)))


def _parts(t: Value, y: Value) -> tuple[Value, ClipBounds] | None:
    """Return the tensor, and what both operators come to."""
    inner, outer = node_of(t), node_of(y)
    known = next((d for d in map(_given, (inner, outer)) if d is not None), None)
    x = _operand(inner)
    if x is None or constant_of(x) is not None or known not in TYPES:
        return None
    first, second = (_bounds(node, known) for node in (inner, outer))
    return None if first is None or second is None else (x, first.then(second))


def _operand(node: ir.Node) -> Value | None:
    """Return the operand that is not constant, where no other makes it bigger."""
    if node.op_type in UNARY:
        return node.inputs[0]
    if len(node.inputs) != 2:
        return None
    x, c = node.inputs if constant_of(node.inputs[1]) is not None else node.inputs[::-1]
    return None if x is None or c is None or widens(x, c) else x


def _given(node: ir.Node) -> ir.DataType | None:
    """Return the type of the numbers that a Min or a Max has."""
    tensors = [] if node.op_type in UNARY else [constant_of(value) for value in node.inputs]
    return next((tensor.dtype for tensor in tensors if tensor is not None), None)


def _bounds(node: ir.Node, dtype: ir.DataType) -> ClipBounds | None:
    if node.op_type in UNARY:
        found = clip_bounds_of(node, dtype)
        return found if found is not None and found.dtype is dtype else None
    x = _operand(node)
    numbers = [constant_of(value) for value in node.inputs if value is not x]
    tensor = numbers[0] if len(numbers) == 1 else None
    if x is None or tensor is None or tensor.dtype is not dtype or tensor.size != 1:
        return None
    number, whole = tensor.numpy().reshape(-1)[0], _open(dtype)
    if number != number:
        return None
    low, high = (number, whole.high) if node.op_type == "Max" else (whole.low, number)
    return ClipBounds(low, high, dtype)


def _open(dtype: ir.DataType) -> ClipBounds:
    """Return the bounds that leave every number as it is."""
    whole, kind = ClipBounds.all_of(dtype), dtype.numpy().type
    return (
        ClipBounds(kind(-np.inf), kind(np.inf), dtype) if dtype.is_floating_point() else whole
    )
