"""Remove a Reshape to the shape that a tensor has."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import dims_of, ints_of, is_shape_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopReshape(IdlePass):
    """Remove a Reshape to the shape that a tensor has.

    Before: ``Reshape(x, [0, -1])`` of a matrix ``x``, or ``Flatten<axis = 1>(x)``
    After:  ``x``

    Sound because the shape stays, and so does the order of the elements. Each dimension of the
    target copies one (0), names its size, or is the only one left to infer (-1).

    Leaves alone: a target that is computed, unless as the shape of the tensor itself; dynamic
    dimensions that the target gives numbers for, which is a check that a caller may rely on.
    """

    operators = ("Reshape", "Flatten")
    hints: ClassVar[Hints] = {
        "Reshape": Hint(
            {
                "x": data("a b", "a b 3"),
                "Reshape.1": (Spec(node="Shape", of=("x",)), *ints("0 -1", "a b", "0 0 3")),
            }
        )
    }

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the target describes the shape that is there."""
        dims = dims_of(x)
        if node.op_type == "Flatten":
            axis = node.attributes.get_int("axis", 1)
            return dims is not None and len(dims) == 2 and axis in (1, -1)
        if is_shape_of(node.inputs[1], x):
            return True
        target = ints_of(node.inputs[1])
        if dims is None or target is None or len(target) != len(dims):
            return False
        copies = not node.attributes.get_int("allowzero", 0)
        open_ = [
            size
            for size, dim in zip(target, dims, strict=True)
            if not (size == dim or (size == 0 and copies))
        ]
        return open_ in ([], [-1])
