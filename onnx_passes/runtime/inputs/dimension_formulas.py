"""Names of dynamic dimensions that are formulas, such as ``floor(height/2 - 1/2)``.

A model may hold any text. Time and memory grow with its length alone: each character is read
once, nothing recurs, and no number grows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import add, floordiv, mod, mul, neg, sub, truediv

from onnx_passes.model.load import LONGEST

_LARGEST = 1 << 63  # of numerators and denominators
_STEEPEST = 64  # of exponents
_NEGATION = 3  # stronger than a product and weaker than a power, as in Python

_TOKEN = re.compile(
    r"(?:(?P<open>(?:[^\W\d][\w.]*+\s*+)?\()|(?P<name>[^\W\d][\w.]*+)"
    r"|(?P<number>[0-9]{1,18}+(?![\w.]))|(?P<sign>\*\*|//|[-+*/%])|(?P<end>[,)]))\s*+"
)
_OPERANDS = ("open", "name", "number")
"""What operands begin with."""

_Compute = Callable[..., Fraction | int | None]


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1 or abs(exponent) > _STEEPEST:
        return None
    return Fraction(base**exponent.numerator)


def _root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


def _largest(*values: Fraction) -> Fraction:
    return max(values)


def _smallest(*values: Fraction) -> Fraction:
    return min(values)


_BETWEEN: Mapping[str, tuple[int, _Compute]] = {
    "+": (1, add),
    "-": (1, sub),
    "*": (2, mul),
    "/": (2, truediv),
    "//": (2, floordiv),
    "%": (2, mod),
    "**": (4, _power),
}
"""Operators, and how strongly each holds its operands."""
_FUNCTIONS: Mapping[str, _Compute] = {
    "max": _largest,
    "min": _smallest,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "mod": mod,
    "sqrt": _root,
}


@dataclass
class _Operation:
    """What is computed of the last values.

    Attributes:
        strength: How strongly it holds its operands; 0 if these stand in parentheses.
        compute: Computes it; None for parentheses alone.
        count: How many operands.
    """

    strength: int
    compute: _Compute | None
    count: int


def size_of(dim: int | str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a dimension; None if it is not determined by ``sizes``.

    Args:
        dim: A size, or the name or formula of a dynamic dimension.
        sizes: Sizes of dynamic dimensions by name.
    """
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    values: list[Fraction] = []
    for step in _parse(dim):
        found: Fraction | int | None = None
        if isinstance(step, str):
            found = sizes.get(step)
        elif isinstance(step, int):
            found = step
        elif step.compute is not None:
            operands = values[-step.count :]
            del values[-step.count :]
            with suppress(ZeroDivisionError, TypeError):  # TypeError: other operands
                found = step.compute(*operands)
        if found is None:
            return None
        value = Fraction(found)
        if max(abs(value.numerator), value.denominator) > _LARGEST:
            return None
        values.append(value)
    whole = len(values) == 1 and values[0].denominator == 1 and values[0] >= 0
    return values[0].numerator if whole else None


def names_in(dim: str) -> list[str]:
    """Return the names that a dimension is a formula of; its own if it is not a formula.

    Args:
        dim: The name or formula.
    """
    return sorted({step for step in _parse(dim) if isinstance(step, str)}) or [dim]


@lru_cache(maxsize=4096)
def _parse(formula: str) -> tuple[int | str | _Operation, ...]:
    """Return a formula of names, each operation after its operands; () for other texts."""
    steps: list[int | str | _Operation] = []
    waiting: list[_Operation] = []  # those whose last operand has not ended
    place, ended = 0, False  # whether an operand ends here
    text = formula.strip() if len(formula) <= LONGEST else ""
    while place < len(text):
        token = _TOKEN.match(text, place)
        kind = token.lastgroup if token is not None else None
        if token is None or kind is None:
            return ()
        found, place = token[kind], token.end()
        if found == "-" and not ended:
            waiting.append(_Operation(_NEGATION, neg, 1))
            continue
        if ended is (kind in _OPERANDS):
            return ()
        if kind == "open":
            name = found[:-1].strip().lower()
            if name and name not in _FUNCTIONS:
                return ()
            waiting.append(_Operation(0, _FUNCTIONS.get(name), 1))
        elif kind == "name":
            steps.append(found)
        elif kind == "number":
            steps.append(int(found))
        else:
            strength, compute = _BETWEEN.get(found, (1, None))
            while waiting and waiting[-1].strength >= strength + (found == "**"):
                steps.append(waiting.pop())
            if compute is not None:
                waiting.append(_Operation(strength, compute, 2))
            elif not waiting or (found == "," and waiting[-1].compute is None):
                return ()
            elif found == ",":
                waiting[-1].count += 1
            elif (call := waiting.pop()).compute is not None:
                steps.append(call)
        ended = kind in ("name", "number") or found == ")"
    steps += reversed(waiting)
    complete = ended and all(operation.strength for operation in waiting)
    # A text of numbers alone, as "3", is a name: engines do not read it as a size.
    return tuple(steps) if complete and any(isinstance(s, str) for s in steps) else ()
