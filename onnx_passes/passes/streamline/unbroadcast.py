"""Replace constants by smaller ones that broadcasting repeats."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled


@passes.verify.equality
@passes.register()
class Unbroadcast(RulePass):
    """Replace constants by smaller ones that broadcasting repeats.

    Before: ``Add(x, c)`` where ``c`` is the same along an axis
    After:  ``Add(x, c')`` where ``c'`` has size 1 there; also Sub, Mul and Div

    Sound because broadcasting repeats it again, and ``x`` has the size of the result there.

    Leaves alone: axes along which ``x`` is not known to be as big as the constant; constants
    that are empty.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": Hint(
            {},
            cases=(
                Hint({"x": data("a b"), "c": filled("1 b", 0.5, 2.0)}),
                Hint({"x": data("1 b", "a b"), "c": filled("1 b", -1.0)}),
                Hint({"x": data("a 2"), "c": (Spec("a 2", doubled=True),)}),
            ),
        )
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _smaller(v: Values) -> Array | None:
    x, c = v["x"], v["c"]
    tensor, dims = constant_of(c), dims_of(x)
    if tensor is None or dims is None or constant_of(x) is not None:
        return None
    array = tensor.numpy()
    if array.size <= 1 or array.ndim > len(dims):
        return None
    found = array
    for axis in range(array.ndim):
        first = np.take(found, [0], axis=axis)
        same = dims[len(dims) - array.ndim + axis] == array.shape[axis]
        if same and found.shape[axis] > 1 and _equal(found, first):
            found = first
    while found.ndim and found.shape[0] == 1:
        found = found[0]
    return found if found.size < array.size else None


def _equal(array: Array, first: Array) -> bool:
    """Whether an array repeats its first slice bit for bit, the sign of zeros included."""
    spread = np.broadcast_to(first, array.shape)
    return bool(
        np.ascontiguousarray(spread).tobytes() == np.ascontiguousarray(array).tobytes()
    )


def _rule(kind: str, names: str) -> TermRule:
    def make(op: Op, v: Values, small: Array) -> Value:
        both = {"x": v["x"], "c": op.Constant(value=ir.tensor(small.copy()))}
        return getattr(op, kind)(*(both[name] for name in names))

    return TermRule(call(kind, *names), _smaller, make)


_RULES = [
    _rule(kind, names) for kind in ("Add", "Sub", "Mul", "Div") for names in ("xc", "cx")
]
