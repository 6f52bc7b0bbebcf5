"""Compute GroupNormalization by means."""

import math

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import Primitives


@passes.verify.tolerance
@passes.register()
@passes.register("lower")
class LowerGroupNormalization(LoweringPass):
    """Compute GroupNormalization by means.

    Before: ``GroupNormalization<num_groups, epsilon>(x, scale, bias)``
    After:  ``Reshape(n, Shape(x)) * scale + bias`` with
            ``n = (g - mean) / Sqrt(ReduceMean((g - mean) ** 2) + epsilon)`` and
            ``g = Reshape(x, [0, num_groups, -1])``, over the last axis of ``g``

    Sound because this is how the operator is defined; before opset 21 scale and bias have an
    element for each group, and act on ``n``. Half precision is computed in single precision,
    double in double. The contract is a tolerance: engines sum up in another order.

    Leaves alone: nodes whose type or rank is not known, as in functions, or whose size is or
    may be 0.
    """

    def pattern(self, op: Op, x: Var, scale: Var, bias: Var) -> Var:
        return op.GroupNormalization(x, scale, bias, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        dims = site.dims()
        if dims is None or len(dims) < 2:
            return "its rank is not known"
        # What is left over cannot be told of nothing; a dynamic batch may be.
        return "it is empty" if 0 in dims else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide, rank = to.widened(ir.DataType(site.integer("stash_type", 1))), site.rank()
        assert rank is not None, "an obstacle otherwise"
        x = site.given(0)
        grouped = to.reshape(wide.cast(x, to.dtype), self._grouped(site))
        result = wide.normalized(grouped, [2], site.number("epsilon", 1e-5))
        result = to.cast(result, wide.dtype)
        by_group, count = site.opset < 21, 3 if site.opset < 21 else rank
        shape = to.node("Shape", x)
        if not by_group:
            result = to.node("Reshape", result, shape)
        scale, bias = (to.unsqueeze(site.given(k), range(1, count - 1)) for k in (1, 2))
        result = to.node("Add", to.node("Mul", result, scale), bias)
        return to.node("Reshape", result, shape) if by_group else result

    def _grouped(self, site: Site) -> list[int]:
        dims, groups = site.dims() or [], site.integer("num_groups", 1)
        sizes = [dim for dim in dims[1:] if isinstance(dim, int)]
        if len(sizes) < len(dims) - 1:
            return [0, groups, -1]
        return [0, groups, math.prod(sizes) // groups]
