"""Replace a product and a maximum by one LeakyRelu."""

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value
from onnx_passes.passes.common.matches import attribute_of, opset_at, scalar_of, single_or_half
from onnx_passes.passes.hints import Hint, Hints, filled


@passes.verify.tolerance
@passes.register("fuse")
class FuseLeakyRelu(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace a product and a maximum by one LeakyRelu.

    Before: ``Max(x, Mul(x, 0.1))``
    After:  ``LeakyRelu<alpha = 0.1>(x)``

    Sound because ``a x`` is above ``x`` exactly where ``x`` is negative, for ``a`` between 0
    and 1; NaN and infinities go the same way. The contract is a tolerance: an engine may
    round the attribute, which has 32 bits, to the type of ``x`` in its own way.

    Leaves alone: factors up to 0 (times infinity that is NaN) and from 1; factors that are
    computed, that callers may override, or that make the tensor bigger; types for which
    engines have no LeakyRelu, or that are not known; a product that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True
    commute = True
    hints: ClassVar[Hints] = {
        "*": Hint({"a": filled("", 0.1, 0.01, 0.25, 1.0)}, {}, (ir.DataType.FLOAT,))
    }

    def rules(self) -> Iterator[Rule]:
        def leaks(context: MatchContext, x: Value, a: Value) -> bool:
            if attribute_of(x, a) is None or not _lies_between(a, 0, 1):
                return False
            return opset_at(context) >= 8 and single_or_half(a, x)

        def leaky(op: Op, x: Value, a: Value) -> Value:
            return op.LeakyRelu(x, alpha=attribute_of(x, a))

        yield Rule(lambda op, x, a: op.Max(x, op.Mul(x, a)), leaky, leaks)
        yield Rule(lambda op, x, a: op.Max(op.Mul(x, a), x), leaky, leaks)


def _lies_between(a: Value, low: float, high: float) -> bool:
    number = scalar_of(a)
    return number is not None and low < number < high
