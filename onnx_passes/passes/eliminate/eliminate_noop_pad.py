"""Remove a Pad by nothing."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import ints_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopPad(IdlePass):
    """Remove a Pad by nothing.

    Before: ``Pad(x, [0, 0, 0, 0])``
    After:  ``x``

    Sound because nothing is added in any mode.

    Leaves alone: amounts that are computed.
    """

    operators = ("Pad",)

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether all amounts are zero."""
        given = node.attributes.get_ints("pads")
        amounts = ints_of(node.inputs[1]) if given is None else list(given)
        return amounts is not None and set(amounts) == {0}
