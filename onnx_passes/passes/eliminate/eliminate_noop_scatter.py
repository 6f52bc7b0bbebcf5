"""Remove a scatter that writes everything, or nothing."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.shapes import dims_of, sizes_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data

SCATTERS = ("ScatterND", "ScatterElements", "Scatter")


def _scattered(dims: str, indices: Spec, updates: str, **axis: object) -> Hint:
    """Return a tensor with indices that fit it, and with what they put there."""
    return Hint(
        {"x": data(dims), "i": (indices,), "u": data(updates)},
        {f"{name}.axis": (axis.get("axis"),) for name in ("ScatterElements", "Scatter")},
    )


_ALL_ELEMENTS = tuple(
    _scattered(dims, Spec(dims, along=along), dims, axis=axis)
    for dims, along, axis in (
        *(("a b", 0, None), ("a b", 0, 0), ("a b", 1, 1), ("a b c", -1, -1), ("a", 0, 0)),
    )
)
_NO_ELEMENT = tuple(
    _scattered(dims, Spec(none, along=0), none, axis=axis)
    for dims, none, axis in (("a b", "0 b", None), ("a b", "0 b", 0), ("a b c", "a 0 c", 1))
)


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopScatter(passes.Transformation, passes.RewriteRuleSetPass):
    """Remove a scatter that writes everything, or nothing.

    Before: ``ScatterND(x, [[0], [1]], u)`` of two rows; ``ScatterND(x, [], u)``
    After:  ``u``; ``x``

    Sound because every element is written once, from the same place of ``u``; or none is.

    Leaves alone: indices that are computed, in another order, or of a tensor of unknown size;
    a scatter that adds to what is there, or combines it otherwise, unless there is no index;
    indices of depth 0, which mean the whole tensor each.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "ScatterND-all": Hint(
            {},
            cases=(
                _scattered("a b", Spec("a 1", along=0), "a b"),
                _scattered("a b c", Spec("a 1", along=0), "a b c"),
                _scattered("a", Spec("a 1", along=0), "a"),
            ),
        ),
        "ScatterND-none": Hint(
            {},
            cases=(
                _scattered("a b", Spec("0 1", along=0), "0 b"),
                _scattered("a b c", Spec("0 2", along=0), "0 c"),
            ),
        ),
        **dict.fromkeys(("ScatterElements-all", "Scatter-all"), Hint({}, cases=_ALL_ELEMENTS)),
        **dict.fromkeys(("ScatterElements-none", "Scatter-none"), Hint({}, cases=_NO_ELEMENT)),
    }

    def rules(self) -> Iterator[Rule]:
        kinds = (("all", _overwrites, _updates), ("none", _is_idle, _data))
        for written, check, rewrite in kinds:
            for name in SCATTERS:
                yield Rule(partial(_call, name), rewrite, check, f"{name}-{written}")


def _call(operator: str, op: Op, x: Var, i: Var, u: Var) -> Var:
    return getattr(op, operator)(x, i, u)


def _is_idle(context: MatchContext, x: Value, i: Value, u: Value) -> bool:
    indices = constant_of(i)
    if indices is None or indices.size != 0 or dims_of(x) is None:
        return False
    # An index of depth 0 names the whole tensor, and has no number of its own.
    places = indices.numpy().shape
    return 0 in (places[:-1] if context.root.op_type == "ScatterND" else places)


def _overwrites(context: MatchContext, x: Value, i: Value, u: Value) -> bool:
    node: ir.Node = context.root
    indices, sizes = constant_of(i), sizes_of(x)
    if indices is None or sizes is None or not sizes or sizes_of(u) != sizes:
        return False
    if node.attributes.get_string("reduction", "none") != "none":
        return False
    array = indices.numpy()
    if node.op_type == "ScatterND":
        return _is_all_in_order(array, sizes)
    axis = node.attributes.get_int("axis", 0) or 0
    if list(array.shape) != sizes or not -len(sizes) <= axis < len(sizes):
        return False
    along = np.arange(sizes[axis]).reshape(
        [-1 if k == axis % len(sizes) else 1 for k in range(len(sizes))]
    )
    return bool(np.all(np.where(array < 0, array + sizes[axis], array) == along))


def _is_all_in_order(indices: Array, sizes: list[int]) -> bool:
    """Whether tuples of indices count through the first axes."""
    depth = (indices.shape or (0,))[-1]
    if not 0 < depth <= len(sizes) or list(indices.shape[:-1]) != sizes[:depth]:
        return False
    places = np.moveaxis(np.indices(sizes[:depth]), 0, -1)
    return bool(
        np.all(np.where(indices < 0, indices + np.array(sizes[:depth]), indices) == places)
    )


def _updates(op: Op, x: Value, i: Value, u: Value) -> Value:
    return u


def _data(op: Op, x: Value, i: Value, u: Value) -> Value:
    return x
