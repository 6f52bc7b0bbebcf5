"""What patterns consist of, and what rules check on the values and nodes that they matched.

It covers operands in either order, exact numbers, and the constants of activation functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir, pattern

from onnx_passes.arrays import Array, FloatLimits, float_limits
from onnx_passes.passes.base import MatchContext, Op, Var
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of

FLOATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""The types that linear layers compute in."""


def node_of(value: ir.Value) -> ir.Node:
    """Return the node that computes a value, as the pattern says that one does."""
    node = value.producer()
    assert node is not None, "the pattern has matched a node"
    return node


def read_once(value: ir.Value) -> bool:
    """Whether one input of one node is all that reads a value."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def opset_at(context: MatchContext) -> int:
    """Return the opset of the main domain at a match; 0 where functions leave it unclear.

    A graph inside of a function has the opset of the function, which may differ from that of
    the model; the match does not say whose graph it is in.
    """
    model, place = context.model, context.graph_or_function
    imports = place.opset_imports if isinstance(place, ir.Function) else model.opset_imports
    if not isinstance(place, ir.Function) and place is not model.graph:
        functions = [f.opset_imports.get("", 0) for f in model.functions.values()]
        if {*functions} - {imports.get("", 0)}:
            return 0
    return int(imports.get("", 0))


_LAYER_NORMALIZATION = 17
"""The opset that brings the operator; before, engines look for its formula."""


def is_normalized(context: MatchContext, value: ir.Value) -> bool:
    """Whether a value is a quotient by a square root, as of a variance, in an old opset.

    ONNX Runtime replaces the formula of a normalization by an operator of its own, and then
    what is around it, such as an attention. It looks for quotient, scale and bias.
    """
    quotient = value.producer()
    if quotient is None or quotient.op_type != "Div":
        return False
    root = quotient.inputs[1]
    divisor = None if root is None else root.producer()
    return (
        divisor is not None
        and divisor.op_type == "Sqrt"
        and opset_at(context) < _LAYER_NORMALIZATION
    )


_SCORES = ("Add", "Reshape", "Transpose", "MatMul", "Div", "Add", "Softmax")
"""What follows the product of a query or key, up to the weights of an attention."""


def feeds_attention(value: ir.Value | None, opset: int) -> bool:
    """Whether engines replace the products of a value by an attention, in an old opset.

    ONNX Runtime does for query, key and value of one normalization, which is added to the
    result, if scores are divided by a number and a mask is added. It knows the mask by the
    attribute ``axes`` of its Unsqueeze, which is an input from opset 13 on.
    """
    if value is None or opset >= _AXES_AS_INPUT:
        return False
    readers = [node for node in value.consumers() if node.op_type != "Shape"]
    products = [node for node in readers if node.op_type == "MatMul"]
    kinds = sorted(node.op_type for node in readers)
    return kinds == ["Add", *["MatMul"] * 3] and any(map(_ends_in_softmax, products))


_AXES_AS_INPUT = 13


def _ends_in_softmax(node: ir.Node) -> bool:
    for operator in _SCORES:
        readers = [user for user in node.outputs[0].consumers() if user.op_type != "Shape"]
        if len(readers) != 1 or readers[0].op_type != operator:
            return False
        (node,) = readers
    return True


def wide(value: ir.Value | None) -> Array | None:
    """Return a constant of floats in double precision, None for anything else."""
    tensor = constant_of(value)
    if tensor is None or tensor.dtype not in FLOATS:
        return None
    return tensor.numpy().astype(np.float64)


def narrowed(array: Array, dtype: ir.DataType) -> Array | None:
    """Return numbers in a type of lower precision, None where they leave its range.

    Range here means that nothing becomes infinite, and nothing but zero becomes so small that
    digits are lost.
    """
    info = float_info(dtype)
    with np.errstate(all="ignore"):
        sizes = np.abs(array)
        fits = np.isfinite(array) & (sizes <= float(info.max))
        fits &= (sizes >= float(info.tiny)) | (array == 0)
        return array.astype(dtype.numpy()) if fits.all() else None


def keeps_digits(combined: Array, *terms: Array) -> bool:
    """Whether a sum of terms is at least half of each: they do not cancel each other.

    One that is added to something rounds it; one that cancels the first shows the digits that
    are left, which are not those of the sum at once.
    """
    return all((np.abs(combined) * 2 >= np.abs(term)).all() for term in terms)


def is_moderate(factors: Array, dtype: ir.DataType, root: int = 2) -> bool:
    """Whether ``root`` factors in a row stay within the range of a type, if they are not 0.

    Others hide or show what leaves the range between them, infinity for one.
    """
    sizes, limit = np.abs(factors), 2.0 ** (float_info(dtype).maxexp // root)
    return bool(((sizes <= limit) & ((sizes >= 1 / limit) | (sizes == 0))).all())


def float_info(dtype: ir.DataType) -> FloatLimits:
    """Return the limits of a type of floats, bfloat16 too."""
    return float_limits(dtype.numpy())


def scalar_of(value: ir.Value | None) -> float | None:
    """Return the one number that a constant of floats holds, whatever its rank."""
    array = wide(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


NEAR = 1e-6
"""Within this a pattern takes numbers: some roundings of a float. A guard decides."""

PRECISE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def commuted(op: Op, operator: str, a: Var, b: Var) -> Var:
    """Return the pattern of a binary operator with its operands in either order."""
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

    ``numbers`` are further apart than ``NEAR``; ``others`` are values that are not numbers of
    the formula.
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
    """
    if tensor is None or tensor.size != 1:
        return False
    if tensor.dtype.is_floating_point() and tensor.dtype not in PRECISE:
        return False
    array = tensor.numpy()
    return bool(np.all(array == np.array(number, array.dtype)))


def has_opset(context: MatchContext, version: int) -> bool:
    """Whether the operators of an opset may be used where a match is."""
    container, model = context.graph_or_function, context.model
    if isinstance(container, ir.Function) or container is model.graph:
        found = [container.opset_imports]
    else:
        # The body of a control-flow operator does not say which function it belongs to.
        found = [model.opset_imports, *(f.opset_imports for f in model.functions.values())]
    return all(imports.get("", 0) >= version for imports in found)


SINGLE_OR_HALF = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""Types of the operators that ONNX Runtime has for no other (HardSigmoid, LeakyRelu)."""

ROUNDING = 1e-6
"""How far a number may be from the one of a formula: what exporters round it by."""


def operand(x: ir.Value, c: ir.Value) -> float | None:
    """Return the number that each element of ``x`` meets in ``c``, None if it is not one."""
    number = scalar_of(c)
    return None if number is None or widens(x, c) else number


def attribute_of(x: ir.Value, c: ir.Value) -> float | None:
    """Return such a number if an attribute, which has 32 bits, can hold it."""
    number = operand(x, c)
    if number is None or not np.isfinite(number):
        return None
    with np.errstate(over="ignore"):
        return number if float(np.float32(number)) == number else None


def single_or_half(*values: ir.Value) -> bool:
    """Whether some constant or noted type says that values are of 32 or 16 bits."""
    found = [constant_of(value) or value for value in values]
    types = [f.dtype for f in found if f.dtype is not None]
    return bool(types) and types[0] in SINGLE_OR_HALF


def about(number: float | None, wanted: float) -> bool:
    """Whether a number is the wanted one up to what exporters round it by."""
    return number is not None and abs(number - wanted) <= ROUNDING * abs(wanted)


def holds(c: ir.Value, wanted: float) -> bool:
    """Whether a constant holds that one number, up to what exporters round it by."""
    return about(scalar_of(c), wanted)
