"""Remove a Cast to the type that a tensor has."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopCast(IdlePass):
    """Remove a Cast to the type that a tensor has.

    Before: ``Cast<to = 1>(x)`` of a float ``x``
    After:  ``x``

    Sound because such a Cast copies: nothing is rounded.

    Leaves alone: a Cast of a tensor whose type is unknown.
    """

    operators = ("Cast", "CastLike")

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the types are the same."""
        if node.op_type == "Cast":
            return x.dtype is not None and node.attributes.get_int("to") == x.dtype
        like = node.inputs[1]
        return like is not None and x.dtype is not None and like.dtype is x.dtype
