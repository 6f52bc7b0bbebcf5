"""Convert QONNX's quantisers and thresholds to our own domain."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.attach import BodyCall
from onnx_passes.ops.bodies.operator_bodies import (
    CUSTOM,
    QONNX_ALIASES,
    channel_axis,
    is_rounding_mode,
)
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data
from onnx_passes.passes.quantised._quantised_hints import quantiser
from onnx_passes.passes.streamline._rule_constants import constant
from onnx_passes.plain import PlainDict


@passes.verify.equality
@passes.register()
class ImportQonnx(RulePass):
    """Convert QONNX's quantisers and thresholds to our own domain.

    Before: ``qonnx.custom_op.general.Quant(x, scale, zero, bits)``, also as ``IntQuant`` and
            in the domain ``onnx.brevitas``; ``qonnx.custom_op.general.MultiThreshold(x, t)``
    After:  ``onnx_passes.ops.Quant(x, scale, zero, bits)`` with all of its attributes;
            ``onnx_passes.ops.MultiThreshold(x, t', weights) * out_scale + out_bias``, whose
            thresholds broadcast along the channels

    A file that the program writes holds functions for them, so that any engine runs it.

    Sound because the operators compute the same by definition: attributes that are left out
    have QONNX's defaults, and the shape of thresholds shows their layout.

    Leaves alone: a rounding mode that does not exist; thresholds that are computed; a
    MultiThreshold whose input has no known rank, or another one than the layout. Every other
    operator of QONNX keeps its domain and runs as well.

    Attributes:
        operators: Names of the operators; empty for all three.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": quantiser("a", "b", "c"),
        "MultiThreshold": Hint(
            {"x": data("a c", "a c d"), "a": (Spec("c 3", mixed=(-1.0, 0.5, 2.0)),)},
            {
                "MultiThreshold.out_scale": (1.0, 0.5, None),
                "MultiThreshold.out_bias": (0.0, -2.0, None),
                "MultiThreshold.out_dtype": ("INT8",),
                "MultiThreshold.data_layout": ("NC", "NCW", None),
            },
            (ir.DataType.FLOAT,),
            13,
        ),
    }

    operators: tuple[str, ...] = ()

    def table(self) -> list[TermRule]:
        return [
            _RULES[kind](kind, domain)
            for domain in QONNX_ALIASES
            for kind in _RULES
            if not self.operators or kind in self.operators
        ]


def _quant(kind: str, domain: str) -> TermRule:
    def find(v: Values) -> PlainDict | None:
        attributes = node_of(v["y"]).attributes
        if any(attribute.is_ref() for attribute in attributes.values()):
            return None
        mode = attributes.get_string("rounding_mode", "ROUND") or ""
        flags = {name: attributes.get_int(name, 1) for name in ("signed", "narrow")}
        return {**flags, "rounding_mode": mode} if is_rounding_mode(mode) else None

    def make(op: Op, v: Values, found: PlainDict) -> Value:
        return op.Quant(*(v[name] for name in "xabc"), **found, _domain=CUSTOM)

    return TermRule(call(kind, *"xabc", result="y", domain=domain), find, make, name=kind)


def _thresholds(kind: str, domain: str) -> TermRule:
    before = call(kind, "x", "a", result="y", domain=domain)
    return TermRule(before, _table, _make_thresholds, name=kind)


def _table(v: Values) -> Array | None:
    """Return thresholds in the shape that broadcasts with ``x`` and one more axis."""
    x, tensor, node = v["x"], constant_of(v["a"]), node_of(v["y"])
    if tensor is None or tensor.dtype != ir.DataType.FLOAT or len(tensor.shape) != 2:
        return None
    array = tensor.numpy()
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    layout = node.attributes.get_string("data_layout") or ""
    rank = None if x.shape is None else len(x.shape)
    if rank is None or len(layout) not in (0, rank):
        return None
    call = BodyCall(node.domain, node.op_type, 2, {"data_layout": layout}, 0)
    axis = channel_axis(call, rank)
    if axis is None or axis >= rank:
        return None
    shape = [1] * rank
    shape[axis] = array.shape[0]
    return array.reshape(*shape, array.shape[1])


def _make_thresholds(op: Op, v: Values, table: Array) -> Value:
    attributes = node_of(v["y"]).attributes
    result: Value = op.MultiThreshold(
        v["x"], constant(op, table), constant(op, 1), _domain=CUSTOM
    )
    scale = attributes.get_float("out_scale", 1.0)
    bias = attributes.get_float("out_bias", 0.0)
    result = op.Mul(result, constant(op, scale)) if scale != 1.0 else result
    return op.Add(result, constant(op, bias)) if bias != 0.0 else result


_RULES = {"Quant": _quant, "IntQuant": _quant, "MultiThreshold": _thresholds}
