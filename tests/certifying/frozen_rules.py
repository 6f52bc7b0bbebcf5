"""The frozen set: 30 rules that are right, and 30 with one fault each.

They are chosen for reach: each arithmetic of proofs, element types, opsets, attributes and
constants, operands that commute, several outputs, bodies, contracts, and each way to give a
rule. Do not correct one: what counts is that the verifier judges it as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from benchmarks.certify.correct_rules import (
    FLOATS,
    INTS,
    correct_rules,
    elements_of,
    make_rule,
    scalar_like,
    static_shape,
    written,
)
from benchmarks.certify.mutants import changed
from onnx_passes.certifying.rewrite_rule import rules_of
from onnx_passes.contracts import equality, tolerance
from onnx_passes.passes.base import RewriteRulePass, RewriteRuleSetPass, Rule, Transformation

_T = ir.DataType


@dataclass(frozen=True)
class FrozenRule:
    """One rule of the set.

    Attributes:
        name: Its name in the stored file.
        rule: The rule.
        subject: The pass that declares contracts for it; None for a rule without a pass.
        right: Whether the rule and its declarations are right.
        models: How many it is tested on; one that is refuted does not see all.
    """

    name: str
    rule: RewriteRule
    subject: type | None = None
    right: bool = True
    models: int = 20


def frozen_rules() -> list[FrozenRule]:
    """Return the 30 rules that are right and the 30 that are not."""
    right = _right()
    return [*right, *_wrong({frozen.name: frozen.rule for frozen in right})]


_UNSIGNED = (_T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64)
_REUSED = (
    *("sub-as-add", "transpose-of-product", "transpose-transpose", "unsqueeze"),
    *("mean-as-sum", "conv-scale", "clip-clip", "xor", "squared-difference", "leaky-relu"),
)


def _of_type(*types: ir.DataType) -> Any:
    return lambda context, x, **_: x.dtype in types


def _is_number(value: ir.Value, number: float) -> bool:
    return elements_of(value) == [number] and value.shape == ()


def _nowhere(op: Any, x: ir.Value, **_: Any) -> Any:
    """Return False in the shape of a tensor of numbers."""
    return op.Less(x, x)


class ReadInnerValue(RewriteRulePass, Transformation):
    """Read the first of two nodes; the second changes nothing."""

    def pattern(self, op, x):
        return op.Relu(op.Relu(x, _outputs=["made"]))

    def rewrite(self, op, x, made):
        return made


class ReadDirectly(RewriteRuleSetPass, Transformation):
    """Rules that are given one by one."""

    def rules(self):
        yield Rule(lambda op, x: op.Not(op.Not(x)), lambda op, x: x, name="not")
        yield Rule(lambda op, x: op.Identity(x), lambda op, x: x, name="identity")


class IdempotentRounding(RewriteRuleSetPass, Transformation):
    """Rules that are given as lists of their parts."""

    def pattern(self):
        return [lambda op, x: op.Floor(op.Floor(x)), lambda op, x: op.Ceil(op.Ceil(x))]

    def rewrite(self):
        return [lambda op, x: op.Floor(x), lambda op, x: op.Ceil(x)]


@equality
class MultiplyByOnes(RewriteRulePass, Transformation):
    """Remove a product with ones, on either side."""

    commute = True

    def pattern(self, op, x, c):
        return op.Mul(x, c, _outputs=["made"])

    def check(self, context, x, c, made):
        shape, ones = static_shape(x), static_shape(c)
        if shape is None or ones is None or set(elements_of(c) or ()) != {1}:
            return False
        return list(np.broadcast_shapes(shape, ones)) == shape

    def rewrite(self, op, x, made, **_):
        return op.Identity(x)


class MultiplyByOnesByPosition(MultiplyByOnes):
    """The same, with the constant sought in one place, though operands commute."""

    def check(self, context, x, c, made):
        return super().check(context, x, made.producer().inputs[1], made)

    def rewrite(self, op, x, made, **_):
        return op.Identity(made.producer().inputs[0])


class MultiplyByManyOnes(MultiplyByOnes):
    """The same without a look at the shapes: ones may enlarge the result."""

    def check(self, context, x, c, made):
        return set(elements_of(c) or ()) == {1}


class MergeFactors(RewriteRulePass, Transformation):
    """Multiply by two constants at once, if no other node reads the first product."""

    exclusive = True

    def pattern(self, op, x, a, b):
        return op.Mul(op.Mul(x, a), b)

    def check(self, context, x, a, b):
        numbers = elements_of(a), elements_of(b)
        return x.dtype in INTS and None not in numbers and a.shape == b.shape

    def rewrite(self, op, x, a, b):
        factors = [v.const_value.numpy().reshape(-1) for v in (a, b)]  # of scalars, they warn
        product = np.multiply(*factors).reshape(a.const_value.shape)
        return op.Mul(x, op.Constant(value=ir.tensor(product)))


@tolerance
class ByReciprocal(RewriteRulePass, Transformation):
    """Multiply by a reciprocal instead of dividing."""

    def pattern(self, op, x, y):
        return op.Div(x, y)

    def check(self, context, x, y):
        return x.dtype == _T.FLOAT

    def rewrite(self, op, x, y):
        return op.Mul(x, op.Reciprocal(y))


@equality
class ByReciprocalEqually(ByReciprocal):
    """The same, with a contract that rounding breaks."""


class NoNan(RewriteRulePass, Transformation):
    """Replace IsNaN by False, which is right for finite numbers."""

    finite_only = True

    def pattern(self, op, x):
        return op.IsNaN(x)

    def check(self, context, x):
        return x.dtype in FLOATS

    def rewrite(self, op, x):
        return _nowhere(op, x)


class NoNanAnywhere(NoNan):
    """The same, with the claim that it is right for all numbers."""

    finite_only = False


@tolerance
class SpellOutQuickGelu(RewriteRulePass, Transformation):
    """Replace an operator of another domain by its formula."""

    def pattern(self, op, x):
        return op.QuickGelu(x, _domain="com.microsoft", alpha=1.0)

    def rewrite(self, op, x):
        return op.Mul(x, op.Sigmoid(x))


@tolerance(rtol=1e-9, atol=0.0)
class SpellOutQuickGeluClosely(SpellOutQuickGelu):
    """The same, with a tolerance that its kernel does not keep."""


def _right() -> list[FrozenRule]:
    reused = {str(rule.name): rule for rule in correct_rules()}
    more = [make_rule(*parts) for parts in _MORE]
    never = _never_a_square("never-a-square", 3)
    plain = [*(reused[name] for name in _REUSED), *more, never]
    passes = [
        (ReadDirectly, 1),
        (IdempotentRounding, 1),
        (MultiplyByOnes, -1),
        (MergeFactors, 0),
        (ByReciprocal, 0),
        (NoNan, 0),
        (SpellOutQuickGelu, 0),
    ]
    made = [(cls, rules_of(cls)[index]) for cls, index in passes]
    return [
        *(FrozenRule(str(rule.name), rule) for rule in plain),
        *(FrozenRule(str(rule.name), rule, cls) for cls, rule in made),
        # An inner value that is an output is among the later models.
        FrozenRule("read-inner-value", rules_of(ReadInnerValue)[0], ReadInnerValue, models=60),
    ]


_MORE: tuple[tuple[Any, ...], ...] = (
    (
        "cast-of-indices",
        "x, k: Cast(TopK(x, k, _outputs=['values', 'indices'])[1], to=7)",
        lambda op, indices, **_: indices,
    ),
    (
        "two-comparisons",
        "x, y: (Less(x, y), GreaterOrEqual(x, y))",
        lambda op, x, y: _less_and_its_opposite(op, x, y),
        _of_type(*INTS),
    ),
    (
        "sub-as-add-of-initializer",
        "x, c: Sub(x, c)",
        lambda op, x, c: _minus_constant(op, x, c),
        lambda context, x, c: x.dtype in INTS and c.const_value is not None,
    ),
    ("round-neg", "x: Round(Neg(x))", "x: Neg(Round(x))"),
    (
        "square-of-root",
        lambda op, x: _square(op, op.Sqrt(x)),
        "x: Identity(x)",
        _of_type(_T.FLOAT),
    ),
    ("add-zero", "x, c: Add(x, c)", "x, c: Identity(x)", lambda _, x, c: _is_number(c, 0)),
    (
        "never-negative",
        "x, c: Less(x, c)",
        _nowhere,
        lambda context, x, c: x.dtype in _UNSIGNED and _is_number(c, 0),
    ),
    (
        "product-of-three",
        "x, y, z: MatMul(MatMul(x, y), z)",
        "x, y, z: MatMul(x, MatMul(y, z))",
        lambda context, x, y, z: (
            x.dtype == _T.FLOAT and all(len(v.shape or ()) == 2 for v in (x, y, z))
        ),
    ),
    (
        "product-of-powers",
        "x, y: Mul(Exp(x), Exp(y))",
        "x, y: Exp(Add(x, y))",
        _of_type(_T.FLOAT),
    ),
    (
        "there-and-back",
        "x: Cast(Cast(x, to=11), to=1)",
        "x: Identity(x)",
        _of_type(_T.FLOAT),
    ),
    (
        "shift-as-product",
        "x, c: BitShift(x, c, direction='LEFT')",
        "x, c: Mul(x, scalar_like(op, 4, x))",
        lambda context, x, c: x.dtype in (_T.UINT32, _T.UINT64) and _is_number(c, 2),
    ),
)
"""Right rules that need no pass, and that the benchmarks do not have."""


def _square(op: Any, x: Any) -> Any:
    return op.Mul(x, x)


def _less_and_its_opposite(op: Any, x: ir.Value, y: ir.Value) -> Any:
    less = op.Less(x, y)
    return less, op.Not(less)


def _minus_constant(op: Any, x: ir.Value, c: ir.Value) -> Any:
    return op.Add(x, op.initializer(ir.tensor(-c.const_value.numpy()), name="negated"))


def _never_a_square(name: str, number: int) -> RewriteRule:
    return make_rule(
        name,
        lambda op, x: op.Equal(op.Mul(x, x), number),
        _nowhere,
        _of_type(_T.INT32),
    )


def _wrong(right: dict[str, RewriteRule]) -> Iterator[FrozenRule]:
    """Yield rules with one change each that makes them wrong."""
    from benchmarks.certify import correct_rules as module

    for name, text, parts in _CHANGES:
        parts = {key: written(part, vars(module)) for key, part in parts.items()}
        rule = changed(right[name], text, **parts)
        yield FrozenRule(str(rule.name), rule, right=False, models=200)
    for cls, index in (
        (MultiplyByOnesByPosition, -1),
        (MultiplyByManyOnes, 0),
        (ByReciprocalEqually, 0),
        (NoNanAnywhere, 0),
        (SpellOutQuickGeluClosely, 0),
    ):
        rule = rules_of(cls)[index]
        yield FrozenRule(str(rule.name), rule, cls, right=False)
    rule = _never_a_square("never-a-square: but of 1234", 1234**2)
    yield FrozenRule(str(rule.name), rule, right=False)


def _merged_otherwise(op: Any, x: ir.Value, first: ir.Attr, second: ir.Attr) -> Any:
    inner, outer = first.as_ints(), second.as_ints()
    return op.Transpose(x, perm=[outer[i] for i in inner])


def _merged_in_place(op: Any, x: ir.Value, first: ir.Attr, second: ir.Attr) -> Any:
    merged = [first.as_ints()[i] for i in second.as_ints()]
    node = next(n for n in x.consumers() if n.attributes.get("perm") is first)
    node.attributes["perm"] = ir.AttrInt64s("perm", merged)
    return node.outputs[0]


def _one_of(axes: ir.Value) -> bool:
    return len(elements_of(axes) or ()) == 1


def _scaled_in_place(op: Any, x: ir.Value, w: ir.Value, b: ir.Value, conv: ir.Value) -> Any:
    (scale,) = elements_of(b) or [1]
    w.const_value = ir.tensor((w.const_value.numpy() * scale).astype(np.float32))
    return conv


def _narrower(op: Any, x: ir.Value, lo1: Any, hi1: Any, lo2: Any, hi2: Any) -> Any:
    low = max(*elements_of(lo1), *elements_of(lo2))
    high = min(*elements_of(hi1), *elements_of(hi2))
    return op.Clip(x, scalar_like(op, low, x), scalar_like(op, high, x))


_CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sub-as-add", "back and forth", {"rewrite": "x, y: Neg(Sub(y, x))"}),
    (
        "transpose-of-product",
        "operands in their order",
        {"rewrite": "x, w: MatMul(Transpose(x, perm=[1, 0]), Transpose(w, perm=[1, 0]))"},
    ),
    ("transpose-of-product", "of any rank", {"check": lambda _, x, w: x.dtype in FLOATS}),
    ("transpose-transpose", "the other way round", {"rewrite": _merged_otherwise}),
    ("transpose-transpose", "in place", {"rewrite": _merged_in_place}),
    ("unsqueeze", "empty axes", {"check": lambda context, x, axes: _one_of(axes)}),
    ("mean-as-sum", "keepdims of any kind", {"pattern": "x, axes: ReduceMean(x, axes)"}),
    ("conv-scale", "weights changed in place", {"rewrite": _scaled_in_place}),
    ("clip-clip", "the narrower bounds", {"rewrite": _narrower}),
    ("xor", "Not forgotten", {"rewrite": "x, y: Equal(x, y)"}),
    ("leaky-relu", "of unknown type", {"check": _of_type(None, _T.FLOAT)}),
    (
        "cast-of-indices",
        "to any type",
        {"pattern": "x, k, to: Cast(TopK(x, k, _outputs=['v', 'indices'])[1], to=to)"},
    ),
    ("two-comparisons", "of NaN", {"check": _of_type(*INTS, *FLOATS)}),
    (
        "two-comparisons",
        "outputs swapped",
        {"rewrite": lambda op, x, y: _less_and_its_opposite(op, x, y)[::-1]},
    ),
    (
        "sub-as-add-of-initializer",
        "sought in this graph alone",
        {
            "check": lambda context, x, c: (
                x.dtype in INTS
                and c.is_initializer()
                and context.graph_or_function.initializers[c.name].const_value is not None
            )
        },
    ),
    ("round-neg", "downwards", {"rewrite": "x: Neg(Floor(x))"}),
    ("square-of-root", "root of square", {"pattern": "x: Sqrt(Mul(x, x))"}),
    ("there-and-back", "nearly zero", {"pattern": "x: Add(x, 0.0)"}),
    (
        "never-negative",
        "a type that is signed",
        {
            "check": lambda context, x, c: (
                x.dtype in (_T.UINT8, _T.INT16, _T.UINT32, _T.UINT64) and _is_number(c, 0)
            )
        },
    ),
    ("shift-as-product", "twice", {"rewrite": "x, c: Mul(x, scalar_like(op, 2, x))"}),
    (
        "shift-as-product",
        "bytes, of any opset",
        {"check": lambda context, x, c: x.dtype in _UNSIGNED and _is_number(c, 2)},
    ),
    (
        "product-of-three",
        "in another order",
        {"rewrite": "x, y, z: MatMul(x, MatMul(z, y))"},
    ),
    ("there-and-back", "through integers", {"pattern": "x: Cast(Cast(x, to=6), to=1)"}),
    (
        "there-and-back",
        "overflow",
        {"pattern": "x: Div(Mul(x, 2), 2)", "check": _of_type(*INTS)},
    ),
)
"""The name of a right rule, what is changed in it, and the parts that are."""
