"""An arithmetic that forgets numbers: what is left of an evaluation is its shapes."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.semantics import Scalar, Semantics

UNKNOWN = object()


class ShapeSemantics(Semantics):
    """Constants stay, so that axes and shapes can be read; everything else is unknown."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return value

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return UNKNOWN

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return None if scalar is UNKNOWN else scalar

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return UNKNOWN

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if scalar is UNKNOWN or not target.is_integer():
            return scalar
        return int(scalar)

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return UNKNOWN
