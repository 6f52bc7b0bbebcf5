"""Laws of operators: expressions before and after, with operands in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import elementwise, logic  # noqa: F401 (makes operators known)
from onnx_passes.ops.base import Operator, kind_of, operators
from onnx_passes.ops.elementwise import Variadic
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value

LATTICES = (("And", "Or"), ("BitwiseAnd", "BitwiseOr"), ("Min", "Max"))
"""Operators of which each distributes over the other, and absorbs it."""

NEGATIONS = (("Not", *LATTICES[0], "Xor"), ("BitwiseNot", *LATTICES[1], "BitwiseXor"))
"""Negations, with the conjunction, disjunction and exclusive disjunction beside them."""

Term: TypeAlias = "str | Call"
"""A value by name, or an operator over terms."""

Values: TypeAlias = Mapping[str, Value]
"""The values of a match by name."""


@dataclass(frozen=True)
class Call:
    """An operator over one or two terms."""

    kind: str
    operands: tuple[Term, ...]

    def __str__(self) -> str:
        """Write it as it is written in models."""
        return f"{self.kind}({', '.join(map(str, self.operands))})"


def call(kind: str, *operands: Term) -> Call:
    """Return an operator over terms."""
    return Call(kind, operands)


@dataclass(frozen=True)
class Law:
    """What may stand in the place of an expression.

    Attributes:
        before: The expression.
        after: What stands there then, or what builds it.
        holds: Whether that is so for the values of a match; always where there is none.
    """

    before: Call
    after: Term | Callable[[Op, Values], Value]
    holds: Callable[[Values], bool] | None = None

    def orders(self) -> list[Law]:
        """Return it with the operands of each operator before in both orders."""
        key = _shape if self.holds is None else str
        found = {key(order): order for order in reversed(list(_orders(self.before)))}
        return [Law(order, self.after, self.holds) for order in reversed(found.values())]

    @property
    def pattern(self) -> Any:
        """The expression as a pattern, with its values as parameters."""
        names = _names(self.before)

        def pattern(op: Op, *values: Any) -> Any:
            return _build(op, self.before, dict(zip(names, values, strict=True)))

        parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in ("op", *names)]
        pattern.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return pattern

    def check(self, context: Any, **values: Value) -> bool:
        """Whether the law holds for the values of a match."""
        return self.holds is None or self.holds(values)

    def rewrite(self, op: Op, **values: Value) -> Any:
        """Build what stands in the place of a match."""
        if callable(self.after):
            return self.after(op, values)
        return _build(op, self.after, values)


class LawPass(Transformation, RewriteRuleSetPass):
    """A pass whose rules are laws, each with its own name and certificate."""

    def laws(self) -> Sequence[Law]:
        """Return the laws, in the order in which they are tried."""
        raise NotImplementedError

    def pattern(self) -> list[Any]:
        return [law.pattern for law in self.laws()]

    def check(self) -> list[Any]:
        return [law.check for law in self.laws()]

    def rewrite(self) -> list[Any]:
        return [law.rewrite for law in self.laws()]


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


def numbers(value: Value) -> np.ndarray[Any, np.dtype[Any]] | None:
    """Return a constant that is not empty; None for anything else."""
    tensor = constant_of(value)
    if tensor is None or not tensor.size or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()


def _build(op: Op, term: Term, values: Mapping[str, Any]) -> Any:
    if isinstance(term, str):
        return values[term]
    return getattr(op, term.kind)(*(_build(op, inner, values) for inner in term.operands))


def _names(term: Term) -> Sequence[str]:
    if isinstance(term, str):
        return (term,)
    return tuple(dict.fromkeys(name for inner in term.operands for name in _names(inner)))


def _orders(term: Term) -> Iterator[Any]:
    if isinstance(term, str):
        yield term
        return
    parts = [list(_orders(inner)) for inner in term.operands]
    if len(parts) == 1:
        yield from (Call(term.kind, (part,)) for part in parts[0])
        return
    for pair in ((a, b) for a in parts[0] for b in parts[1]):
        yield Call(term.kind, pair)
        yield Call(term.kind, pair[::-1])


def _shape(term: Term) -> str:
    """Write an expression with its values numbered, so that names do not matter."""
    text = str(term)
    for number, name in enumerate(_names(term)):
        text = text.replace(f"({name},", f"({number},").replace(f" {name})", f" {number})")
        text = text.replace(f"({name})", f"({number})")
    return text
