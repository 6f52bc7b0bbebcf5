"""Base classes of rewriting passes: rules as data, and operators that return their input.

A rule as data is an expression, conditions on its values, and the expression that replaces it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, Signature
from typing import Any, ClassVar, TypeAlias

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import opset_at
from onnx_passes.plain import PlainDict

Term: TypeAlias = "str | TermCall"
"""A value by name, or an operator over terms."""


class Values(dict[str, Value]):
    """The values of a match by name."""

    def __init__(self, context: MatchContext, values: Mapping[str, Value]) -> None:
        """Keep the values, and the context of the match."""
        super().__init__(values)
        self._context = context

    @property
    def opset(self) -> int:
        """The opset of the main domain at the match; 0 if functions leave it unclear."""
        return opset_at(self._context)


@dataclass(frozen=True)
class TermCall:
    """An operator over terms.

    ``result`` is its name among the values of a match, empty for none. With ``more``, it may
    have further operands.
    """

    kind: str
    operands: tuple[Term, ...]
    result: str = ""
    domain: str = ""
    more: bool = False

    def __str__(self) -> str:
        """Write it as it is written in models."""
        return f"{self.kind}({', '.join(map(str, self.operands))})"


def call(kind: str, *operands: Term, **further: Any) -> TermCall:
    """Return an operator over terms, with further attributes of ``TermCall``."""
    return TermCall(kind, operands, **further)


def always(values: Values) -> bool:
    """Find that a rule holds for all values."""
    return True


@dataclass(frozen=True)
class TermRule:
    """What may replace an expression.

    ``find`` returns what ``make`` needs, None for no match. ``since`` is the least opset; for
    ``name`` see ``Rule``.
    """

    before: TermCall
    find: Callable[[Values], object]
    make: Callable[[Op, Values, Any], Var]
    since: int = 0
    name: str = ""

    @property
    def pattern(self) -> Callable[..., Var]:
        """The expression as a pattern, with its values as parameters."""
        names = _names(self.before)

        def pattern(op: Op, *values: Var) -> Value:
            return _build(op, self.before, dict(zip(names, values, strict=True)))

        parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in ("op", *names)]
        pattern.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return pattern

    def found(self, values: Values) -> object:
        """Return what the replacement needs; None if the rule does not hold."""
        return None if self.since and values.opset < self.since else self.find(values)

    def orders(self) -> list[TermRule]:
        """Return it with the operands of each operator before in both orders."""
        key = _shape if self.find is always else str
        found = {key(order): order for order in reversed(list(_orders(self.before)))}
        return [replace(self, before=order) for order in reversed(found.values())]


def law(
    before: TermCall,
    after: Term,
    holds: Callable[[Values], bool] | None = None,
    since: int = 0,
    name: str = "",
) -> TermRule:
    """Return the rule that an expression equals another one, always or if something holds.

    ``holds`` says so of the values bound to names; None for always. ``since`` is the first
    opset that has the operators; for ``name`` see ``Rule``.
    """

    def make(op: Op, values: Values, found: object) -> Value:
        return _build(op, after, values)

    find = always if holds is None else lambda v: holds(v) or None
    return TermRule(before, find, make, since, name)


class RulePass(passes.Transformation, passes.RewriteRuleSetPass):
    """A pass whose rules are data, each with its own name and certificate."""

    def table(self) -> Sequence[TermRule]:
        """Return the rules, in the order in which they are tried."""
        raise NotImplementedError

    def rules(self) -> Iterator[Rule]:
        for rule in self.table():
            methods = partial(self._replaced, rule), partial(self._holds, rule)
            yield Rule(rule.pattern, *methods, rule.name)

    def _holds(self, rule: TermRule, context: MatchContext, **values: Value) -> bool:
        self._values = Values(context, values)
        self._found = rule.found(self._values)
        return self._found is not None

    def _replaced(self, rule: TermRule, op: Op, **values: Value) -> Value:
        # The driver asks about the same match right before.
        return rule.make(op, self._values, self._found)


def _build(op: Op, term: Term, values: Mapping[str, Var]) -> Value:
    if isinstance(term, str):
        return values[term]
    given: PlainDict = {"_domain": term.domain} if term.domain else {}
    if term.result:
        given["_outputs"] = [term.result]
    if term.more:
        given["_allow_other_inputs"] = True
    operands = (_build(op, inner, values) for inner in term.operands)
    return getattr(op, term.kind)(*operands, **given)


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
        yield from (replace(term, operands=(part,)) for part in parts[0])
        return
    for pair in ((a, b) for a in parts[0] for b in parts[1]):
        yield replace(term, operands=pair)
        yield replace(term, operands=pair[::-1])


def _shape(term: Term) -> str:
    """Write an expression with its values numbered, so that names do not matter."""
    text = str(term)
    for number, name in enumerate(_names(term)):
        text = text.replace(f"({name},", f"({number},").replace(f" {name})", f" {number})")
        text = text.replace(f"({name})", f"({number})")
    return text


class IdlePass(passes.Transformation, passes.RewriteRuleSetPass):
    """A pass that removes nodes of some operators where they do nothing.

    The operators are of the main domain.
    """

    needs = ("shape-inference",)
    operators: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the first output of a node is its first input, shape and all."""

    def rules(self) -> Iterator[Rule]:
        def idle(context: MatchContext, x: ir.Value, **_: object) -> bool:
            others = context.root.outputs[1:]
            read = any(value.uses() or value.is_graph_output() for value in others)
            return not read and self.is_idle(context.root, x)

        for name in self.operators:
            yield Rule(partial(_call, name), _first, idle, name)


def _call(operator: str, op: Op, x: Var) -> Var:
    """The pattern of a call of one operator with any further inputs."""
    return getattr(op, operator)(x, _allow_other_inputs=True)


def _first(op: Op, x: ir.Value, **_: object) -> ir.Value:
    return x
