"""What patterns of formulas are made of: operands in either order, and exact numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir, pattern

from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import MatchContext, Op, Var

NEAR = 1e-6
"""Within this a pattern takes numbers: some roundings of a float. A guard decides."""

PRECISE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def commuted(op: Op, operator: str, a: Var, b: Var) -> Var:
    """Return the pattern of a binary operator with its operands in either order.

    Args:
        op: Builds patterns.
        operator: The operator.
        a: One operand.
        b: The other operand.
    """
    make = getattr(op, operator)
    return pattern.OrValue([make(a, b), make(b, a)])


def number(value: float) -> Var:
    """Return the pattern of a constant that is a number, of rank 0 or of one element.

    The guard calls :func:`spells` to make sure that it is that number and not one near it.
    """
    alternatives = (value, [value])
    return _Number([pattern.Constant(each, rel_tol=NEAR) for each in alternatives])


class _Number(_pattern_ir.BacktrackingOr, _pattern_ir.Var):
    """Alternatives that are values, as variables are.

    onnxscript lets a match read variables and constants of the graph around a body, yet no
    alternatives, whatever they are.
    """

    def clone(self, node_map: dict[Var, Var]) -> _Number:
        return _Number([value.clone(node_map) for value in self._values], self.name)


def spells(
    context: MatchContext, numbers: Sequence[float], x: ir.Value, *others: object
) -> bool:
    """Whether the constants of a match are the numbers of the formula, and do not widen ``x``.

    Args:
        context: Of the match.
        numbers: What its constants are meant to be, further apart than ``NEAR``.
        x: The variable of the formula.
        others: Values that are not numbers of the formula.
    """
    inputs = {value for node in context.nodes for value in node.inputs}
    for value in inputs - {x, *others}:
        tensor = constant_of(value)
        if tensor is None:
            if value is not None and value.const_value is not None:
                return False  # a number that the caller may override
            continue
        if len(tensor.shape) and widens(x, value):
            return False
        if not any(is_rounded(tensor, number) for number in numbers):
            return False
    return True


def is_rounded(tensor: ir.TensorProtocol | None, number: float) -> bool:
    """Whether a tensor's one element is a number, as its type rounds it.

    Types of less than single precision round numbers so much that a formula with them is
    another formula.

    Args:
        tensor: The constant; None if there is none.
        number: The number of the formula.
    """
    if tensor is None or tensor.size != 1:
        return False
    if tensor.dtype.is_floating_point() and tensor.dtype not in PRECISE:
        return False
    array = tensor.numpy()
    return bool(np.all(array == np.array(number, array.dtype)))


def has_opset(context: MatchContext, version: int) -> bool:
    """Whether the operators of an opset may be used where a match is.

    Args:
        context: The context of the match.
        version: The least opset of the main domain.
    """
    container, model = context.graph_or_function, context.model
    if isinstance(container, ir.Function) or container is model.graph:
        found = [container.opset_imports]
    else:
        # The body of a control-flow operator does not say which function it belongs to.
        found = [model.opset_imports, *(f.opset_imports for f in model.functions.values())]
    return all(imports.get("", 0) >= version for imports in found)
