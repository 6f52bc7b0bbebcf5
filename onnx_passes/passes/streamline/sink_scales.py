"""Move factors and terms behind the linear operator that reads them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._convolutions import Rule, conv_rules, conv_term
from onnx_passes.passes.streamline._terms import (
    Array,
    along,
    at_axis,
    constant,
    floats,
    is_single,
    rank_of,
    scalar,
)

_MEANS = ("AveragePool", "GlobalAveragePool")
_SUMS = ("ReduceMean", "ReduceSum")


@passes.verify.tolerance
@passes.register()
@passes.register("reorder")
class SinkScales(Transformation, RewriteRuleSetPass):
    """Move factors and terms behind the linear operator that reads them.

    Before: ``MatMul(Mul(x, s), w)``, ``Conv(x, Mul(w, s))``, ``MatMul(Add(x, a), w)``,
            ``Add(Mul(x, s), Mul(y, s))``, ``Add(Add(x, a), y)``, ``Mul(Mul(x, s), y)``,
            ``AveragePool(Mul(x, s))``,
            ``Conv(Add(x, a), w)``, ``ReduceSum(Add(x, a))``; ConvTranspose like Conv,
            ReduceMean and ReduceSum like AveragePool
    After:  ``Mul(MatMul(x, w), s)``, ``Mul(Conv(x, w), s)``, ``Add(MatMul(x, w), a @ w)``,
            ``Mul(Add(x, y), s)``, ``Add(Add(x, y), a)``, ``Mul(Mul(x, y), s)``,
            ``Mul(AveragePool(x), s)``,
            ``Add(Conv(x, w), sum(a * w))``, ``Add(ReduceSum(x), a * count)``

    Factors are single numbers, or numbers for each output channel of weights, or for each
    channel that is averaged or that a depthwise Conv reads; terms in front of a MatMul go
    along its rows, those in front of a Conv along its channels. The bias of a Conv is added
    behind the factor.

    Sound because these operators are linear over the reals. The contract is a tolerance: sums
    of floats round at other places.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override, and those that are a first operand, which ``gather-terms`` puts second; a factor
    0; terms in front of a Conv that pads, of a ConvTranspose, or of weights that are computed;
    a Conv with a bias that is no row; ranks that are not known.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [rule.pattern for rule in _RULES]

    def check(self) -> list[Any]:
        return [rule.check for rule in _RULES]

    def rewrite(self) -> list[Any]:
        return [rule.rewrite for rule in _RULES]


def _factor(value: Value, beside: Value) -> bool:
    """Whether a constant is one factor that gives the product no more axes."""
    array, rank = floats(value), rank_of(beside)
    if array is None or array.ndim > (rank or 0):
        return False
    return is_single(value) and scalar(value) != 0


def _matmul_left() -> Rule:
    def pattern(op: Op, x: Var, s: Var, w: Var) -> Var:
        return op.MatMul(op.Mul(x, s), w)

    def check(context: Any, x: Value, s: Value, w: Value) -> bool:
        return _factor(s, x) and floats(x) is None and (rank_of(x) or 0) >= 1

    def rewrite(op: Op, x: Value, s: Value, w: Value) -> Value:
        made: Value = op.Mul(op.MatMul(x, w), constant(op, _scalar(s)))
        return made

    return Rule(pattern, check, rewrite)


def _matmul_right() -> Rule:
    def pattern(op: Op, x: Var, w: Var, s: Var) -> Var:
        return op.MatMul(x, op.Mul(w, s))

    def row(x: Value, w: Value, s: Value) -> Array | None:
        array, rank = floats(s), rank_of(w)
        if array is None or rank is None or rank < 2 or not array.all():
            return None
        found = along(array, rank - 1, rank)
        if found is None or (found.size > 1 and (rank_of(x) or 0) < 1):
            return None
        return found

    def check(context: Any, x: Value, w: Value, s: Value) -> bool:
        return row(x, w, s) is not None

    def rewrite(op: Op, x: Value, w: Value, s: Value) -> Value:
        found = row(x, w, s)
        assert found is not None, "check has seen to it"
        factor = found.reshape(()) if found.size == 1 else found
        made: Value = op.Mul(op.MatMul(x, w), constant(op, factor))
        return made

    return Rule(pattern, check, rewrite)


def _matmul_term() -> Rule:
    def pattern(op: Op, x: Var, a: Var, w: Var) -> Var:
        return op.MatMul(op.Add(x, a), w)

    def term(x: Value, a: Value, w: Value) -> Array | None:
        array, matrix, rank = floats(a), floats(w), rank_of(x)
        if array is None or matrix is None or matrix.ndim != 2 or rank is None or rank < 1:
            return None
        row = along(array, rank - 1, rank)
        if row is None:
            return None
        full = np.broadcast_to(row.astype(np.float64), (matrix.shape[0],))
        return np.asarray((full @ matrix.astype(np.float64)).astype(np.float32))

    def check(context: Any, x: Value, a: Value, w: Value) -> bool:
        return floats(x) is None and term(x, a, w) is not None

    def rewrite(op: Op, x: Value, a: Value, w: Value) -> Value:
        found = term(x, a, w)
        assert found is not None, "check has seen to it"
        made: Value = op.Add(op.MatMul(x, w), constant(op, found))
        return made

    return Rule(pattern, check, rewrite)


def _mean(kind: str) -> Rule:
    def pattern(op: Op, x: Var, s: Var) -> Var:
        return getattr(op, kind)(op.Mul(x, s), _outputs=["y"])

    def check(context: Any, x: Value, s: Value, **_: Any) -> bool:
        return row(x, s) is not None

    def row(x: Value, s: Value) -> Array | None:
        array, rank = floats(s), rank_of(x)
        if array is None or rank is None or not array.all() or array.ndim > rank:
            return None
        if array.size == 1:
            return array.reshape(())
        found, dims = along(array, 1, rank), dims_of(x)
        known = found is not None and dims is not None and dims[1] == found.size
        return at_axis(found, 1, rank)[0] if found is not None and known else None

    def rewrite(op: Op, x: Value, s: Value, y: Value) -> Value:
        found = row(x, s)
        assert found is not None, "check has seen to it"
        inner = getattr(op, kind)(x, **node_of(y).attributes)
        made: Value = op.Mul(inner, constant(op, found))
        return made

    return Rule(pattern, check, rewrite)


def _reduction(kind: str, *, with_axes: bool) -> Rule:
    def pattern(op: Op, x: Var, s: Var, a: Var) -> Var:
        inputs = (op.Mul(x, s), a) if with_axes else (op.Mul(x, s),)
        return getattr(op, kind)(*inputs, _outputs=["y"])

    def check(context: Any, x: Value, s: Value, **_: Any) -> bool:
        return floats(x) is None and _factor(s, x)

    def rewrite(op: Op, x: Value, s: Value, y: Value, a: Value | None = None) -> Value:
        inputs = (x,) if a is None else (x, a)
        inner = getattr(op, kind)(*inputs, **node_of(y).attributes)
        made: Value = op.Mul(inner, constant(op, _scalar(s)))
        return made

    return Rule(pattern, check, rewrite)


def _reduced_term(kind: str, *, with_axes: bool) -> Rule:
    def pattern(op: Op, x: Var, a: Var, axes: Var) -> Var:
        inputs = (op.Add(x, a), axes) if with_axes else (op.Add(x, a),)
        return getattr(op, kind)(*inputs, _outputs=["y"])

    def term(x: Value, a: Value, y: Value) -> Array | None:
        array, rank = floats(a), rank_of(x)
        if array is None or rank is None or array.ndim > rank or not is_single(a):
            return None
        count = _share(x, y)  # a mean of nothing is not the term, so that sizes must be known
        factor = 1.0 if kind == "ReduceMean" else count
        return (
            None if factor is None or count is None else array.reshape(()) * np.float32(factor)
        )

    def check(context: Any, x: Value, a: Value, y: Value, **_: Any) -> bool:
        return floats(x) is None and term(x, a, y) is not None

    def rewrite(op: Op, x: Value, a: Value, y: Value, axes: Value | None = None) -> Value:
        found, inputs = term(x, a, y), (x,) if axes is None else (x, axes)
        assert found is not None, "check has seen to it"
        inner = getattr(op, kind)(*inputs, **node_of(y).attributes)
        made: Value = op.Add(inner, constant(op, found))
        return made

    return Rule(pattern, check, rewrite)


def _share(x: Value, y: Value) -> float | None:
    """Return how many elements of ``x`` there are to one of ``y``; None if unknown."""
    before, after = dims_of(x), dims_of(y)
    if before is None or after is None or None in (*before, *after):
        return None
    names = [sorted(d for d in dims if isinstance(d, str)) for dims in (before, after)]
    sizes = [[d for d in dims if isinstance(d, int)] for dims in (before, after)]
    if names[0] != names[1] or 0 in (*sizes[0], *sizes[1]):
        return None
    return float(np.prod(sizes[0]) / np.prod(sizes[1]))


def _common_factor(joint: str) -> Rule:
    def pattern(op: Op, x: Var, y: Var, s: Var, t: Var) -> Var:
        return getattr(op, joint)(op.Mul(x, s), op.Mul(y, t))

    def check(context: Any, x: Value, y: Value, s: Value, t: Value) -> bool:
        known = floats(x) is None or floats(y) is None
        return known and _factor(s, x) and _factor(t, y) and scalar(s) == scalar(t)

    def rewrite(op: Op, x: Value, y: Value, s: Value, t: Value) -> Value:
        made: Value = op.Mul(getattr(op, joint)(x, y), constant(op, _scalar(s)))
        return made

    return Rule(pattern, check, rewrite)


def _past_partner(kind: str, *, first: bool) -> Rule:
    """Return the rule for a sum or product with a constant beside another operand."""

    def pattern(op: Op, x: Var, a: Var, y: Var) -> Var:
        inner, outer = getattr(op, kind)(x, a), getattr(op, kind)
        return outer(inner, y) if first else outer(y, inner)

    def check(context: Any, x: Value, a: Value, y: Value) -> bool:
        array, rank = floats(a), rank_of(x)
        if array is None or floats(x) is not None or floats(y) is not None:
            return False
        if kind == "Mul" and not _factor(a, x):
            return False
        return rank is not None and array.ndim <= rank and rank == rank_of(y)

    def rewrite(op: Op, x: Value, a: Value, y: Value) -> Value:
        outer = getattr(op, kind)
        made: Value = outer(outer(x, y), a)
        return made

    return Rule(pattern, check, rewrite)


def _scalar(s: Value) -> Array:
    array = floats(s)
    assert array is not None, "check has seen to it"
    return array.reshape(())


_RULES = [
    _matmul_left(),
    _matmul_right(),
    _matmul_term(),
    *conv_rules("Conv"),
    *[_mean(kind) for kind in _MEANS],
    _common_factor("Add"),
    _common_factor("Sub"),
    _past_partner("Add", first=True),
    _past_partner("Add", first=False),
    *conv_rules("ConvTranspose"),
    conv_term(with_bias=False),
    conv_term(with_bias=True),
    *[_reduction(kind, with_axes=axes) for kind in _SUMS for axes in (False, True)],
    *[_reduced_term(kind, with_axes=axes) for kind in _SUMS for axes in (False, True)],
    _past_partner("Mul", first=True),
    _past_partner("Mul", first=False),
]
