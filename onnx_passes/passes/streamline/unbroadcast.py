"""Let constants be repeated by broadcasting instead of by themselves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import Array

_KINDS = ("Add", "Sub", "Mul", "Div")


@passes.verify.equality
@passes.register()
class Unbroadcast(Transformation, RewriteRuleSetPass):
    """Let constants be repeated by broadcasting instead of by themselves.

    Before: ``Add(x, c)`` where ``c`` is the same along an axis
    After:  ``Add(x, c')`` where ``c'`` has size 1 there; also Sub, Mul and Div

    Sound because broadcasting repeats it again, and ``x`` has the size of the result there.

    Leaves alone: axes along which ``x`` is not known to be as big as the constant; constants
    that are empty.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Call(*place) for place in _PLACES]

    def check(self) -> list[Any]:
        return [_repeats for _ in _PLACES]

    def rewrite(self) -> list[Any]:
        return [_rewrite(*place) for place in _PLACES]


_PLACES = [(kind, first) for kind in _KINDS for first in (True, False)]


class _Call:
    def __init__(self, kind: str, first: bool) -> None:
        self.kind, self.first = kind, first

    def __call__(self, op: Op, x: Var, c: Var) -> Var:
        return getattr(op, self.kind)(*((x, c) if self.first else (c, x)))


def _repeats(context: Any, x: Value, c: Value) -> bool:
    return _smaller(x, c) is not None


def _smaller(x: Value, c: Value) -> Array | None:
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


def _rewrite(kind: str, first: bool) -> Any:
    def rewrite(op: Op, x: Value, c: Value) -> Value:
        array = _smaller(x, c)
        assert array is not None, "check has seen to it"
        small = op.Constant(value=ir.tensor(array.copy()))
        made: Value = getattr(op, kind)(*((x, small) if first else (small, x)))
        return made

    return rewrite
