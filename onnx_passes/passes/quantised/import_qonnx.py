"""Take QONNX's quantisers and thresholds into our own domain."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES
from onnx_passes.ops.bodies.rounding import is_rounding_mode
from onnx_passes.ops.bodies.thresholds import channel_axis
from onnx_passes.ops.bodies.writer import Call
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
class ImportQonnx(Transformation, RewriteRuleSetPass):
    """Take QONNX's quantisers and thresholds into our own domain.

    Before: ``qonnx.custom_op.general.Quant(x, scale, zero, bits)``, also as ``IntQuant`` and
            in the domain ``onnx.brevitas``; ``qonnx.custom_op.general.MultiThreshold(x, t)``
    After:  ``onnx_passes.ops.Quant(x, scale, zero, bits)`` with all of its attributes;
            ``onnx_passes.ops.MultiThreshold(x, t', weights) * out_scale + out_bias``, whose
            thresholds broadcast along the channels

    A file that the program writes holds functions for them, so that any engine runs it.

    Sound because the operators compute the same by definition: attributes that are left out
    have QONNX's defaults, and the layout of thresholds is told by their shape.

    Leaves alone: a rounding mode that does not exist; thresholds that are computed; a
    MultiThreshold whose input has no known rank, or another one than the layout. Every other
    operator of QONNX keeps its domain and runs as well.

    Attributes:
        operators: Names of the operators; empty for all three.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    operators: tuple[str, ...] = ()

    def pattern(self) -> list[Any]:
        return [_Call(*place) for place in self._places()]

    def check(self) -> list[Any]:
        return [_CHECKS[kind] for kind, _ in self._places()]

    def rewrite(self) -> list[Any]:
        return [_REWRITES[kind] for kind, _ in self._places()]

    def _places(self) -> list[tuple[str, str]]:
        return [place for place in _PLACES if not self.operators or place[0] in self.operators]


_PLACES = [
    (kind, domain)
    for domain in QONNX_ALIASES
    for kind in ("Quant", "IntQuant", "MultiThreshold")
]


class _Call:
    def __init__(self, kind: str, domain: str) -> None:
        self.kind, self.domain = kind, domain

    def __call__(self, op: Op, x: Var, a: Var, b: Var, c: Var) -> Var:
        inputs = (x, a) if self.kind == "MultiThreshold" else (x, a, b, c)
        return getattr(op, self.kind)(*inputs, _domain=self.domain, _outputs=["y"])


def _is_quant(context: Any, y: Value, **_: Any) -> bool:
    node = node_of(y)
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return False
    return is_rounding_mode(node.attributes.get_string("rounding_mode", "ROUND") or "")


def _quant(op: Op, x: Value, a: Value, b: Value, c: Value, y: Value) -> Value:
    attributes = node_of(y).attributes
    made: Value = op.Quant(
        x,
        a,
        b,
        c,
        signed=attributes.get_int("signed", 1),
        narrow=attributes.get_int("narrow", 1),
        rounding_mode=attributes.get_string("rounding_mode", "ROUND"),
        _domain=CUSTOM,
    )
    return made


def _is_threshold(context: Any, x: Value, a: Value, y: Value, **_: Any) -> bool:
    return _table(x, a, y) is not None


def _table(x: Value, a: Value, y: Value) -> np.ndarray[Any, np.dtype[Any]] | None:
    """Return thresholds in the shape that broadcasts with ``x`` and one more axis."""
    tensor, node = constant_of(a), node_of(y)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT or len(tensor.shape) != 2:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    layout = node.attributes.get_string("data_layout") or ""
    rank = None if x.shape is None else len(x.shape)
    if rank is None or len(layout) not in (0, rank):
        return None
    call = Call(node.domain, node.op_type, 2, {"data_layout": layout}, 0)
    axis = channel_axis(call, rank)
    table = tensor.numpy()
    if axis is None or axis >= rank:
        return None
    shape = [1] * rank
    shape[axis] = table.shape[0]
    return table.reshape(*shape, table.shape[1])


def _thresholds(op: Op, x: Value, a: Value, y: Value, **_: Any) -> Value:
    table, attributes = _table(x, a, y), node_of(y).attributes
    assert table is not None, "check has seen to it"
    weights = op.Constant(value=ir.tensor(np.ones((), np.float32)))
    constant = op.Constant(value=ir.tensor(table))
    result: Value = op.MultiThreshold(x, constant, weights, _domain=CUSTOM)
    scale = attributes.get_float("out_scale", 1.0)
    bias = attributes.get_float("out_bias", 0.0)
    if scale != 1.0:
        result = op.Mul(result, op.Constant(value=ir.tensor(np.float32(scale))))
    if bias != 0.0:
        result = op.Add(result, op.Constant(value=ir.tensor(np.float32(bias))))
    return result


_CHECKS = {"Quant": _is_quant, "IntQuant": _is_quant, "MultiThreshold": _is_threshold}
_REWRITES = {"Quant": _quant, "IntQuant": _quant, "MultiThreshold": _thresholds}
