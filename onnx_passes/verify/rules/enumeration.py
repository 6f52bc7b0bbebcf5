"""What is tried of every pattern before anything is left to chance: ranks, types, opsets."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.ops.base import find
from onnx_passes.verify.rules.operands import Shape
from onnx_passes.verify.rules.schemas import OPSETS, fits, operator_in, schema_of

RANKS = range(5)
"""Ranks that each operand is tried with; a pattern or guard may admit fewer."""

_PRODUCT = 125
"""Combinations of ranks up to which all are tried; of more, one operand differs at a time."""

_DRAWS = 4
"""Models that are drawn for one plan."""

_MORE, _ENOUGH = 100, 40
"""Models that are drawn where many do not fit, and those that fire after which it ends."""

_FEW = 3
_VARIADIC = 1000
_SQUARE: Shape = (4, 4)

EDGES: tuple[Shape, ...] = (
    *((0,), (1,), (0, 3), (2, 0), (1, 1), (2, 0, 3), (2, 1, 3), (0, 2, 3), (4, 5)),
)
"""Shapes with axes that authors forget."""

Ranks: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """What one model is to have; all else is drawn.

    Attributes:
        ranks: Ranks by name of an operand of the pattern.
        dtype: The element type; None for any.
        opset: The opset; None for any.
        edge: A shape that all data have, with axes of size 0 or 1; None for any.
        full: Operators that have all the optional inputs that the pattern leaves open, and
            others none; empty for any number of them.
        draws: How many models are drawn for it.
        enough: Models on which the rule fires that are enough.
    """

    ranks: Ranks = field(default_factory=dict)
    dtype: ir.DataType | None = None
    opset: int | None = None
    edge: Shape | None = None
    full: tuple[str, ...] = ()
    draws: int = _DRAWS
    enough: int = 1


def plans_of(rule: RewriteRule, types: Sequence[ir.DataType], since: int = 1) -> list[Plan]:
    """Return what the templates of a rule are to have, in an order that repeats.

    Ranks first, since a rule that forgets one is wrong on all types; then axes of size 0 and
    1, each element type and each opset.

    Args:
        rule: The rule, whose pattern names the operands.
        types: Element types, each tried once.
        since: The first opset that its guard admits, if a hint says so.
    """
    ranks = [Plan(ranks=profile) for profile in rank_profiles(operand_names(rule))]
    opsets = [o for o in sorted(set(OPSETS)) if fits(rule._target_pattern, o)]
    opsets = [o for o in opsets if o >= since] or opsets
    edges = EDGES if operand_names(rule) else ()
    nodes: list[Any] = list(rule._target_pattern)
    more = [Plan(full=f, draws=_MORE, enough=_ENOUGH) for f in choices_of_inputs(rule)]
    if sum(map(_is_steered, nodes)) > 1:
        # Shapes and places that must fit one another do so for few draws of many.
        more.append(Plan(edge=_SQUARE, draws=3 * _MORE, enough=2 * _ENOUGH))
    return [
        *ranks,
        *(Plan(edge=edge, enough=_DRAWS) for edge in edges),
        *(Plan(dtype=dtype) for dtype in dict.fromkeys(types)),
        *(Plan(opset=opset) for opset in opsets),
        *more,
    ]


def few_types(rule: RewriteRule, types: Sequence[ir.DataType]) -> tuple[ir.DataType, ...]:
    """Return the element types that an operator of a pattern takes, if they are but a few."""
    found = list(dict.fromkeys(types))
    for node in rule._target_pattern:
        identifier = operator_in(node)
        schema = None if identifier is None else schema_of(identifier[1], max(OPSETS))
        if schema is not None and schema.inputs and node.inputs:
            # Of Where, say, the first operand is a condition.
            known = max((formal.types for formal in schema.inputs), key=len)
            fitting = [t for t in found if f"tensor({t.name.lower()})" in known]
            found = fitting or found
    return tuple(found) if len(found) <= _FEW else ()


def choices_of_inputs(rule: RewriteRule) -> list[tuple[str, ...]]:
    """Return which operators of a pattern may have the inputs that it does not name.

    One operator at a time, since few draws fit many inputs, and then all of them.
    """
    nodes: list[Any] = [node for node in rule._target_pattern if _is_open(node)]
    names = tuple(dict.fromkeys(n[1] for n in map(operator_in, nodes) if n is not None))
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return [*alone, names] if len(names) > 1 else alone


def _is_open(node: Any) -> bool:
    """Whether a node of a pattern may have inputs that the pattern does not name."""
    identifier = operator_in(node)
    schema = None if identifier is None else schema_of(identifier[1], max(OPSETS))
    return bool(
        schema is not None
        and node.allow_other_inputs
        and len(node.inputs) < schema.max_input < _VARIADIC
    )


def _is_steered(node: Any) -> bool:
    identifier = operator_in(node)
    operator = None if identifier is None else find(*identifier)
    return operator is not None and bool(operator.steers)


def rank_profiles(names: Sequence[str]) -> list[Ranks]:
    """Return combinations of ranks: equal ones, then one that differs, then all others."""
    if not names:
        return []
    equal = [dict.fromkeys(names, rank) for rank in RANKS]
    one = [
        {**dict.fromkeys(names, most), name: rank}
        for name in names
        for most in (2, 3)
        for rank in RANKS
    ]
    every: list[dict[str, int]] = []
    if len(RANKS) ** len(names) <= _PRODUCT:
        every = [
            dict(zip(names, ranks, strict=True))
            for ranks in itertools.product(RANKS, repeat=len(names))
        ]
    found: dict[tuple[int, ...], Ranks] = {}
    for profile in (*equal, *one, *every):
        found.setdefault(tuple(profile.values()), profile)
    return list(found.values())


@functools.lru_cache(256)
def operand_names(rule: RewriteRule) -> tuple[str, ...]:
    """Return the names of the operands that a pattern leaves open, in its order."""
    pattern: Any = rule._target_pattern
    names: dict[str, None] = {}
    seen: set[int] = set()
    for output in pattern.outputs:
        for value in _leaves(output, seen):
            if value.name and getattr(value, "value", None) is None:
                names[value.name] = None
    return tuple(names)


def _leaves(value: Any, seen: set[int]) -> Iterator[Any]:
    if value is None or id(value) in seen:
        return
    seen.add(id(value))
    alternatives = getattr(value, "_values", None)
    if alternatives is None and hasattr(value, "_op_to_pattern"):
        alternatives = [v for _, v in value._op_to_pattern.values()]
    if alternatives is not None:
        for each in alternatives:
            yield from _leaves(each, seen)
    elif value.producer() is not None:
        for each in value.producer().inputs:
            yield from _leaves(each, seen)
    else:
        yield value
