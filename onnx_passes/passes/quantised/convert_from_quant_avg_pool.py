"""Replace QuantAvgPool2d by a mean whose sum is truncated."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import QONNX_ALIASES
from onnx_passes.ops.bodies.pooling import dropped_bits
from onnx_passes.ops.bodies.writer import Call
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import number


@passes.verify.equality
@passes.register()
class ConvertFromQuantAvgPool(Transformation, RewriteRuleSetPass):
    """Replace QuantAvgPool2d by a mean whose sum is truncated.

    Before: ``QuantAvgPool2d(x)``
    After:  ``Trunc(Mul(AveragePool(x), k * k), 1, 0, in_bits, out_bits)``

    Sound because both round the sum of a window to an integer, and drop the same lowest bits.

    Leaves alone: channels that come last; models that import version 2 of QONNX, whose Trunc
    is another one; other types than float32.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Pool(domain) for domain in QONNX_ALIASES]

    def check(self) -> list[Any]:
        return [_can_be_truncated for _ in QONNX_ALIASES]

    def rewrite(self) -> list[Any]:
        return [_truncated for _ in QONNX_ALIASES]


class _Pool:
    def __init__(self, domain: str) -> None:
        self.domain = domain

    def __call__(self, op: Op, x: Var) -> Var:
        return op.QuantAvgPool2d(x, _domain=self.domain, _outputs=["y"])


def _can_be_truncated(context: Any, x: Value, y: Value) -> bool:
    node = node_of(y)
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return False
    if x.dtype != ir.DataType.FLOAT:
        return False
    version = 1 if node.graph is None else node.graph.opset_imports.get(node.domain, 1)
    return version == 1 and node.attributes.get_string("data_layout", "NCHW") == "NCHW"


def _truncated(op: Op, x: Value, y: Value) -> Value:
    node = node_of(y)
    attributes = {a.name: a.value for a in node.attributes.values()}
    dropped = dropped_bits(Call(node.domain, node.op_type, 1, attributes, 0))
    kernel, stride = (node.attributes.get_int(name, 1) or 1 for name in ("kernel", "stride"))
    after = node.attributes.get_int("obits", 1) or 1
    mean = op.AveragePool(x, kernel_shape=[kernel, kernel], strides=[stride, stride])
    parameters = (number(op, value) for value in (1.0, 0.0, after + dropped, after))
    total = op.Mul(mean, number(op, kernel * kernel))
    made: Value = op.Trunc(total, *parameters, rounding_mode="FLOOR", _domain=node.domain)
    return made
