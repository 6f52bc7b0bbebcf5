"""Replace every operator that only changes a shape by a Reshape."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.matches import opset_at
from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
@passes.register("reorder")
class UnifyReshapes(Transformation, RewriteRuleSetPass):
    """Replace every operator that only changes a shape by a Reshape.

    Before: ``Flatten(x)``, ``Squeeze(x, axes)``, ``Unsqueeze(x, axes)``
    After:  ``Reshape(x, shape)`` with a constant shape

    Then two in a row merge, whatever they were.

    Sound because all of them keep the order of elements, and the shape is that of the result.

    Leaves alone: results of which more than one dimension is dynamic, or which may be empty
    beside a dynamic one; opsets before 5.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        def flatten(op: Op, x: Var) -> Var:
            return op.Flatten(x, _outputs=["y"])

        def squeeze(op: Op, x: Var) -> Var:
            return op.Squeeze(x, _allow_other_inputs=True, _outputs=["y"])

        def unsqueeze(op: Op, x: Var) -> Var:
            return op.Unsqueeze(x, _allow_other_inputs=True, _outputs=["y"])

        return [flatten, squeeze, unsqueeze]

    def check(self) -> list[Any]:
        return [_is_known] * 3

    def rewrite(self) -> list[Any]:
        return [_reshape] * 3


def _is_known(context: Any, x: Value, y: Value) -> bool:
    return opset_at(context) >= 5 and _target(x, y) is not None


def _target(x: Value, y: Value) -> list[int] | None:
    dims, given = dims_of(y), dims_of(x)
    if dims is None or given is None:
        return None
    sizes = [d if isinstance(d, int) else -1 for d in dims]
    if sizes.count(-1) > 1 or 0 in sizes:
        return None
    if -1 in sizes:
        # One dimension is found from the others, which must not be empty.
        known = [d for d in given if isinstance(d, int)]
        whole = len(known) == len(given) - 1 and 0 not in known
        if not whole:
            return None
    return sizes


def _reshape(op: Op, x: Value, y: Value) -> Value:
    target = _target(x, y)
    assert target is not None, "check has seen to it"
    made: Value = op.Reshape(x, op.Constant(value=ir.tensor(np.array(target, np.int64))))
    return made
