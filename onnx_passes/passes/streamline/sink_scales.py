"""Move factors and terms behind the linear operator that reads them."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, data, filled
from onnx_passes.passes.streamline import _moves as moves
from onnx_passes.passes.streamline._integer_ranges import cancels
from onnx_passes.passes.streamline._rule_constants import (
    along,
    at_axis,
    constant,
    floats,
    rank_of,
    scalar,
)

_EQUAL_FACTORS = Hint(
    {},
    cases=tuple(
        Hint({"x": data("a b"), "y": data("a b", "b"), "s": filled("", n), "t": filled("", n)})
        for n in (0.5, 3.0, -0.25)
    ),
    types=(ir.DataType.FLOAT,),
)
_TWO_GRIDS = Hint(
    {},
    cases=tuple(
        Hint({"x": data("a b"), "y": data("a b", "b"), "s": filled("", n), "t": filled("", m)})
        for n, m in ((0.5, 0.25), (0.3, 0.6), (-0.25, -1.0))
    ),
    types=(ir.DataType.FLOAT,),
)


@passes.verify.tolerance
@passes.register("reorder")
class SinkScales(RulePass):
    """Move factors and terms behind the linear operator that reads them.

    Before: ``MatMul(Mul(x, s), w)``, ``Conv(x, Mul(w, s))``, ``MatMul(Add(x, a), w)``,
            ``Add(Mul(x, s), Mul(y, s))``, ``Add(Mul(x, 4 * s), Mul(y, s))``,
            ``Add(Add(x, a), y)``, ``Mul(Mul(x, s), y)``, ``AveragePool(Mul(x, s))``,
            ``Conv(Add(x, a), w)``, ``ReduceSum(Add(x, a))``; ConvTranspose like Conv,
            ReduceMean and ReduceSum like AveragePool
    After:  ``Mul(MatMul(x, w), s)``, ``Mul(Conv(x, w), s)``, ``Add(MatMul(x, w), a @ w)``,
            ``Mul(Add(x, y), s)``, ``Mul(Add(Mul(x, 4), y), s)``, ``Add(Add(x, y), a)``,
            ``Mul(Mul(x, y), s)``, ``Mul(AveragePool(x), s)``,
            ``Add(Conv(x, w), sum(a * w))``, ``Add(ReduceSum(x), a * count)``

    Factors are single numbers, or numbers for each output channel of weights, or for each
    channel that is averaged or that a depthwise Conv reads. Of two factors in front of a sum,
    one may be the other times a power of two: integers are then on one grid. Terms in front of
    a MatMul go along its rows, those in front of a Conv along its channels. The bias of a Conv
    is added behind the factor.

    Sound because these operators are linear over the reals. The contract is a tolerance: sums
    of floats round at other places.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override, and those that are a first operand, which ``gather-terms`` puts second; a factor
    0; terms in front of a Conv that pads, of a ConvTranspose, or of weights that are computed;
    a term that cancels most of an integer, as -128 does behind 8 bits, in front of a mean or
    of products; a term -1 that makes -1 and 1 of one threshold; a Conv with a bias
    that is not a row; ranks that are not known.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        f"common-factor-{kind}": _EQUAL_FACTORS for kind in ("Add", "Sub")
    } | {f"powers-of-two-{kind}": _TWO_GRIDS for kind in ("Add", "Sub")}

    def table(self) -> list[TermRule]:
        return _RULES


_SCALED = call("Mul", "x", "s")


def _factor(value: Value, beside: Value) -> Array | None:
    """Return a constant that is one factor and gives the product no more axes."""
    array, rank = floats(value), rank_of(beside)
    fits = array is not None and array.size == 1 and array.ndim <= (rank or 0) and array.any()
    return array.reshape(()) if array is not None and fits else None


def _of_data(v: Values) -> moves.Found:
    """Find a single factor of what is computed."""
    factor = _factor(v["s"], v["x"])
    known = rank_of(v["x"]) and floats(v["x"]) is None
    return [factor] if factor is not None and known else None


def _of_columns(v: Values) -> moves.Found:
    """Find factors of the columns of a matrix."""
    array, rank = floats(v["s"]), rank_of(v["w"])
    if array is None or rank is None or rank < 2 or not array.all():
        return None
    row = along(array, rank - 1, rank)
    if row is None or (row.size > 1 and (rank_of(v["x"]) or 0) < 1):
        return None
    return [row.reshape(()) if row.size == 1 else row]


def _of_rows(v: Values) -> moves.Found:
    """Find what a term becomes by a product with constant weights."""
    array, matrix, dims = floats(v["a"]), floats(v["w"]), dims_of(v["x"])
    if array is None or matrix is None or matrix.ndim != 2 or not dims:
        return None
    row = along(array, len(dims) - 1, len(dims))
    if row is None or floats(v["x"]) is not None or moves.are_signs(v["x"], row):
        return None
    if row.size > 1 and dims[-1] != row.size:  # it may give x more columns
        return None
    if cancels(v["x"], row):
        return None
    full = np.broadcast_to(row.astype(np.float64), (matrix.shape[0],))
    return [(full @ matrix.astype(np.float64)).astype(np.float32)]


def _of_channels(v: Values) -> moves.Found:
    """Find a factor, or factors of channels, of what is averaged."""
    array, rank = floats(v["s"]), rank_of(v["x"])
    if array is None or rank is None or not array.all() or array.ndim > rank:
        return None
    if array.size == 1:
        return [array.reshape(())]
    row, dims = along(array, 1, rank), dims_of(v["x"])
    known = row is not None and dims is not None and dims[1] == row.size
    return [at_axis(row, 1, rank)[0]] if row is not None and known else None


def _of_sum(v: Values) -> moves.Found:
    """Find what a single term becomes by a reduction."""
    array, rank = floats(v["a"]), rank_of(v["x"])
    if array is None or rank is None or array.ndim > rank or array.size != 1:
        return None
    count = _share(v["x"], v["y"])  # a mean of nothing is not the term: sizes must be known
    node = v["y"].producer()
    if count is None or node is None or floats(v["x"]) is not None:
        return None
    is_mean = node.op_type == "ReduceMean"
    if is_mean and cancels(v["x"], array):
        return None
    return [array.reshape(()) * np.float32(1.0 if is_mean else count)]


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


def _common(v: Values) -> moves.Found:
    """Find a factor that two operands share."""
    one, other = _factor(v["s"], v["x"]), _factor(v["t"], v["y"])
    if one is None or other is None or scalar(v["s"]) != scalar(v["t"]):
        return None
    return None if floats(v["x"]) is not None and floats(v["y"]) is not None else [one]


def _steps(v: Values) -> tuple[Value, Array, Array] | None:
    """Find factors of two operands: one is the other times a power of two.

    Returns the operand of the larger one, the quotient and the smaller one.
    """
    one, other = _factor(v["s"], v["x"]), _factor(v["t"], v["y"])
    if (
        one is None
        or other is None
        or floats(v["x"]) is not None
        or floats(v["y"]) is not None
    ):
        return None
    quotient = np.abs(one / other)
    low = other if quotient > 1 else one
    ratio = np.float32((one if quotient > 1 else other) / low)
    if ratio <= 1 or np.frexp(ratio)[0] != 0.5:
        return None
    return v["x"] if quotient > 1 else v["y"], np.asarray(ratio), low


def _on_one_grid(kind: str) -> TermRule:
    """Write a sum on two grids as one on the finer of them."""

    def make(op: Op, v: Values, found: tuple[Value, Array, Array]) -> Value:
        coarse, ratio, low = found
        wide = op.Mul(coarse, constant(op, ratio))
        operands = (wide, v["y"]) if coarse is v["x"] else (v["x"], wide)
        return op.Mul(getattr(op, kind)(*operands), constant(op, low))

    before = call(kind, _SCALED, call("Mul", "y", "t"))
    return TermRule(before, _steps, make, name=f"powers-of-two-{kind}")


def _beside(kind: str) -> Callable[[Values], moves.Found]:
    """Return what finds a term or factor of one of two operands that are computed."""

    def find(v: Values) -> moves.Found:
        array, rank = floats(v["a"]), rank_of(v["x"])
        if array is None or floats(v["x"]) is not None or floats(v["y"]) is not None:
            return None
        if kind == "Mul" and _factor(v["a"], v["x"]) is None:
            return None
        if kind == "Add" and cancels(v["x"], array, beside=v["y"]):
            return None
        fits = rank is not None and array.ndim <= rank and rank == rank_of(v["y"])
        return [v["a"]] if fits else None

    return find


def _past_partner(kind: str) -> list[TermRule]:
    inner = call(kind, "x", "a")
    orders = ((inner, "y"), ("y", inner))
    return [moves.behind(call(kind, *order), _beside(kind), kind) for order in orders]


def _of_reductions(
    outer: str, inner: str, find: Callable[[Values], moves.Found]
) -> list[TermRule]:
    return [
        moves.behind(call(kind, call(outer, "x", inner), *axes, result="y"), find, outer)
        for kind in ("ReduceMean", "ReduceSum")
        for axes in ((), ("axes",))
    ]


_RULES = [
    moves.behind(call("MatMul", _SCALED, "w"), _of_data, "Mul"),
    moves.behind(call("MatMul", "x", call("Mul", "w", "s")), _of_columns, "Mul"),
    moves.behind(call("MatMul", call("Add", "x", "a"), "w"), _of_rows, "Add"),
    *moves.conv_rules("Conv"),
    moves.behind(call("AveragePool", _SCALED, result="y"), _of_channels, "Mul"),
    moves.behind(call("GlobalAveragePool", _SCALED, result="y"), _of_channels, "Mul"),
    *(
        moves.behind(
            call(kind, _SCALED, call("Mul", "y", "t")),
            _common,
            "Mul",
            name=f"common-factor-{kind}",
        )
        for kind in ("Add", "Sub")
    ),
    *(_on_one_grid(kind) for kind in ("Add", "Sub")),
    *_past_partner("Add"),
    *moves.conv_rules("ConvTranspose"),
    *moves.conv_terms(),
    *_of_reductions("Mul", "s", _of_data),
    *_of_reductions("Add", "a", _of_sum),
    *_past_partner("Mul"),
]
