"""Floats as elements of the finite field of 2^31 - 1 elements.

Two polynomials of degree d that differ agree at a random point with probability at most d/p
(Schwartz and Zippel). Agreement at random points is therefore strong evidence, shape by
shape, that two graphs of sums and products are equal over every commutative ring. It is
evidence, not proof, and is reported as tested.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction

import onnx_ir as ir

from onnx_passes.ops.semantics import Scalar, Semantics, Unsupported, is_float

PRIME = (1 << 31) - 1


class FieldSemantics(Semantics):
    """Floats modulo a prime, at a random point; integers and booleans as Python numbers.

    Whatever is not polynomial (comparisons, transcendental functions) is a random function: a
    hash of its name and arguments. Equal arguments give equal results, and nothing else is
    assumed.
    """

    def __init__(self, seed: int) -> None:
        """Fix the point at which all unknowns are evaluated."""
        super().__init__()
        self._seed = seed

    def _random(self, *key: object) -> int:
        text = repr((self._seed, key)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") % PRIME

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        if not is_float(dtype):
            return value
        try:
            exact = Fraction(value)
        except (OverflowError, ValueError):
            raise Unsupported(f"the constant {value} in a finite field") from None
        return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        if not is_float(dtype):
            raise Unsupported(f"unknowns of type {dtype.name} in a finite field")
        return self._random("variable", name)

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return None if is_float(dtype) else scalar

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if not is_float(dtype):
            raise Unsupported(f"{name} in a finite field")
        return self._random("function", name, *args)

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if is_float(source) and is_float(target):
            return scalar
        if is_float(source):
            raise Unsupported(f"a cast to {target.name} in a finite field")
        return self.literal(scalar, target)

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if not is_float(dtype):
            return _on_numbers(name, *args)
        match name, *args:
            case "add", x, y:
                return (x + y) % PRIME
            case "sub", x, y:
                return (x - y) % PRIME
            case "mul", x, y:
                return x * y % PRIME
            case "neg", x:
                return -x % PRIME
            case "div", x, y if y % PRIME:
                return x * pow(y, -1, PRIME) % PRIME
            case (("max" | "min"), x, y):
                return self._random(name, *sorted((x, y)))
            case (("select" | "less" | "less_equal" | "equal"), *_):
                raise Unsupported(f"{name} in a finite field")
        return self._random(name, *args)


def _on_numbers(name: str, *args: Scalar) -> Scalar:
    match name, *args:
        case "add", x, y:
            return x + y
        case "sub", x, y:
            return x - y
        case "mul", x, y:
            return x * y
        case "equal", x, y:
            return x == y
        case "not", x:
            return not x
        case "select", condition, x, y:
            return x if condition else y
    raise Unsupported(f"{name} of numbers in a finite field")
