"""A pass that is wrong on purpose: what verification does about it."""

# Written as a pass reads at its shortest, so without annotations:
# ruff: noqa: ANN001, ANN201

from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


@passes.verify.equality
@passes.register()
class BreakAdds(Transformation, RewriteRulePass):
    """Turn x + y into x + x, which is wrong unless x equals y."""

    def pattern(self, op, x, y):
        return op.Add(x, y)

    def check(self, _, x, y):
        return x != y

    def rewrite(self, op, x, y):
        return op.Add(x, x)
