"""Put integers and a scale in the place of quantised weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.passes._support.matches import node_of, opset_at
from onnx_passes.passes._support.session import start
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._attributes import CALLS, quantiser_of

Array = np.ndarray[Any, np.dtype[Any]]

_LARGEST = 2.0**24
"""Up to here float32 holds every integer."""

IR_VERSION = 10


@passes.verify.equality
@passes.register()
class ExtractWeightScales(Transformation, RewriteRuleSetPass):
    """Put integers and a scale in the place of quantised weights.

    Before: ``Quant(w, scale, zero, bits)`` with a constant ``w``; also ``BipolarQuant``
    After:  ``Mul(levels, scale)``, where ``levels`` is a constant of integers in float32

    Sound because a quantiser ends in this product, and the integers are what it computes
    before. ONNX Runtime computes them.

    Leaves alone: scales, zero points and bits that are computed; levels that are no integers
    or that float32 does not hold; opsets before 9.
    """

    def pattern(self) -> list[Any]:
        return [_Call(*place) for place in CALLS]

    def check(self) -> list[Any]:
        return [self._is_constant for _ in CALLS]

    def rewrite(self) -> list[Any]:
        return [self._split for _ in CALLS]

    def _is_constant(self, context: Any, x: Value, y: Value, **_: Any) -> bool:
        if constant_of(x) is None:
            return False
        self._levels = _levels(node_of(y), opset_at(context))
        return self._levels is not None

    def _split(self, op: Op, x: Value, s: Value, **_: Any) -> Value:
        # The driver asks `check` about the same node right before.
        assert self._levels is not None, "check has seen to it"
        made: Value = op.Mul(op.Constant(value=ir.tensor(self._levels)), s)
        return made


class _Call:
    def __init__(self, kind: str, domain: str) -> None:
        self.kind, self.domain = kind, domain

    def __call__(self, op: Op, x: Var, s: Var, z: Var, b: Var) -> Var:
        inputs = (x, s) if self.kind == "BipolarQuant" else (x, s, z, b)
        return getattr(op, self.kind)(*inputs, _domain=self.domain, _outputs=["y"])


def _levels(node: ir.Node, opset: int) -> Array | None:
    quantiser = quantiser_of(node)
    if quantiser is None or not (quantiser.scale > 0).all():
        return None
    result = _computed(node, opset)
    if result is None:
        return None
    with np.errstate(all="ignore"):
        levels = np.rint(result.astype(np.float64) / quantiser.scale).astype(np.float32)
        same = np.array_equal(levels * quantiser.scale, result)
    levels = levels + np.float32(0)  # -0 is no other integer
    return levels if same and (np.abs(levels) <= _LARGEST).all() else None


def _computed(node: ir.Node, opset: int) -> Array | None:
    """Return what a node over constants computes."""
    proto = onnx.ModelProto(ir_version=IR_VERSION)
    proto.opset_import.add(domain="", version=opset)
    proto.opset_import.add(domain=node.domain, version=1)
    proto.graph.name = "weights"
    proto.graph.node.append(ir.serde.serialize_node(node))
    proto.graph.node[0].overload = ""
    for value in dict.fromkeys(node.inputs):
        tensor = constant_of(value)
        if value is None or tensor is None:
            return None
        array = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
        proto.graph.initializer.append(array)
    proto.graph.output.append(onnx.ValueInfoProto(name=str(node.outputs[0].name)))
    attach_bodies(proto)
    try:
        (found,) = start(proto).run(None, {})
    except Exception:
        return None  # the engine has no kernel for it
    return np.asarray(found)
