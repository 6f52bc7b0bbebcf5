"""Hints: what operands the patterns of a pass need before its guards can admit a model.

A pattern says which nodes there are; what fits them (queries and keys of one width, a target
of Reshape that is that of a group) only its guard knows. A hint says it as data, for the
generator of ``certify`` alone. A pass has them as its ``hints``, by the names of its rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import onnx_ir as ir

from onnx_passes.plain import PlainMapping


@dataclass(frozen=True, slots=True)
class Spec:
    """One operand.

    Attributes:
        dims: Its shape, or with ``known`` its integers: terms with spaces between, each a
            product or quotient of numbers and of names of sizes, as in ``b h*d 2*e``.
        known: Whether ``dims`` are its elements.
        fill: What a constant is filled with, one number for all elements; for integers, an
            infinity is the end of their type.
        mixed: What each element of a constant is drawn from.
        doubled: Whether the second half of a constant along the last axis is the first again.
        along: The axis along which elements of known integers count, whose shape ``dims`` is.
        dtype: Its type; None for that of the model.
        node: An operator that computes it.
        of: The variables that this operator reads; without one, the variable that it is.
        attributes: Of the operator.
    """

    dims: str = ""
    known: bool = False
    fill: tuple[float, ...] = ()
    mixed: tuple[float, ...] = ()
    doubled: bool = False
    along: int | None = None
    dtype: ir.DataType | None = None
    node: str = ""
    of: tuple[str, ...] = ()
    attributes: PlainMapping = field(default_factory=dict)


Specs: TypeAlias = tuple[Spec, ...]


def data(*dims: str) -> Specs:
    """Return operands of the model's type, of any of several shapes."""
    return tuple(Spec(d) for d in dims)


def ints(*values: str) -> Specs:
    """Return constants of known integers."""
    return tuple(Spec(v, known=True) for v in values)


def filled(dims: str, *numbers: float, dtype: ir.DataType | None = None) -> Specs:
    """Return a constant of one number.

    Args:
        dims: The shape, as names of dimensions.
        *numbers: The numbers to choose from.
        dtype: Element type; None to leave it open.
    """
    return (Spec(dims, fill=numbers, dtype=dtype),)


@dataclass(frozen=True)
class Hint:
    """What the operands and attributes of one rule may be.

    Attributes:
        operands: By name of a variable, or, for inputs that the pattern leaves open, by name
            (or operator) of the node, a dot, and the index of the input.
        attributes: By operator, a dot, and the name; None among the values leaves it out.
        types: Element types that every second model is of.
        since: The first opset that the guard admits.
        cases: Operands and attributes that belong together, one case for each model.
    """

    operands: Mapping[str, Specs]
    attributes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    types: tuple[ir.DataType, ...] = ()
    since: int = 1
    cases: tuple[Hint, ...] = ()

    def joined(self, case: Hint) -> Hint:
        """Return what this hint says together with one of its cases."""
        return replace(
            self,
            operands={**self.operands, **case.operands},
            attributes={**self.attributes, **case.attributes},
            cases=(),
        )


Hints: TypeAlias = Mapping[str, Hint]
"""Hints by the name of a rule, which holds in all orders of its operands and for all rules of
this name. That of ``*`` is for the rules that have none of their own.
"""
