"""Replace QuantAvgPool2d by a mean whose sum is truncated."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.attach import BodyCall
from onnx_passes.ops.bodies.operator_bodies import QONNX_ALIASES, dropped_bits
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.streamline._integer_ranges import plain_call
from onnx_passes.passes.streamline._rule_constants import constant


@passes.verify.equality
@passes.register()
class ConvertFromQuantAvgPool(RulePass):
    """Replace QuantAvgPool2d by a mean whose sum is truncated.

    Before: ``QuantAvgPool2d(x)``
    After:  ``Trunc(Mul(AveragePool(x), k * k), 1, 0, in_bits, out_bits)``

    Sound because both round the sum of a window to an integer, and drop the same lowest bits.

    Leaves alone: channels that come last; models that import version 2 of QONNX, whose Trunc
    differs; other types than float32.
    """

    needs = ("shape-inference",)

    def table(self) -> list[TermRule]:
        return _RULES


def _plain(v: Values) -> BodyCall | None:
    """Return the pooling with its attributes, if its channels come second."""
    node = node_of(v["y"])
    version = 1 if node.graph is None else node.graph.opset_imports.get(node.domain, 1)
    if v["x"].dtype != ir.DataType.FLOAT or version != 1:
        return None
    if node.attributes.get_string("data_layout", "NCHW") != "NCHW":
        return None
    return plain_call(node)


def _make_truncated(op: Op, v: Values, pool: BodyCall) -> Value:
    kernel, stride, after = (
        pool.attributes.get(name, 1) for name in ("kernel", "stride", "obits")
    )
    mean = op.AveragePool(v["x"], kernel_shape=[kernel, kernel], strides=[stride, stride])
    bits = (after + dropped_bits(pool), after)
    parameters = (constant(op, value) for value in (1.0, 0.0, *bits))
    total = op.Mul(mean, constant(op, kernel * kernel))
    return op.Trunc(total, *parameters, rounding_mode="FLOOR", _domain=pool.domain)


_RULES = [
    TermRule(call("QuantAvgPool2d", "x", result="y", domain=domain), _plain, _make_truncated)
    for domain in QONNX_ALIASES
]
