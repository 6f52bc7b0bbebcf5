"""Conditions of the algebraic laws of operators."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import elementwise  # noqa: F401 (makes operators known)
from onnx_passes.ops.elementwise import Variadic
from onnx_passes.ops.operator_class import Operator, kind_of, operators
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Value

LATTICES = (("And", "Or"), ("BitwiseAnd", "BitwiseOr"), ("Min", "Max"))
"""Operators that distribute over each other, and absorb each other."""

NEGATIONS = (("Not", *LATTICES[0], "Xor"), ("BitwiseNot", *LATTICES[1], "BitwiseXor"))
"""Negations, with the conjunction, disjunction and exclusive disjunction beside them."""


def commuting() -> Iterator[Operator]:
    """Yield elementwise operators of two operands whose order and grouping do not matter."""
    for operator in operators():
        commutes = operator.algebra.commutative or isinstance(operator, Variadic)
        if operator.elementwise and commutes and operator.algebra.associative:
            yield operator


def is_kind(kinds: str, *values: Value) -> bool:
    """Whether a value is known to be of one of some kinds of types, as ``kind_of`` names."""
    dtype = next((v.dtype for v in values if v.dtype is not None), None)
    return dtype is not None and kind_of(dtype) in kinds


def numbers(value: Value) -> Array | None:
    """Return a constant that is not empty; None for anything else."""
    tensor = constant_of(value)
    if tensor is None or not tensor.size or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()
