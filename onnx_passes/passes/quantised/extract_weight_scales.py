"""Replace quantised weights by integers and a scale."""

from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, filled
from onnx_passes.passes.quantised._quantised_hints import INT8_LEVELS, SMALL, quantiser
from onnx_passes.passes.quantised._quantisers import grid_of, quantiser_of, quantisers

_LARGEST = 2.0**24
"""Up to here float32 holds every integer."""

IR_VERSION = 10


@passes.verify.equality
@passes.register()
class ExtractWeightScales(RulePass):
    """Replace quantised weights by integers and a scale.

    Before: ``Quant(w, scale, zero, bits)`` with a constant ``w``; also ``BipolarQuant``, and
            ``DequantizeLinear(integers, scale, zero)``; a bias alike
    After:  ``Mul(levels, scale)``, where ``levels`` is a constant of integers in float32; for
    a bias the constant that it is

    Sound because a quantiser ends in this product, and the integers are what it computes
    before. ONNX Runtime computes them. A bias is what is only added, or the third operand of
    Conv and its kin; its scale moves nowhere, and thresholds take in constants.

    Leaves alone: scales, zero points and bits that are computed; levels that are not integers
    or that float32 does not hold; opsets before 9.
    """

    needs = ("shape-inference",)

    hints: ClassVar[Hints] = {
        "*": quantiser("s", "z", "b", (Spec("a b", mixed=(0.5, -0.25, 1.0, 3.0)),)),
        "DequantizeLinear": Hint(
            {"x": INT8_LEVELS, "s": filled("", 0.5, 0.3, 2.0), "z": SMALL},
            {"DequantizeLinear.axis": (None,)},
            (ir.DataType.FLOAT,),
            13,
        ),
    }

    def table(self) -> list[TermRule]:
        return _RULES


_BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})


def _split(op: Op, v: Values, parts: tuple[Array, ...]) -> Value:
    levels, *scales = (op.Constant(value=ir.tensor(part)) for part in parts)
    return op.Mul(levels, *scales) if scales else levels


def _is_bias(value: Value) -> bool:
    """Whether a constant is added to something, and nothing else reads it."""
    uses = list(value.uses())
    return bool(uses) and all(
        (use.node.op_type in ("Add", "Sub") or (use.node.op_type in _BIASED and use.idx == 2))
        and use.node.domain == ""
        for use in uses
    )


def _parts(v: Values) -> tuple[Array, ...] | None:
    """Return levels and scale of quantised constants; of a bias what they are."""
    if constant_of(v["x"]) is None:
        return None
    node = node_of(v["y"])
    scale = _scale(node)
    result = None if scale is None else _compute(node, v.opset)
    if result is None or scale is None:
        return None
    if _is_bias(v["y"]):
        return (result,)
    with np.errstate(all="ignore"):
        levels = np.rint(result.astype(np.float64) / scale).astype(np.float32)
        same = np.array_equal(levels * scale, result)
    levels = levels + np.float32(0)  # -0 is no other integer
    return (levels, scale) if same and (np.abs(levels) <= _LARGEST).all() else None


def _scale(node: ir.Node) -> Array | None:
    """Return the positive scale of a quantiser, in the shape in which it is broadcast."""
    if node.domain == "":
        value = node.inputs[0]
        grid = grid_of(node, None if value is None else value.shape)
        return None if grid is None else grid.scale
    quantiser = quantiser_of(node)
    scale = None if quantiser is None else quantiser.scale
    return scale if scale is not None and (scale > 0).all() else None


def _compute(node: ir.Node, opset: int) -> Array | None:
    """Return what a node over constants computes."""
    proto = onnx.ModelProto(ir_version=IR_VERSION)
    proto.opset_import.add(domain="", version=opset)
    if node.domain:
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
        (found,) = open_session(proto).run(None, {})
    except Exception:
        return None  # the engine has no kernel for it
    return np.asarray(found)


_STANDARD = (call("DequantizeLinear", *names, result="y") for names in ("xsz", "xs"))
_RULES = [
    TermRule(place, _parts, _split, name=place.kind)
    for place in (*quantisers(*"xszb"), *_STANDARD)
]
