"""Booleans and integers modulo 2^n as z3 has them; the base of the arithmetics on floats."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.ops.domains.z3_module import Term, z3
from onnx_passes.ops.semantics import (
    Scalar,
    Semantics,
    Unsupported,
    is_float,
    is_integer,
)


class Z3Semantics(Semantics):
    """Booleans as z3 Bool and integers as bit-vectors; floats are left to subclasses."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        if dtype == ir.DataType.BOOL:
            return z3().BoolVal(bool(value))
        if is_integer(dtype):
            return z3().BitVecVal(int(value), dtype.bitwidth)
        if is_float(dtype):
            return self.float_literal(float(value), dtype)
        raise Unsupported(f"values of type {dtype.name}")

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return z3().Const(name, self.sort(dtype))

    def sort(self, dtype: ir.DataType) -> Term:
        """Return the z3 sort of a type."""
        if dtype == ir.DataType.BOOL:
            return z3().BoolSort()
        if is_integer(dtype):
            return z3().BitVecSort(dtype.bitwidth)
        if is_float(dtype):
            return self.float_sort(dtype)
        raise Unsupported(f"values of type {dtype.name}")

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        solver = z3()
        scalar = solver.simplify(scalar)
        if solver.is_true(scalar) or solver.is_false(scalar):
            return bool(solver.is_true(scalar))
        if solver.is_bv_value(scalar):
            signed = dtype.is_signed()
            return int(scalar.as_signed_long() if signed else scalar.as_long())
        if is_float(dtype):
            return self.float_number(scalar)
        return None

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        solver = z3()
        sorts = [*(a.sort() for a in args), self.sort(dtype)]
        return solver.Function(f"{name}:{len(args)}", *sorts)(*args)

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if name == "select":
            return z3().If(*args)
        if dtype == ir.DataType.BOOL:
            return self.on_booleans(name, *args)
        if is_integer(dtype):
            return self.on_integers(name, dtype.is_signed(), *args)
        if is_float(dtype):
            return self.on_floats(name, dtype, *args)
        raise Unsupported(f"{name} on {dtype.name}")

    def on_booleans(self, name: str, *args: Scalar) -> Scalar:
        """Apply a primitive to booleans."""
        solver = z3()
        match name:
            case "and":
                return solver.And(*args)
            case "or":
                return solver.Or(*args)
            case "xor":
                return solver.Xor(*args)
            case "not":
                return solver.Not(*args)
            case "equal":
                return args[0] == args[1]
        raise Unsupported(f"{name} on booleans")

    def on_integers(self, name: str, signed: bool, *args: Scalar) -> Scalar:
        """Apply a primitive to bit-vectors; arithmetic is modulo 2^n.

        Args:
            name: The primitive.
            signed: Whether the integers are signed.
            *args: The operands, bit-vectors of one width.
        """
        result = _integer_arithmetic(name, signed, args)
        if result is None:
            result = _integer_order(name, signed, args)
        if result is None:
            raise Unsupported(f"{name} on integers")
        if name in ("div", "mod", "fmod"):
            self._defined_division(result, signed, *args)
        return result

    def _defined_division(self, result: Scalar, signed: bool, x: Scalar, y: Scalar) -> None:
        solver = z3()
        zero = solver.BitVecVal(0, x.size())
        self.defined.append((result, y != zero))
        if signed:
            least = solver.BitVecVal(1 << (x.size() - 1), x.size())
            minus_one = solver.BitVecVal(-1, x.size())
            overflows = solver.And(x == least, y == minus_one)
            self.defined.append((result, solver.Not(overflows)))

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        solver = z3()
        if source == target:
            return scalar
        if is_float(source) or is_float(target):
            return self.float_cast(scalar, source, target)
        if target == ir.DataType.BOOL:
            return scalar != self.literal(0, source)
        if source == ir.DataType.BOOL:
            return solver.If(scalar, self.literal(1, target), self.literal(0, target))
        more = target.bitwidth - source.bitwidth
        if more <= 0:
            return solver.Extract(target.bitwidth - 1, 0, scalar) if more else scalar
        extend = solver.SignExt if source.is_signed() else solver.ZeroExt
        return extend(more, scalar)

    @abc.abstractmethod
    def float_literal(self, value: float, dtype: ir.DataType) -> Scalar:
        """Return the scalar of a float.

        Args:
            value: The number.
            dtype: Its float type.
        """

    @abc.abstractmethod
    def float_sort(self, dtype: ir.DataType) -> Term:
        """Return the z3 sort that represents a float type."""

    @abc.abstractmethod
    def float_number(self, scalar: Scalar) -> float | None:
        """Return the float that a simplified term is."""

    @abc.abstractmethod
    def on_floats(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Apply a primitive to floats.

        Args:
            name: The primitive.
            dtype: Float type of the operands.
            *args: The operands.
        """

    @abc.abstractmethod
    def float_cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        """Convert from or to a float type.

        Args:
            scalar: The number to convert.
            source: Its element type.
            target: Element type of the result.
        """


def _integer_arithmetic(name: str, signed: bool, args: Sequence[Scalar]) -> Scalar | None:
    solver = z3()
    match name, *args:
        case "add", x, y:
            return x + y
        case "sub", x, y:
            return x - y
        case "mul", x, y:
            return x * y
        case "neg", x:
            return -x
        case "div", x, y:
            # z3's / on bit-vectors is the signed division that truncates, as ONNX asks.
            return x / y if signed else solver.UDiv(x, y)
        case "mod", x, y:
            # Mod takes the sign of the divisor, Mod with fmod=1 that of the dividend.
            return x % y if signed else solver.URem(x, y)
        case "fmod", x, y:
            return solver.SRem(x, y) if signed else solver.URem(x, y)
        case "bit_and", x, y:
            return x & y
        case "bit_or", x, y:
            return x | y
        case "bit_xor", x, y:
            return x ^ y
        case "bit_not", x:
            return ~x
        case "shift_left", x, y:
            # Both shifts give 0 beyond the width in z3 and in ONNX Runtime.
            return x << y
        case "shift_right", x, y:
            return solver.LShR(x, y)
    return None


def _integer_order(name: str, signed: bool, args: Sequence[Scalar]) -> Scalar | None:
    solver = z3()

    def less(x: Scalar, y: Scalar) -> Scalar:
        return x < y if signed else solver.ULT(x, y)

    match name, *args:
        case "equal", x, y:
            return x == y
        case "less", x, y:
            return less(x, y)
        case "less_equal", x, y:
            return solver.Not(less(y, x))
        case "max", x, y:
            return solver.If(less(x, y), y, x)
        case "min", x, y:
            return solver.If(less(y, x), y, x)
        case "relu", x:
            return solver.If(less(x, x - x), x - x, x) if signed else x
        case "clip", x, low, high:
            # Where the bounds cross, the upper one wins.
            raised = x if low is None else solver.If(less(x, low), low, x)
            return raised if high is None else solver.If(less(high, raised), high, raised)
        case "abs", x:
            return solver.If(less(x, x - x), -x, x) if signed else x
        case "sign", x:
            zero, one = solver.BitVecVal(0, x.size()), solver.BitVecVal(1, x.size())
            positive = solver.If(x == zero, zero, one)
            return solver.If(less(x, zero), -one, positive) if signed else positive
        case (("floor" | "ceil" | "round"), x):
            return x
    return None
