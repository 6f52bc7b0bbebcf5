"""Lower GroupNormalization to means."""

import math

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site

_FLOAT = ir.DataType.FLOAT


@passes.verify.tolerance(rtol=1e-3)
@passes.register("lower")
class LowerGroupNormalization(LoweringPass):
    """Lower GroupNormalization to means.

    Before: ``GroupNormalization<num_groups, epsilon>(x, scale, bias)``
    After:  ``Reshape(n, Shape(x)) * scale + bias`` with
            ``n = (g - mean) / Sqrt(ReduceMean((g - mean) ** 2) + epsilon)`` and
            ``g = Reshape(x, [0, num_groups, -1])``, over the last axis of ``g``

    Sound because this is how the operator is defined. Half precision is computed in single
    precision. The contract is a wide tolerance: ONNX Runtime loses digits of a small variance,
    where what this makes of it does not.

    Leaves alone: opsets before 21, where the operator is deprecated; nodes whose type or rank
    is not known, as in functions; empty ones; doubles with a ``stash_type`` of single
    precision, the default, in which engines find the variance in different ways.
    """

    since = 21

    def pattern(self, op: Op, x: Var, scale: Var, bias: Var) -> Var:
        return op.GroupNormalization(x, scale, bias, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        dims = site.dims()
        if dims is None or len(dims) < 2:
            return "its rank is not known"
        if not site.rank(1) == site.rank(2) == 1:
            return "its scale and bias are not known to be rows"
        if site.dtype is ir.DataType.DOUBLE and site.integer("stash_type", 1) == _FLOAT:
            return "it normalises doubles in single precision"
        # What is left over is not known for an empty tensor; a dynamic batch may be empty.
        return "it is empty" if 0 in dims else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened(ir.DataType(site.integer("stash_type", 1)))
        x, rank = site.given(0), site.rank()
        assert rank is not None, "an obstacle otherwise"
        grouped = to.reshape(wide.cast(x, to.dtype), self._grouped(site))
        result = wide.normalized(grouped, [2], site.number("epsilon", 1e-5))
        result = wide.node("Reshape", result, to.node("Shape", x))
        scale, bias = (
            to.unsqueeze(wide.cast(site.given(k), to.dtype), range(1, rank - 1))
            for k in (1, 2)
        )
        result = wide.node("Add", wide.node("Mul", result, scale), bias)
        return to.cast(result, wide.dtype)

    def _grouped(self, site: Site) -> list[int]:
        dims, groups = site.dims() or [], site.integer("num_groups", 1)
        sizes = [dim for dim in dims[1:] if isinstance(dim, int)]
        if len(sizes) < len(dims) - 1:
            return [0, groups, -1]
        return [0, groups, math.prod(sizes) // groups]
