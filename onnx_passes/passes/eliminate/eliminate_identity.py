"""Remove Identity nodes."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


@passes.verify.equality
@passes.register("eliminate")
@passes.register("cleanup")
class EliminateIdentity(Transformation, RewriteRulePass):
    """Remove Identity nodes.

    Before: ``Identity(x)``
    After:  ``x``

    Sound because Identity returns its input, whatever its type.

    Leaves alone: an Identity that gives an output of a graph its name if the value cannot take
    that name. Such values are an input or initializer, another output, or a value from outside
    of a subgraph.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Identity(x)

    def rewrite(self, op: Op, x: Value) -> Value:
        return x
