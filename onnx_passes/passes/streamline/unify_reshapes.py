"""Replace every operator that only changes a shape by a Reshape."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, data, ints


@passes.verify.equality
@passes.register("reorder")
class UnifyReshapes(RulePass):
    """Replace every operator that only changes a shape by a Reshape.

    Before: ``Flatten(x)``, ``Squeeze(x, axes)``, ``Unsqueeze(x, axes)``
    After:  ``Reshape(x, shape)`` with a constant shape

    Then two in a row merge, whatever they were.

    Sound because all of them keep the order of elements, and the shape is that of the result.

    Leaves alone: results with more than one dynamic dimension, or which may be empty
    beside a dynamic one; opsets before 5.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("a 1", "a 1 b"),
                "Squeeze.1": ints("1"),
                "Unsqueeze.1": ints("0", "1", "-1", "0 2"),
            }
        )
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _target(v: Values) -> list[int] | None:
    dims, given = dims_of(v["y"]), dims_of(v["x"])
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


def _reshape(op: Op, v: Values, target: list[int]) -> Value:
    shape = op.Constant(value=ir.tensor(np.array(target, np.int64)))
    return op.Reshape(v["x"], shape)


_RULES = [
    TermRule(call(kind, "x", result="y", more=kind != "Flatten"), _target, _reshape, since=5)
    for kind in ("Flatten", "Squeeze", "Unsqueeze")
]
