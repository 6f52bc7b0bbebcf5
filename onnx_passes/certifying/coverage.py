"""Ranks, types, opsets and attributes: what operators admit, what is tried, what is covered.

A plan lists what is tried of a pattern before random choices. A verdict states what the tried
models cover.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying.rewrite_rule import (
    LARGEST,
    PatternPart,
    alternatives_of,
    integers,
    joint_integers,
    number_lists,
    pattern_of,
    words,
)
from onnx_passes.ops.input_hints import Shape
from onnx_passes.ops.operator_class import MAIN, find
from onnx_passes.plain import Plain, PlainDict

OPSETS = (18, 18, 18, 21, 13, 11, 9, 23, 20, 14, 24, 26, 17)
"""Opsets of models; repeated ones are tried more often.

The old ones have attributes that became inputs, the new ones operators.
"""

_CONTRIB: dict[str, tuple[str, ...]] = {
    "FusedMatMul": ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
    "MultiHeadAttention": ("num_heads", "scale", "mask_filter_value", "unidirectional"),
    "GroupNorm": ("activation", "channels_last", "epsilon", "groups"),
    "SkipLayerNormalization": ("epsilon",),
    "IntQuant": ("signed", "narrow", "rounding_mode"),
    "Quant": ("signed", "narrow", "rounding_mode"),
    "MultiThreshold": ("out_dtype", "out_scale", "out_bias", "data_layout"),
    "LayoutConverter": ("assumes", "perm"),
}
"""Attributes of operators whose schemas no package publishes: ``com.microsoft`` and QONNX."""

_REQUIRED = {"num_heads", "groups", "activation", "assumes", "perm"}


def schema_of(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return onnx's schema of an operator of the main domain, or None where there is none."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def attribute_names(domain: str, op_type: str, opset: int) -> dict[str, bool]:
    """Return the attributes of an operator, and whether each is required."""
    if domain not in MAIN:
        return {name: name in _REQUIRED for name in _CONTRIB.get(op_type, ())}
    schema = schema_of(op_type, opset)
    attributes = {} if schema is None else dict(schema.attributes)
    return {name: attribute.required for name, attribute in attributes.items()}


def is_default(op_type: str, name: str, value: Plain) -> bool:
    """Whether an attribute of the main domain says what holds without it."""
    if isinstance(value, list | tuple):
        return all(number == (name not in ("pads", "output_padding")) for number in value)
    schema = schema_of(op_type, max(OPSETS))
    default = None if schema is None else schema.attributes[name].default_value
    if default is None or not default.type:
        return False
    found = onnx.helper.get_attribute_value(default)
    if isinstance(found, float):
        return bool(np.float32(found) == value)
    return bool(value == found or str(value).encode() == found)


def may_be_absent(schema: onnx.defs.OpSchema | None, index: int) -> bool:
    """Whether an operator takes an empty name at an input."""
    if schema is None or index >= len(schema.inputs):
        return False
    return bool(
        schema.inputs[index].option == onnx.defs.OpSchema.FormalParameterOption.Optional
    )


def is_variadic(op_type: str, opset: int) -> bool:
    """Whether an operator of the main domain has any number of outputs, as Split has."""
    schema = schema_of(op_type, opset)
    return schema is not None and schema.max_output > _VARIADIC


def admits(op_type: str, opset: int, dtypes: Sequence[ir.DataType | None]) -> bool:
    """Whether an operator of the main domain takes inputs of these element types.

    An operator without a schema takes any; None is an omitted input or an unknown type.
    """
    schema = schema_of(op_type, opset)
    if schema is None or not schema.inputs:
        return True
    bound: dict[str, ir.DataType] = {}
    for index, dtype in enumerate(dtypes):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if dtype is None or not any(t.startswith("tensor(") for t in formal.types):
            continue
        if f"tensor({dtype.name.lower()})" not in formal.types:
            return False
        if formal.is_homogeneous and bound.setdefault(formal.type_str, dtype) != dtype:
            return False
    return True


def bound_type(
    op_type: str, opset: int, index: int, operands: Sequence[ir.Value | None]
) -> ir.DataType | None:
    """Return the element type that an input has since another operand has it, or None."""
    schema = schema_of(op_type, opset)
    if schema is None or index >= len(schema.inputs):
        return None
    own = schema.inputs[index].type_str
    pairs = zip(schema.inputs, operands, strict=False)
    return next((v.dtype for f, v in pairs if v is not None and f.type_str == own), None)


def operator_in(node: PatternPart) -> tuple[str, str] | None:
    """Return domain and operator of a node of a pattern, or None where it takes several.

    The copies that ``commute`` makes do not know their identifier, but still its parts.
    """
    identifier = node.op_identifier()
    if identifier is not None:
        return identifier[0], identifier[1]
    parts = [getattr(part, "value", None) for part in (node.domain, node.op)]
    if not all(callable(part) for part in parts):
        return None
    domain, op_type = (str(part()) for part in parts if part is not None)
    return domain, op_type


def _schema_in(node: PatternPart, opset: int = max(OPSETS)) -> onnx.defs.OpSchema | None:
    identifier = operator_in(node)
    return None if identifier is None else schema_of(identifier[1], opset)


@functools.lru_cache(1024)
def fits(pattern: PatternPart, opset: int) -> bool:
    """Whether an opset has the operators, inputs and attributes that a pattern names."""
    return not list_missing_operators(pattern, opset)


def list_missing_operators(pattern: PatternPart, opset: int) -> list[str]:
    """Return the operators of a pattern that an opset lacks, in the form that it wants."""
    missing = []
    for node in pattern:
        identifier = operator_in(node)
        if identifier is None or identifier[0] not in MAIN:
            continue
        schema = schema_of(identifier[1], opset)
        wanted = {k for k, a in node.attributes.items() if not a.can_match_none}
        if schema is None or len(node.inputs) > schema.max_input:
            missing.append(identifier[1])
        elif not wanted <= set(schema.attributes):
            names = ", ".join(sorted(wanted - set(schema.attributes)))
            missing.append(f"{identifier[1]} with {names}")
    return missing


def impossible(pattern: PatternPart) -> str:
    """Return why no opset has all that a pattern names; empty where one has."""
    found = {opset: list_missing_operators(pattern, opset) for opset in OPSETS}
    if not all(found.values()):
        return ""
    least = min(found.values(), key=len)
    return f"no opset has all of its operators and attributes: {', '.join(least)}"


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
    *((0,), (1,), (0, 3), (2, 0), (1, 1), (1, 3), (2, 0, 3), (2, 1, 3), (0, 2, 3), (4, 5)),
    (2, 3, 4, 5),
)
"""Shapes with axes that authors forget."""

_WIDE, _HIGH, _READERS = 4096, 8, 16
"""Integers up to which rows, ranks and readers are as many."""

_JOINT = 5
"""Integers that are asked for together are axes up to this rank."""

_T = ir.DataType
CAST = (_T.FLOAT16, _T.FLOAT, _T.DOUBLE, _T.INT64, _T.INT32, _T.INT8, _T.UINT8, _T.BOOL)
"""Types of each width, sign and kind, between which Casts lose something."""

_OLD = 13
"""An opset in which axes are attributes."""

_ODD: Shape = (1, 2, 5, 3)
"""An image whose sizes have no half."""

_UNUSUAL = (_T.BFLOAT16, _T.UINT64, _T.UINT32, _T.INT16)
"""Types that Casts pass through as well, of each sign."""

LIMITED = (_T.FLOAT16,)
"""Types whose largest numbers are ordinary constants."""

_WRAPPING = (_T.INT32, _T.INT64, _T.UINT8)
"""Types in which products of constants wrap round, of each width and sign."""

_TALL: Shape = (2, 1, 3, 1, 2, 1, 2, 1, 2)
"""A shape that is cut to each rank above the usual ones."""

Ranks: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """What one model is to have; all else is drawn.

    None, and no `ranks` or `full`, means any. Data have the shape `edge`; with `widens`, an
    operand beside them enlarges each axis of size 1. Operators in `full` have all optional
    inputs that the pattern leaves open, others none. With `near`, numbers of the pattern
    become others that its tolerance admits. Sizes of axes are often equal if `alike`, and
    constants near the `limits` of the type. Integers that the model holds are often `negated`,
    some of `ints`, and lists of them `known`; if `joint`, attributes too. Casts make the types
    `to`, and an attribute `axis` is one of `axes`. Attributes that the pattern leaves open
    are those of `given`, by the place of a node, and alike for `twins` of one operator.
    Operands and results have so many `readers`. `draws` models are drawn, until the rule fires
    on `enough`. Plans of a `form` come behind all other models, and draw from a generator of
    their own, so that no other model depends on them. Of `forms`, at least one acts.
    """

    ranks: Ranks = field(default_factory=dict)
    dtype: ir.DataType | None = None
    opset: int | None = None
    edge: Shape | None = None
    widens: bool = False
    full: tuple[str, ...] = ()
    near: bool = False
    alike: bool = False
    limits: bool = False
    negated: bool = False
    ints: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    joint: bool = False
    to: tuple[ir.DataType, ...] = ()
    axes: tuple[int, ...] = ()
    given: tuple[tuple[int, str], ...] = ()
    twins: bool = False
    readers: int = 0
    form: str = ""
    forms: tuple[str, ...] = ()
    draws: int = _DRAWS
    enough: int = 1


def plans_of(rule: RewriteRule, types: Sequence[ir.DataType], since: int = 1) -> list[Plan]:
    """Return what the templates of a rule are to have, in an order that repeats.

    Ranks first, since a rule that forgets one is wrong on all types; then axes of size 0 and
    1, each element type and each opset. `since` is the first opset that the guard admits, if a
    hint says so.
    """
    ranks = [Plan(ranks=profile) for profile in rank_profiles(operand_names(rule))]
    opsets = [o for o in sorted(set(OPSETS)) if fits(pattern_of(rule), o)]
    opsets = [o for o in opsets if o >= since] or opsets
    edges = EDGES if operand_names(rule) else ()
    nodes = list(pattern_of(rule))
    more = [Plan(full=f, draws=_MORE, enough=_ENOUGH) for f in choices_of_inputs(rule)]
    # An empty axis and the axis that an attribute names are each one of few.
    times = _DRAWS if any(map(_takes_axis, nodes)) else 1
    steered = sum(map(_is_steered, nodes))
    if steered:
        more += [Plan(known=(n,), draws=3 * _DRAWS, enough=_DRAWS) for n in (-1, -2)]
    if steered > 1:
        # Shapes and places that must fit one another do so for few draws of many.
        more.append(Plan(edge=_SQUARE, draws=3 * _MORE, enough=2 * _ENOUGH))
        # Of two lists of axes, one may lie between those of the other.
        more.append(Plan(known=(0, 2), draws=_MORE, enough=_DRAWS))
    turns = any((operator_in(node) or ("", ""))[1] == "Transpose" for node in nodes)
    if turns:
        # In each order: an axis of size 1 may pass one that stays, which moves its elements.
        more.append(Plan(edge=(2, 3, 1), draws=6 * _DRAWS, enough=6 * _DRAWS))
    if any(map(_is_tolerant, operands_of(rule))):
        floats = [t for t in dict.fromkeys(types) if t.is_floating_point()]
        more += [Plan(dtype=t, near=True, draws=_MORE, enough=_DRAWS) for t in floats]
    if any(map(_reads_integers, nodes)):
        more.append(Plan(negated=True, draws=4 * _MORE, enough=_ENOUGH))
    if edges:
        more.append(Plan(alike=True, draws=2 * _MORE, enough=_ENOUGH))
        more += [Plan(dtype=t, limits=True, draws=_MORE, enough=_ENOUGH) for t in LIMITED]
    return [
        *ranks,
        *(Plan(edge=edge, draws=times * _DRAWS, enough=times * _DRAWS) for edge in edges),
        *(Plan(edge=e, widens=True, draws=3 * _DRAWS, enough=3) for e in edges if 1 in e),
        *(Plan(dtype=dtype) for dtype in dict.fromkeys(types)),
        *_plans_of_casts(rule),
        *(_plans_of_axes() if sum(map(_takes_axis, nodes)) > 1 else ()),
        *_opset_plans(rule, opsets),
        *_one_rank(operand_names(rule)),
        *more,
        *(_plans_of_integers(rule) if operand_names(rule) else ()),
        *_formed_plans(rule, types, turns=turns),
    ]


def _formed_plans(
    rule: RewriteRule, types: Sequence[ir.DataType], *, turns: bool
) -> Iterator[Plan]:
    """Yield plans of what authors forget; they vary what fired on other models."""
    several = Plan(draws=_MORE, enough=_ENOUGH)
    nodes = [*pattern_of(rule)]
    if any(map(_is_steered, nodes)):
        # Of an empty tensor, an axis of size 0 is a size, or the copy of another.
        yield replace(several, form="empty", edge=(0, 3), known=(3, 0), enough=_DRAWS)
    if turns and len(nodes) > 1:
        # Most orders are their own inverse, but for three of unlike size.
        yield replace(several, form="orders", edge=(2, 3, 4))
    yield from _plans_of_attributes(nodes)
    yield from _plans_of_guard(rule, nodes)
    for dtype in _WRAPPING if operand_names(rule) else ():
        if dtype in admitted_types(rule, tuple(types)):
            yield replace(several, form="wraps", dtype=dtype, limits=True, enough=12)


def _plans_of_casts(rule: RewriteRule) -> Iterator[Plan]:
    """Yield a plan for each chain of types that one Cast or two make.

    Some round twice, or lose digits or signs on the way: that is of a pair, not of a type.
    """
    attributes = [node.attributes.get("to") for node in pattern_of(rule) if _casts(node)]
    free = sum(getattr(each, "_value", None) is None for each in attributes)
    if free:
        for dtype, *to in itertools.product((*CAST, *_UNUSUAL), repeat=min(free, 2) + 1):
            unusual = not {*_UNUSUAL}.isdisjoint((dtype, *to))
            form, draws = ("casts", 2) if unusual else ("", _DRAWS)
            yield Plan(dtype=dtype, to=tuple(to), form=form, draws=draws)


def _plans_of_axes() -> Iterator[Plan]:
    """Yield a plan for each pair of unlike axes of a few ranks, in each form they have.

    A guard that counts from the other end by a rank of its own admits few of them. An axis
    from the end that both have differs where the rank changes between them.
    """
    for rank in (2, 3, 5):
        for axes in itertools.product(range(-rank, rank), repeat=2):
            if axes[0] % rank != axes[1] % rank and (rank < 5 or min(axes) < 0 <= max(axes)):
                yield Plan(edge=(2,) * rank, axes=axes, draws=2)
        if rank < 5:
            yield Plan(edge=(2,) * rank, axes=(-1, -1), draws=6 * _DRAWS, enough=3 * _DRAWS)


def _plans_of_attributes(nodes: Sequence[PatternPart]) -> Iterator[Plan]:
    """Yield a plan for each attribute, and each two, that a pattern leaves open.

    Of many attributes some exclude one another, so that few draws have those that do not. Two
    nodes have them alike, as a guard may ask, or each another one: a stride and padding, say.
    """
    names = {place: found for place, n in enumerate(nodes) if (found := _open_attributes(n))}
    every = sorted(set().union(*names.values()))
    if len(every) <= _FEW or len(names) >= _FEW:
        return
    twins = Plan(form="attributes", forms=("further values", "regions", "undoes"), twins=True)
    for name in every:
        given = _of_all(names, name)
        yield replace(twins, given=given, draws=_MORE, enough=_ENOUGH // 2)
    for pair in itertools.combinations(every, 2):
        yield replace(twins, given=_of_all(names, *pair), draws=2 * _DRAWS, enough=_FEW)
    sides = [[(place, name) for name in sorted(names[place])] for place in names]
    for given in itertools.product(*sides) if len(sides) > 1 else ():
        yield replace(twins, twins=False, given=given, draws=6 * _DRAWS, enough=2 * _DRAWS)


def _plans_of_guard(rule: RewriteRule, nodes: Sequence[PatternPart]) -> Iterator[Plan]:
    """Yield plans of attributes that a guard names, with texts or a list of integers in it.

    One model in many has all that a guard asks for together. Axes are attributes of old
    opsets.
    """
    types = onnx.defs.OpSchema.AttrType
    asked: dict[onnx.defs.OpSchema.AttrType, dict[tuple[int, str], None]] = {}
    for (place, node), opset in itertools.product(enumerate(nodes), (max(OPSETS), _OLD)):
        schema = _schema_in(node, opset)
        for name in sorted(_open_attributes(node, opset) & words(rule)):
            if schema is not None:
                asked.setdefault(schema.attributes[name].type, {})[place, name] = None
    guard = Plan(form="guard", forms=("words of the guard", "scales of images"), draws=_MORE)
    for edge in (None, _ODD) if types.STRING in asked else ():
        yield replace(guard, given=(*asked[types.STRING],), edge=edge, enough=_ENOUGH)
    for known in number_lists(rule, int) if types.INTS in asked else ():
        guard = replace(guard, given=(*asked[types.INTS],), opset=_OLD, enough=_ENOUGH)
        yield replace(guard, known=known, edge=_TALL[: max(abs(n) for n in known) + 1])


def _open_attributes(node: PatternPart, opset: int = max(OPSETS)) -> set[str]:
    """Return the attributes that a node of a pattern may have or not, and does not name."""
    if not node.allow_other_attributes or (identifier := operator_in(node)) is None:
        return set()
    found = attribute_names(*identifier, opset) if identifier[0] in MAIN else {}
    return {name for name, required in found.items() if not required} - set(node.attributes)


@functools.lru_cache(256)
def free_attributes(rule: RewriteRule, opset: int) -> dict[str, set[str]]:
    """Return the attributes by operator whose values the pattern of a rule does not fix.

    Those are left out that say what the weights say, that matter for types that no model has,
    or that became inputs.
    """
    found: dict[str, set[str]] = {}
    for node in pattern_of(rule):
        domain, op_type = operator_in(node) or ("?", "")
        if domain in MAIN:
            names = {*attribute_names(domain, op_type, opset)}
            names &= {*attribute_names(domain, op_type, max(OPSETS))}
            names = names if node.allow_other_attributes else names & {*node.attributes}
            plain = {k: getattr(a, "_value", None) for k, a in node.attributes.items()}
            fixed = {name for name, value in plain.items() if value is not None}
            idle = {"saturate", "round_mode", *["kernel_shape"] * ("group" in names)}
            found.setdefault(op_type, set()).update(names - fixed - idle)
    return found


def counts(op_type: str, name: str) -> bool:
    """Whether an attribute is a number, and neither true nor false nor an axis."""
    schema = schema_of(op_type, max(OPSETS))
    found = None if schema is None else schema.attributes.get(name)
    if found is None or found.type is not onnx.defs.OpSchema.AttrType.INT or name == "axis":
        return False
    default = found.default_value
    given = bool(default is not None and default.type)
    return name == "start" or not given or default.i not in (0, 1)


def effective_value(node: ir.Node, name: str) -> str:
    """Return an attribute as text; empty if it is as if it were left out."""
    attribute = node.attributes.get(name)
    if attribute is None or is_default(node.op_type, name, attribute.value):
        return ""
    return str(attribute.value)


def _of_all(places: Iterable[int], *names: str) -> tuple[tuple[int, str], ...]:
    return tuple(itertools.product(places, names))


def _casts(node: PatternPart) -> bool:
    return (operator_in(node) or ("", ""))[1] == "Cast"


def _plans_of_integers(rule: RewriteRule) -> Iterator[Plan]:
    """Yield plans in which an integer of the rule decides a size, a rank, or a count.

    A Slice that ends at 1000 takes all of an axis, until there are more. A guard may ask for
    a rank of 6, for 12 elements, or for a third reader.
    """
    found = [getattr(operand, "value", None) for operand in operands_of(rule)]
    for node in pattern_of(rule):
        plain = (node.attributes.get(name) for name in ("value_int", "value_ints"))
        found += [getattr(attribute, "_value", None) for attribute in plain]
    numbers: dict[int, None] = {}
    for each in found:
        for number in each if isinstance(each, list | tuple) else [each]:
            if isinstance(number, int) and 1 < abs(number) < LARGEST:
                numbers[abs(number)] = None
    numbers.update(dict.fromkeys(integers(rule)))
    plans: dict[object, Plan] = {}
    for n in numbers:
        near = (n - 1, n, n + 1)
        shapes: list[Shape] = [(size,) for size in (*near, 2 * n)]
        shapes += [(2, size) for size in (n, n + 1, 2 * n)]
        if n <= _WIDE:
            shapes += [(size, 2) for size in near]
            shapes += [(divisor, n // divisor) for divisor in _divisors(n)]
        if n <= _HIGH:
            shapes += [_TALL[:rank] for rank in near if rank > max(RANKS)]
        for shape in shapes:
            plans.setdefault(shape, Plan(edge=shape, ints=near, draws=6 * _DRAWS, enough=2))
        for readers in near if n <= _READERS else ():
            plans.setdefault(readers, Plan(readers=readers, enough=2))
    for known in number_lists(rule, int):
        least = max(abs(n) for n in known) + 1
        edges = (_TALL[:least], _TALL[: least + 1]) if least <= _HIGH else ()
        for edge in (None, *edges):
            plans[known, edge] = Plan(edge=edge, known=known, draws=6 * _DRAWS, enough=2)
    for ints in joint_integers(rule):
        # Axes, and sizes along one of them: a cut at the one begins behind that at the other.
        ranks = {n + 1 for n in ints if n < _JOINT}
        shapes = [(min(max(ints) + 2, int(_WIDE ** (1 / rank))),) * rank for rank in ranks]
        joint = Plan(ints=ints, joint=True, draws=_MORE, enough=_ENOUGH)
        for shape in (*shapes, (sum(ints) + 2, 2), (math.prod(ints) + 1,)):
            plans[ints, shape] = replace(joint, edge=shape)
    return iter(plans.values())


def _divisors(n: int) -> list[int]:
    """Return the divisor of a number that makes a matrix of so many elements squarest."""
    return [d for d in range(2, int(n**0.5) + 1) if n % d == 0][-1:]


def _opset_plans(rule: RewriteRule, opsets: Sequence[int]) -> Iterator[Plan]:
    """Yield a plan for each opset; more draws in the first one of each form of operators."""
    forms = {o: tuple(_form(node, o) for node in pattern_of(rule)) for o in opsets}
    firsts = {form: opset for opset, form in reversed(forms.items())}.values()
    for opset in opsets:
        old = opset in firsts and opset != max(firsts)
        draws = _MORE if opset in firsts else _DRAWS
        yield Plan(opset=opset, draws=draws, enough=_ENOUGH if old else 1)


def _form(node: PatternPart, opset: int) -> tuple[object, ...]:
    """Return the inputs, attributes and defaults that an operator has in an opset."""
    schema = _schema_in(node, opset)
    if schema is None:
        return ()
    defaults = {(k, str(a.default_value)) for k, a in schema.attributes.items()}
    return schema.min_input, schema.max_input, frozenset(defaults)


def _one_rank(names: Sequence[str]) -> list[Plan]:
    """Return plans that give one operand a rank, and draw those of all others.

    Where not all combinations are tried: of operators such as Conv, which want ranks that
    differ, few combinations fit.
    """
    if len(RANKS) ** len(names) <= _PRODUCT:
        return []
    return [
        Plan(ranks={name: rank}, draws=_DRAWS * _DRAWS) for name in names for rank in RANKS
    ]


@functools.lru_cache(256)
def admitted_types(rule: RewriteRule, types: Sequence[ir.DataType]) -> tuple[ir.DataType, ...]:
    """Return the element types that the operators of a pattern take; all if none fits."""
    found = list(dict.fromkeys(types))
    for node in pattern_of(rule):
        schema = _schema_in(node)
        if schema is not None and schema.inputs and node.inputs:
            # Of Where, say, the first operand is a condition.
            known = max((formal.types for formal in schema.inputs), key=len)
            fitting = [t for t in found if f"tensor({t.name.lower()})" in known]
            found = fitting or found
    return tuple(found)


def few_types(rule: RewriteRule, types: Sequence[ir.DataType]) -> tuple[ir.DataType, ...]:
    """Return the element types that the operators of a pattern take, if they are but a few."""
    found = admitted_types(rule, tuple(types))
    return found if len(found) <= _FEW else ()


def choices_of_inputs(rule: RewriteRule) -> list[tuple[str, ...]]:
    """Return which operators of a pattern may have the inputs that it does not name.

    One operator at a time, since few draws fit many inputs, and then all of them.
    """
    nodes = [node for node in pattern_of(rule) if _is_open(node)]
    names = tuple(dict.fromkeys(n[1] for n in map(operator_in, nodes) if n is not None))
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return [*alone, names] if len(names) > 1 else alone


def _is_open(node: PatternPart) -> bool:
    """Whether a node of a pattern may have inputs that the pattern does not name."""
    schema = _schema_in(node)
    return bool(
        schema is not None
        and node.allow_other_inputs
        and len(node.inputs) < schema.max_input < _VARIADIC
    )


def _is_steered(node: object) -> bool:
    identifier = operator_in(node)
    operator = None if identifier is None else find(*identifier)
    return operator is not None and bool(operator.steers)


def _reads_integers(node: PatternPart) -> bool:
    """Whether a node of a pattern has operands that are integers, whatever the data."""
    schema = _schema_in(node)
    count = 0 if schema is None else len(schema.inputs)
    return any(reads_integers((operator_in(node) or ("", ""))[1], k) for k in range(count))


def reads_integers(op_type: str, index: int) -> bool:
    """Whether an operator of the main domain reads integers at an input, whatever the data."""
    schema = schema_of(op_type, max(OPSETS))
    if schema is None or index >= len(schema.inputs):
        return False
    types = schema.inputs[index].types
    return "tensor(int64)" in types and "tensor(float)" not in types


def _takes_axis(node: PatternPart) -> bool:
    """Whether a node of a pattern may have any axis."""
    schema = _schema_in(node)
    fixed = getattr(node.attributes.get("axis"), "_value", None) is not None
    return schema is not None and "axis" in schema.attributes and not fixed


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
    open_ = (v for v in operands_of(rule) if getattr(v, "value", None) is None)
    return tuple(dict.fromkeys(v.name for v in open_ if v.name))


def operands_of(rule: RewriteRule) -> list[PatternPart]:
    """Return the operands of a pattern that no node of it computes, numbers among them."""
    seen: set[int] = set()
    return [value for output in pattern_of(rule).outputs for value in _leaves(output, seen)]


def _is_tolerant(operand: object) -> bool:
    """Whether an operand is a number, which others beside it are taken for."""
    found = getattr(operand, "value", None) is not None
    return found and bool(getattr(operand, "_rel_tol", 0) or getattr(operand, "_abs_tol", 0))


def _leaves(value: PatternPart, seen: set[int]) -> Iterator[PatternPart]:
    if value is None or id(value) in seen:
        return
    seen.add(id(value))
    alternatives = alternatives_of(value)
    if alternatives is not None:
        for each in alternatives:
            yield from _leaves(each, seen)
    elif value.producer() is not None:
        for each in value.producer().inputs:
            yield from _leaves(each, seen)
    else:
        yield value


_VALUES = (ir.AttributeType.INT, ir.AttributeType.STRING)
"""Attributes of these types differ by value, others by whether they are given."""

LEFT_OUT, GIVEN = "left out", "given"


@dataclass
class Covered:
    """What one template covers, or several; anything else is excluded from the claim.

    `operands` have ranks, element types, and whether they were constants. An operand without a
    name in the pattern is named by operator and index of the input. Keys of `attributes` are
    ``operator.name``.
    """

    templates: int = 0
    operands: dict[str, tuple[set[int], set[str], set[bool]]] = field(default_factory=dict)
    opsets: set[int] = field(default_factory=set)
    attributes: dict[str, set[str]] = field(default_factory=dict)

    def add(self, other: Covered) -> None:
        """Widen the claim by what another one covers."""
        self.templates += other.templates
        self.opsets |= other.opsets
        for name, (ranks, types, constant) in other.operands.items():
            own = self.operands.setdefault(name, (set(), set(), set()))
            own[0].update(ranks)
            own[1].update(types)
            own[2].update(constant)
        for key, given in other.attributes.items():
            self.attributes.setdefault(key, set()).update(given)

    def holds(self, other: Covered) -> bool:
        """Whether the claim speaks of all that another one covers."""
        both = copy.deepcopy(self)
        both.add(other)
        return replace(both, templates=self.templates) == self

    def as_dict(self) -> PlainDict:
        """Return the claim as JSON has it."""
        named = {
            name: {"ranks": sorted(r), "types": sorted(t), "constant": sorted(c)}
            for name, (r, t, c) in sorted(self.operands.items())
        }
        attributes = {key: sorted(given) for key, given in sorted(self.attributes.items())}
        found = {"templates": self.templates, "operands": named, "opsets": sorted(self.opsets)}
        return {**found, "attributes": attributes}


def covered_by(templates: Iterable[Covered]) -> Covered:
    """Return what templates cover together."""
    found = Covered()
    for template in templates:
        found.add(template)
    return found


def describe(model: ir.Model, names: Iterable[str]) -> Covered:
    """Return what a claim says of one model, whose values are named as in the pattern."""
    named = set(names)
    found = Covered(1, opsets={model.graph.opset_imports.get("", 0)})
    for node in model.graph:
        if node.op_type == "Constant":
            continue
        for name in _attribute_names(node, model):
            given = _shown(node.attributes.get(name))
            if name == "to" and node.inputs[0] is not None and node.inputs[0].dtype:
                given = f"{node.inputs[0].dtype.name} to {given}"
            found.attributes.setdefault(f"{node.op_type}.{name}", set()).add(given)
        for index, value in enumerate(node.inputs):
            producer = None if value is None else value.producer()
            if value is None or (producer is not None and producer.op_type != "Constant"):
                continue
            role = str(value.name) if value.name in named else f"{node.op_type}.{index}"
            dtype = "UNDEFINED" if value.dtype is None else value.dtype.name
            rank = 0 if value.shape is None else len(value.shape)
            constant = producer is not None or value.is_initializer()
            found.operands[role] = {rank}, {dtype}, {constant}
    return found


def _attribute_names(node: ir.Node, model: ir.Model) -> list[str]:
    opset = model.graph.opset_imports.get("", 0)
    return sorted({*node.attributes, *attribute_names(node.domain, node.op_type, opset)})


def _shown(attribute: ir.Attr | None) -> str:
    if attribute is None:
        return LEFT_OUT
    return str(attribute.value) if attribute.type in _VALUES else GIVEN
