"""What the fusions of activation functions ask of the numbers in them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.matches import scalar_of
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of

SINGLE_OR_HALF = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""Types of the operators that ONNX Runtime has for no other (HardSigmoid, LeakyRelu)."""

ROUNDING = 1e-6
"""How far a number may be from the one of a formula: what exporters round it by."""


def operand(x: ir.Value, c: ir.Value) -> float | None:
    """Return the number that each element of ``x`` meets in ``c``, None if it is not one.

    Args:
        x: The tensor.
        c: The other operand.
    """
    number = scalar_of(c)
    return None if number is None or widens(x, c) else number


def attribute_of(x: ir.Value, c: ir.Value) -> float | None:
    """Return such a number if an attribute, which has 32 bits, can hold it.

    Args:
        x: The tensor.
        c: The other operand.
    """
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
    """Whether a number is the wanted one up to what exporters round it by.

    Args:
        number: The number; None if there is none.
        wanted: The number of the formula.
    """
    return number is not None and abs(number - wanted) <= ROUNDING * abs(wanted)


def holds(c: ir.Value, wanted: float) -> bool:
    """Whether a constant holds that one number, up to what exporters round it by.

    Args:
        c: The constant.
        wanted: The number of the formula.
    """
    return about(scalar_of(c), wanted)
