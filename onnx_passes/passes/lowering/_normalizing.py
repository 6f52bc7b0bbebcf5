"""What passes that replace a BatchNormalization have in common."""

from __future__ import annotations

from onnx_passes.passes.base import Op, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site


class BatchNormalizationPass(LoweringPass):
    """Replace a BatchNormalization in inference mode, of known rank."""

    since = 9

    def pattern(self, op: Op, x: Var, s: Var, b: Var, m: Var, v: Var) -> Var:
        return op.BatchNormalization(x, s, b, m, v, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if site.integer("training_mode", 0) or len(site.node.outputs) > 1:
            return "it is in training mode"
        if (site.rank() or 0) < 2:
            return "its rank is not known, or below 2"
        if (types := self.obstacle_of_types(site)) is not None:
            return types
        if any(site.rank(k) != 1 for k in range(1, 5)):
            return "its parameters are not known to be rows"
        return None

    def obstacle_of_types(self, site: Site) -> str | None:
        """Say why the types of the parameters do not do; None where they do."""
        if any(site.given(k).dtype not in self.dtypes for k in range(1, 5)):
            return "the types of its parameters are not known"
        return None
