"""What a model says of shapes: dimensions, axes, and integers of shape arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.sizes import (
    EMPTY,
    INTEGERS,
    MAX_ELEMENTS,
    RANGES,
    KnownTensor,
    SizeSemantics,
    unknown,
)
from onnx_passes.ops.operator_class import Operator, operator_of
from onnx_passes.ops.semantics import MALFORMED, Unsupported, scalars
from onnx_passes.passes.constants import constant_of

INT_MAX = 2**31 - 1
"""From here on, an end of a Slice means "to the end"."""

Dim = int | str | None


def dims_of(value: ir.Value | None) -> list[Dim] | None:
    """Return the dimensions of a value: sizes, names, or None for an unknown one.

    Two dimensions of one name are equal: shape-inference has seen to that.
    """
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def sizes_of(value: ir.Value | None) -> list[int] | None:
    """Return the dimensions of a value, if all are numbers."""
    dims = dims_of(value)
    if dims is None:
        return None
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return sizes if len(sizes) == len(dims) else None


def ints_of(value: ir.Value | None) -> list[int] | None:
    """Return the elements of a constant of integers, of rank 0 or 1."""
    tensor = constant_of(value)
    if tensor is None or len(tensor.shape) > 1 or not tensor.dtype.is_integer():
        return None
    return [int(number) for number in np.atleast_1d(tensor.numpy())]


def widens(value: ir.Value | None, other: ir.Value | None) -> bool:
    """Whether broadcasting with ``other`` may give a value another shape than its own."""
    mine, theirs = dims_of(value), dims_of(other)
    if theirs is None:
        tensor = constant_of(other)
        theirs = None if tensor is None else [int(d) for d in tensor.shape.numpy()]
    if theirs == []:
        return False
    if mine is None or theirs is None or len(theirs) > len(mine):
        return True
    pairs = zip(reversed(mine), reversed(theirs), strict=False)
    return any(b != 1 and (b is None or a != b) for a, b in pairs)


def is_shape_of(shape: ir.Value | None, value: ir.Value | None) -> bool:
    """Whether ``shape`` is computed as the whole shape of ``value``."""
    node = shape.producer() if shape is not None else None
    return (
        node is not None
        and (node.domain, node.op_type) == ("", "Shape")
        and not node.attributes
        and node.inputs[0] is value
        and value is not None
    )


def axes_of(node: ir.Node) -> list[int] | None:
    """Return the axes that a node names, as they are; None if it computes or names none.

    They are an attribute, or the second input in later opsets.
    """
    if "axis" in node.attributes:
        return [node.attributes.get_int("axis") or 0]
    if "axes" in node.attributes:
        return list(node.attributes.get_ints("axes") or ()) or None
    return (ints_of(node.inputs[1]) or None) if len(node.inputs) > 1 else None


def rank_of(value: ir.Value | None) -> int | None:
    """Return the rank of a value, if it is known."""
    dims = dims_of(value)
    return None if dims is None else len(dims)


def counted(axes: Iterable[int] | None, rank: int | None) -> list[int] | None:
    """Return axes counted from the front, in order.

    None where that takes a rank that is not known, and where an axis is named twice.
    """
    if axes is None:
        return None
    found = list(axes)
    if rank is None and min(found, default=0) < 0:
        return None
    front = sorted(axis + (rank or 0) if axis < 0 else axis for axis in found)
    return front if len(set(front)) == len(front) else None


def beyond(taken: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Return where axes of a tensor lie in one that has the axes ``taken`` besides them.

    ``axes`` are those of the smaller tensor, from the front.
    """
    places = (k for k in range(len(taken) + max(axes, default=-1) + 1) if k not in taken)
    all_places = list(places)
    return [all_places[axis] for axis in axes]


_SIZES = SizeSemantics()
_FLOATS = frozenset(d for d in ir.DataType if d.is_floating_point() and d not in RANGES)
"""Types whose values cannot be known, whatever computes them."""


class Knowledge:
    """What is known of the values of a model, filled node by node in topological order."""

    def __init__(self, imports: Mapping[str, int]) -> None:
        """Know nothing yet."""
        self._imports = imports
        self._opset = imports.get("", 1)
        self._found: dict[ir.Value, KnownTensor] = {}
        self._constants: dict[ir.Value, KnownTensor] = {}
        self._operators: dict[tuple[str, str], Operator | None] = {}

    def anew(self) -> Knowledge:
        """Return one that knows the constants of the same model, and nothing else."""
        other = Knowledge(self._imports)
        other._constants, other._operators = self._constants, self._operators
        return other

    def of(self, value: ir.Value | None) -> KnownTensor | None:
        """Return what is known of a value; a constant is known in full."""
        if value is None:
            return None
        found = self._found.get(value)
        if found is not None:
            return found
        found = self._constants.get(value)
        if found is None:
            found = _constant(value)
            if found is not None:  # else it may be folded yet
                self._constants[value] = found
        return found

    def visit(self, node: ir.Node) -> KnownTensor | None:
        """Find out what is known of a node's only output."""
        known = self._evaluated(node)
        if known is None or len(known.elements) > MAX_ELEMENTS:
            return None
        low, high = RANGES[known.dtype]
        # What overflows wraps around: none of the rules may go on from it.
        elements = tuple(
            None if isinstance(e, int) and not low <= e <= high else e for e in known.elements
        )
        self._found[node.outputs[0]] = known = KnownTensor(elements, known.rank, known.dtype)
        return known

    def _evaluated(self, node: ir.Node) -> KnownTensor | None:
        operator, sources = self._operator(node), node.inputs
        if operator is None or len(node.outputs) != 1 or node.outputs[0].dtype in _FLOATS:
            return None
        if not sources:
            return None  # what nodes hold is known as it is
        inputs: list[Tensor | None] = []
        for value in sources:  # nearly all nodes have an unknown one
            operand = self._operand(value, operator)
            if operand is None and value is not None:
                return None
            inputs.append(operand)
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return None
        try:
            found = operator.evaluate(Call(node, inputs, _SIZES, self._opset))
        except (Unsupported, *MALFORMED):
            return None
        result = found if isinstance(found, Tensor) else None
        if result is None or result.dtype not in RANGES or result.data.ndim > 1:
            return None
        elements = tuple(result.data.reshape(-1))
        if elements and all(element is None for element in elements):
            return None
        return KnownTensor(elements, result.data.ndim, result.dtype)

    def _operator(self, node: ir.Node) -> Operator | None:
        """Return the description of the operator of a node, if it says what is computed."""
        key = (node.domain, node.op_type)
        if key not in self._operators:
            found = operator_of(node, self._opset)
            self._operators[key] = found if found is not None and found.evaluates else None
        return self._operators[key]

    def _operand(self, value: ir.Value | None, operator: Operator) -> Tensor | None:
        """Return what is known of an operand; None if it is left out, or not known at all."""
        if value is None:
            return None
        if operator.reads_sizes:
            return Tensor(EMPTY, value.dtype or ir.DataType.UNDEFINED)
        if value.dtype in _FLOATS:
            return None
        known = self.of(value)
        if known is not None:
            shape = (len(known.elements),) if known.rank else ()
            return Tensor(scalars(known.elements, shape), known.dtype)
        shape_known = value.shape is not None and len(value.shape) == 1
        size = value.shape[0] if shape_known and value.shape is not None else None
        if value.dtype not in INTEGERS or not isinstance(size, int) or size > MAX_ELEMENTS:
            return None
        return Tensor(unknown(size), value.dtype)

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a value, if all are known."""
        known = self.of(value)
        return None if known is None else known.numbers

    def axes(self, node: ir.Node) -> list[int] | None:
        """Return the axes of Squeeze or Unsqueeze; an input since opset 13."""
        if self._opset < 13:
            attribute = node.attributes.get("axes")
            return list(attribute.as_ints()) if attribute is not None else None
        return self.numbers(node.inputs[1] if len(node.inputs) > 1 else None)


def _constant(value: ir.Value) -> KnownTensor | None:
    tensor = constant_of(value)
    if tensor is None or tensor.dtype not in (*INTEGERS, ir.DataType.BOOL):
        return None
    rank = len(tensor.shape)
    if rank > 1 or tensor.size > MAX_ELEMENTS:
        return None
    elements = tuple(int(e) for e in tensor.numpy().reshape(-1))
    return KnownTensor(elements, rank, tensor.dtype)
