"""Operators that a step may choose from, by their descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import onnx

from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.operator_class import operators
from onnx_passes.ops.reduction import Reduce


@cache
def of_elements(
    operands: int, dtype: str, *, compares: bool = False, given: bool = False
) -> tuple[str, ...]:
    """Return the elementwise operators of some form.

    Args:
        operands: How many they take.
        dtype: A type that they take, as ONNX names it: ``float``.
        compares: Whether their result is a boolean, where the operands are numbers.
        given: Whether the formula takes attributes; without it, only operators that have no
            attribute are returned.
    """
    return tuple(
        operator.op_type
        for operator, schema in _described()
        if isinstance(operator, Elementwise)
        and schema.min_input == schema.max_input == operands
        and f"tensor({dtype})" in schema.inputs[0].types
        and operator.boolean == compares
        and bool(operator.attributes) == given == bool(schema.attributes)
    )


@cache
def numbers_of(op_type: str) -> tuple[str, ...]:
    """Return the attributes of an elementwise operator that its formula takes."""
    return next(
        tuple(name for name, _ in operator.attributes)
        for operator in operators()
        if operator.op_type == op_type and isinstance(operator, Elementwise)
    )


@cache
def reductions() -> tuple[str, ...]:
    """Return the reductions that take axes."""
    return tuple(o.op_type for o, _ in _described() if isinstance(o, Reduce))


def _described() -> Iterator[tuple[object, onnx.defs.OpSchema]]:
    # In one order, whatever was imported first: a recipe's seed draws from them.
    for operator in sorted(operators(), key=lambda known: known.op_type):
        if not operator.domain and onnx.defs.has(operator.op_type):
            yield operator, onnx.defs.get_schema(operator.op_type)
