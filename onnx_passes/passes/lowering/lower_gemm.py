"""Lower Gemm to MatMul."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.hints import Hint, Hints
from onnx_passes.passes.lowering._lowering_pass import FLOATS, LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerGemm(LoweringPass):
    """Lower Gemm to MatMul.

    Before: ``Gemm<alpha, beta, transA, transB>(a, b, c)``
    After:  ``alpha * MatMul(Transpose(a), Transpose(b)) + beta * c``; without what is not
            asked for

    Sound because this is how the operator is defined. The contract is a tolerance: engines
    fold the factors into the product, and sum up in another order. Factors that half precision
    would round are multiplied in single precision.

    Leaves alone: integers with factors that are not 1; opsets before 9 for integers, whose
    MatMul has none; nodes whose type is not known, as in functions.
    """

    dtypes = frozenset(
        {*FLOATS, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64}
    )

    hints: ClassVar[Hints] = {"*": Hint({}, {"Gemm.beta": (None, 1.0, 0.0, 0.5)})}

    def pattern(self, op: Op, a: Var, b: Var) -> Var:
        return op.Gemm(a, b, _allow_other_inputs=True, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if site.dtype in FLOATS:
            return None
        factors = (site.number("alpha", 1.0), site.number("beta", 1.0))
        if site.opset < 9 or factors != (1.0, 1.0):
            return "its integers are multiplied by a number"
        return None

    def lowered(self, to: Primitives, site: Site) -> Value:
        alpha, beta = site.number("alpha", 1.0), site.number("beta", 1.0)
        wide = to.exact(alpha, beta)
        factors = []
        for index, name in enumerate(("transA", "transB")):
            factor = wide.cast(site.given(index), to.dtype)
            turned = bool(site.integer(name, 0))
            factors.append(to.node("Transpose", factor, perm=[1, 0]) if turned else factor)
        result, bias = self._scaled(wide, to.node("MatMul", *factors), alpha), site.input(2)
        if bias is not None and beta != 0.0:
            bias = self._scaled(wide, wide.cast(bias, to.dtype), beta)
            result = wide.node("Add", result, bias)
        return to.cast(result, wide.dtype)

    def _scaled(self, to: Primitives, value: Value, factor: float) -> Value:
        return value if factor == 1.0 else to.node("Mul", value, to.number(factor))
