"""Replace quantisers of QONNX by QuantizeLinear, Clip and DequantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.bodies.operator_bodies import is_quantiser
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import quantiser
from onnx_passes.passes.quantised._quantisers import (
    PER_CHANNEL,
    Levels,
    Quantiser,
    axis_of,
    quantiser_of,
    quantisers,
    range_of,
)

_CLIPS_INTEGERS = 12


@passes.verify.tolerance
@passes.register()
class ConvertToQcdq(RulePass):
    """Replace quantisers of QONNX by QuantizeLinear, Clip and DequantizeLinear.

    Before: ``Quant(x, scale, zero, bits)``
    After:  ``DequantizeLinear(Clip(QuantizeLinear(x, scale, zero), low, high), scale, zero)``
            over 8 bits, without the Clip if they are what is wanted; for constants
            ``DequantizeLinear(integers, scale, zero)``

    Scales may differ along one axis. With ``narrow_types``, 4 bits are int4 from opset 21 on,
    and 2 bits int2 from opset 25 on.

    Sound because both round the quotient to the nearest integer, ties to the even one, and
    saturate. Where the zero point is not 0, QONNX adds it before it rounds: a number within a
    rounding of a tie may come out one level off. Of NaN, QuantizeLinear makes some integer:
    the pass speaks of finite numbers.

    Leaves alone: quantisers of 1 bit, of more than 8 and of bits that are not an integer;
    other rounding modes; zero points that are odd, whose ties go the other way, or that differ
    along an axis; scales that are not positive, are computed or differ along several axes,
    or that are inputs with a default, which a note says; parameters of more axes than the
    tensor, which make the result bigger;
    opsets before 10, before 12 for a Clip, and before 13 for scales along an axis.

    Attributes:
        narrow_types: Make integers of 4 and 2 bits where the opset has them.
    """

    finite_only = True
    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {"*": quantiser("s", "z", "b")}

    narrow_types: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules, and note the quantisers whose parameters callers may override."""
        result = super().call(model)
        given = set(model.graph.inputs)
        left = [
            node.name or node.op_type
            for node in all_nodes(model)
            if is_quantiser(node.domain, node.op_type) and given.intersection(node.inputs[1:])
        ]
        if left:
            self.context.notes.append(
                f"{len(left)} kept, whose scale, zero point or bits are inputs of the model "
                f"({', '.join(left[:5])}); if no caller gives them, run "
                "remove-initializers-from-inputs before"
            )
        return result

    def table(self) -> list[TermRule]:
        places = (place for place in quantisers(*"xszb") if place.kind != "BipolarQuant")
        return [TermRule(place, self._plan, _convert) for place in places]

    def _plan(self, v: Values) -> _Plan | None:
        node, x, opset = node_of(v["y"]), v["x"], v.opset
        quantiser = quantiser_of(node)
        widened = any(widens(x, parameter) for parameter in node.inputs[1:])
        if quantiser is None or quantiser.bipolar or widened or not _is_nearest(quantiser):
            return None
        low, high = float(quantiser.low), float(quantiser.high)
        if not (low.is_integer() and high.is_integer() and high - low >= 1):
            return None
        levels = Levels(int(low), int(high))
        dtype = levels.dtype(opset, narrow=self.narrow_types)
        zero = _find_even(quantiser.zero)
        if dtype is None or zero is None or not levels.low <= zero <= levels.high:
            return None
        if range_of(dtype) != levels and opset < _CLIPS_INTEGERS:
            return None
        axis = None
        if quantiser.scale.size > 1:
            rank = None if x.shape is None else len(x.shape)
            axis = axis_of(quantiser.scale, rank)
            if axis is None or opset < PER_CHANNEL:
                return None
        return _Plan(quantiser, levels, dtype, zero, axis)


@dataclass(frozen=True)
class _Plan:
    quantiser: Quantiser
    levels: Levels
    dtype: ir.DataType
    zero: int
    axis: int | None

    def of(self, array: Array) -> Array:
        """Return the levels of constants, in float32 as QONNX computes them."""
        with np.errstate(over="ignore"):
            shifted = array / self.quantiser.scale + np.float32(self.zero)
        levels: Array = np.rint(np.clip(shifted, self.levels.low, self.levels.high))
        return levels


def _convert(op: Op, v: Values, plan: _Plan) -> Value:
    scale = plan.quantiser.scale.reshape(-1)
    single = plan.axis is None
    scales = op.Constant(value=ir.tensor(scale[0] if single else scale))
    zero = np.full(() if single else scale.shape, plan.zero)
    zeros = op.Constant(value=_integers(zero, plan))
    axis = {} if single else {"axis": plan.axis}
    tensor = constant_of(v["x"])
    if tensor is not None:
        levels = op.Constant(value=_integers(plan.of(tensor.numpy()), plan))
        return op.DequantizeLinear(levels, scales, zeros, **axis)
    levels = op.QuantizeLinear(v["x"], scales, zeros, **axis)
    if range_of(plan.dtype) != plan.levels:
        ends = [np.array(end) for end in (plan.levels.low, plan.levels.high)]
        bounds = [op.Constant(value=_integers(end, plan)) for end in ends]
        levels = op.Clip(levels, *bounds)
    return op.DequantizeLinear(levels, scales, zeros, **axis)


def _is_nearest(quantiser: Quantiser) -> bool:
    scale = quantiser.scale
    positive = scale.size > 0 and (np.isfinite(scale) & (scale > 0)).all()
    return bool(quantiser.mode in ("ROUND", "HALF_EVEN") and positive)


def _find_even(zero: Array) -> int | None:
    """Return a zero point that keeps the parity of what it is added to."""
    same = zero.size > 0 and (zero == zero.flat[0]).all() and np.isfinite(zero).all()
    number = float(zero.flat[0]) if same else 1.0
    return int(number) if number % 2 == 0 else None


def _integers(array: Array, plan: _Plan) -> ir.TensorProtocol:
    return ir.tensor(np.asarray(array, np.int64).astype(plan.dtype.numpy()), dtype=plan.dtype)
