"""Permute the rows of weights in place of a Transpose in front of a Flatten."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermCall, TermRule, Values, call
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled, ints
from onnx_passes.passes.streamline._rule_constants import constant, floats

_HINT = Hint(
    {
        "x": data("2 2 3 4", "2 4 6 1", "2 1 1 24"),
        "w": (Spec("24 3", mixed=(1.0, -2.0, 0.5)),),
        "shape": ints("2 24", "0 24", "2 0"),
        "s": (Spec("3", mixed=(-1.0, 0.5, 2.0)),),
        "v": filled("", 1.0),
        "a": filled("", -4.0),
    },
    {"Transpose.perm": ([0, 3, 1, 2], [0, 2, 3, 1]), "Flatten.axis": (1, 2)},
    (ir.DataType.FLOAT,),
    13,
)


@passes.verify.tolerance
@passes.register()
class MoveTransposesToWeights(RulePass):
    """Move a Transpose in front of a Flatten into the weights of the product behind it.

    Before: ``MatMul(Flatten(Transpose(x)), w)``; Reshape to rows like Flatten, and thresholds
            that are the same for all elements, and a sum, may be between
    After:  ``MatMul(Flatten(x), w')``, with the rows of ``w`` in the order of ``x``

    So a network of convolutions on channels-last data needs no Transpose there.

    Sound because the products are the same. The contract is a tolerance: floats are summed in
    another order.

    Leaves alone: weights that are computed; a Transpose that moves the first axis; sizes that
    are not known; what something else reads before the product.
    """

    needs = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = {"*": _HINT}

    def table(self) -> list[TermRule]:
        return _RULES


def _rows(v: Values) -> Array | None:
    """Return the weights with their rows in the order of elements before the Transpose."""
    weights, before, rows = floats(v["w"]), dims_of(v["x"]), dims_of(v["f"])
    perm = node_of(v["t"]).attributes.get_ints("perm")
    sizes = [size for size in (before or [])[1:] if isinstance(size, int)]
    if weights is None or before is None or rows is None or perm is None or weights.ndim != 2:
        return None
    if len(sizes) + 1 != len(before) or perm[0] != 0 or len(rows) != 2:
        return None
    if not weights.size or rows[1] != len(weights) or int(np.prod(sizes)) != len(weights):
        return None
    if "s" in v and not all(_is_row(v[name]) for name in "sv"):
        return None
    if "a" in v and ((term := floats(v["a"])) is None or term.size != 1 or term.ndim > 2):
        return None
    spread = weights.reshape(*(sizes[axis - 1] for axis in perm[1:]), -1)
    order = [perm.index(axis) - 1 for axis in range(1, len(perm))]
    return spread.transpose(*order, len(order)).reshape(weights.shape)


def _is_row(value: Value) -> bool:
    """Whether thresholds or weights of them are the same for all elements."""
    array = floats(value)
    return (
        array is not None
        and array.ndim <= 3
        and array.size == max(array.shape[-1:], default=1)
    )


def _rule(flat: TermCall, between: int) -> TermRule:
    """Return the rule for one change of shape.

    Behind it are ``between`` nodes: thresholds, and a sum with one number.
    """
    inner: TermCall = flat
    if between:
        inner = call("MultiThreshold", inner, "s", "v", domain=CUSTOM)
    if between > 1:
        inner = call("Add", inner, "a")

    def make(op: Op, v: Values, rows: Array) -> Value:
        # Of one channel, what makes rows may begin at another axis, or copy a size.
        made = op.Flatten(v["x"], axis=1)
        if between:
            made = op.MultiThreshold(made, v["s"], v["v"], _domain=CUSTOM)
        if between > 1:
            made = op.Add(made, v["a"])
        return op.MatMul(made, constant(op, rows))

    name = "-".join((flat.kind, *("thresholds", "sum")[:between]))
    return TermRule(call("MatMul", inner, "w"), _rows, make, name=name)


_TURNED = call("Transpose", "x", result="t")
_FLAT = (call("Flatten", _TURNED, result="f"), call("Reshape", _TURNED, "shape", result="f"))
_RULES = [_rule(flat, between) for flat in _FLAT for between in range(3)]
