"""Remove an Expand or Tile that repeats nothing."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import dims_of, ints_of, is_shape_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopExpand(IdlePass):
    """Remove an Expand or Tile that repeats nothing.

    Before: ``Expand(x, [1, 3])`` of a ``x`` of shape [2, 3], or ``Tile(x, [1, 1])``
    After:  ``x``

    Sound because every dimension of the target is 1 or the size that is there.

    Leaves alone: a target that is computed, unless as the shape of the tensor itself; more
    dimensions than the tensor has.
    """

    operators = ("Expand", "Tile")
    hints: ClassVar[Hints] = {
        "Expand": Hint(
            {
                "x": data("a b", "a b c"),
                "Expand.1": (Spec(node="Shape", of=("x",)), *ints("1", "b", "c")),
            }
        ),
        "Tile": Hint(
            {},
            cases=tuple(
                Hint({"x": data(dims), "Tile.1": ints(ones, ones, twos)})
                for dims, ones, twos in (("a b", "1 1", "1 2"), ("a b c", "1 1 1", "2 1 1"))
            ),
        ),
    }

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether nothing is repeated."""
        target = ints_of(node.inputs[1])
        if node.op_type == "Tile":
            return target is not None and len(node.inputs) == 2 and set(target) <= {1}
        if is_shape_of(node.inputs[1], x):
            return True
        dims = dims_of(x)
        if dims is None or target is None or len(target) > len(dims):
            return False
        pairs = zip(reversed(dims), reversed(target), strict=False)
        return all(size in (1, dim) for dim, size in pairs)
