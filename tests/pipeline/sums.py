"""A pass of rules whose applications are right or wrong, as its option says."""

from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


@passes.verify.equality
@passes.register()
class SumsByRule(Transformation, RewriteRulePass):
    """Write additions as sums, and multiply those that are named."""

    at: str = ""
    factor: float = 1.01

    def pattern(self, op, x, y):
        return op.Add(x, y, _outputs=["out"])

    def rewrite(self, op, x, y, out):
        total = op.Sum(x, y)
        if out.name not in self.at.split(","):
            return total
        return op.Mul(total, op.Constant(value_float=self.factor))
