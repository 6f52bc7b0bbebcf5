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

    ``dims`` is its shape, or with ``known`` its integers: terms with spaces between, each a
    product or quotient of numbers and of names of sizes, as in ``b h*d 2*e``. ``along`` is the
    axis along which known integers count, whose shape ``dims`` is. ``fill`` has one number for
    all elements (an infinity is the end of an integer type), ``mixed`` what each element is
    drawn from. With ``doubled``, the second half along the last axis repeats the first.
    Without ``dtype`` it has that of the model. ``node`` is an operator that computes it of the
    variables ``of``; without one, that is the variable that it is.
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
    """Return a constant of one of the numbers; ``dims`` are names of dimensions."""
    return (Spec(dims, fill=numbers, dtype=dtype),)


@dataclass(frozen=True)
class Hint:
    """What the operands and attributes of one rule may be.

    ``operands`` are by name of a variable. For inputs that the pattern leaves open, they are
    by name (or operator) of the node, a dot and the index. ``attributes`` are by operator, a
    dot and the name; None among the values leaves it out. Every second model has one of
    ``types``. ``since`` is the first opset that the guard admits. Each of the ``cases`` has
    what belongs together in one model.
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
