"""Replace a Sigmoid and its product by one Swish."""

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import MatchContext, Op, Rule, Value
from onnx_passes.passes.common.matches import attribute_of, opset_at
from onnx_passes.passes.hints import Hint, Hints, filled


@passes.verify.tolerance
@passes.register()
class FuseSilu(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace a Sigmoid and its product by one Swish.

    Before: ``Mul(x, Sigmoid(x))``, ``Mul(x, Sigmoid(Mul(x, 1.702)))``
    After:  ``Swish(x)``, ``Swish<alpha = 1.702>(x)``

    Sound because that is how opset 24 defines Swish (SiLU). The contract is a tolerance: an
    engine may have a kernel of its own for it.

    It is in no group, to be named where it is wanted. ONNX Runtime 1.31 has a kernel for
    Sigmoid and Mul together, and computes Swish from its parts, in three times the time.

    Leaves alone: opsets before 24, unless ``custom`` is set; a factor that is computed,
    that callers may override, that makes the tensor bigger or that 32 bits do not hold; a
    Sigmoid that something else reads.

    Attributes:
        custom: Make Silu and Swish of the domain ``onnx_passes.ops`` instead, at any opset.
    """

    needs = ("shape-inference",)
    exclusive = True
    commute = True
    hints: ClassVar[Hints] = {
        "*": Hint({"a": filled("", 1.702, 0.5, 2.0, 0.1)}, {}, (ir.DataType.FLOAT,), 24)
    }

    custom: bool = False

    def rules(self) -> Iterator[Rule]:
        def known(context: MatchContext, x: Value) -> bool:
            return self.custom or opset_at(context) >= 24

        def with_factor(context: MatchContext, x: Value, a: Value) -> bool:
            return known(context, x) and attribute_of(x, a) is not None

        def plain(op: Op, x: Value) -> Value:
            return op.Silu(x, _domain=CUSTOM) if self.custom else op.Swish(x)

        def scaled(op: Op, x: Value, a: Value) -> Value:
            domain = {"_domain": CUSTOM} if self.custom else {}
            return op.Swish(x, alpha=attribute_of(x, a), **domain)

        yield Rule(lambda op, x: op.Mul(x, op.Sigmoid(x)), plain, known)
        yield Rule(lambda op, x, a: op.Mul(x, op.Sigmoid(op.Mul(x, a))), scaled, with_factor)
