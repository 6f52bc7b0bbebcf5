"""Quantize products to integers, with ranges of computed values found at run time."""

from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import quantise, type_of, weight_grid
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import Inserter, demand_opset
from onnx_passes.passes.precision._layers import Layer, layers_of, left_weights
from onnx_passes.passes.precision._node_selection import NOTHING, OnSomeNodes
from onnx_passes.plain import PlainMapping

_SUMS = ir.DataType.INT32


@passes.verify.metric
@passes.register()
class QuantizeDynamic(OnSomeNodes):
    """Quantize products to integers, with ranges of computed values found at run time.

    Before: ``y = MatMul(x, w)`` in float32
    After:  ``q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w8, z)``,
            ``y = Mul(Cast <to = FLOAT> (i), Mul(s, scales of w))``

    All readers of a value share one DynamicQuantizeLinear. No data is needed. Nodes in bodies
    are among them. Calls of functions are replaced by their bodies.

    Sound because sums of products of 8 bits are exact in 32 bits, and the scales are those of
    the operands. Both operands are rounded to 8 bits, which the metrics of the pipeline judge.

    Leaves alone: all but MatMul and Gemm by a constant matrix; a Gemm with alpha, beta or
    transA; weights with fewer elements than ``least``.

    Attributes:
        weights: Integers for weights.
        per_channel: Whether each output channel of a weight has a scale of its own.
        reduce_range: Use 7 bits for weights, so that processors without VNNI do not saturate.
        least: Elements from which on a weight is rounded.
    """

    needs = ("shape-inference",)

    weights: Literal["int8", "uint8"] = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    least: int = 1024

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        return 11

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the products."""
        self.note_overridable(model)
        opened = self.open_functions(model)
        nodes = self.select(model, bodies=True)
        found = [layer for layer in layers_of(nodes)[0] if self._fits(layer)]
        self.note_kept(left_weights(nodes, [layer.node for layer in found], self.least))
        if not found:
            what = f"MatMul or Gemm by a constant of {self.least} or more float32 elements"
            has_conv = any(node.op_type == "Conv" for node in nodes)
            other = "; quantize-static (int8-static) converts Conv as well" if has_conv else ""
            self.context.notes.append(NOTHING.format(what) + other)
            return ir.passes.PassResult(model, modified=opened)
        demand_opset(model, self)
        inserter = Inserter(model)
        quantised: dict[ir.Value, list[ir.Value]] = {}
        for layer in found:
            self._replace(layer, inserter, quantised)
        return ir.passes.PassResult(model, modified=True)

    def _fits(self, layer: Layer) -> bool:
        if layer.weight is None or layer.channels is None or layer.node.op_type == "Conv":
            return False
        weight = layer.node.inputs[layer.weight]
        tensor = constant_of(weight)
        return tensor is not None and tensor.size >= self.least

    def _replace(
        self, layer: Layer, inserter: Inserter, quantised: dict[ir.Value, list[ir.Value]]
    ) -> None:
        node, dtype = layer.node, type_of(self.weights)
        data, weight = node.inputs[0], node.inputs[1]
        assert data is not None, "a layer has both operands"
        assert weight is not None, "a layer has both operands"
        array = inserter.array(weight)
        array = array if layer.channels == 1 else array.T
        bits = 7 if self.reduce_range else None
        axis = 1 if self.per_channel else None
        grid = weight_grid(array, dtype, axis=axis, symmetric=True, bits=bits)
        name, shape = str(weight.name), node.outputs[0].shape
        levels = inserter.constant(
            quantise(array, grid, dtype, bits), f"{name}_{self.weights}"
        )
        scale = inserter.constant(grid.scale, f"{name}_scale")
        zero = None
        if dtype is ir.DataType.UINT8:
            middle = np.asarray(grid.zero).reshape(-1)[:1].reshape(())
            zero = inserter.constant(middle, f"{name}_zero_point")
        if data not in quantised:
            kinds = [ir.DataType.UINT8, WIDE, ir.DataType.UINT8]
            quantised[data] = inserter.node(
                "DynamicQuantizeLinear", [data], kinds, str(data.name), shape=data.shape
            )
        low, low_scale, low_zero = quantised[data]
        result = str(node.outputs[0].name)
        operands = [low, levels, low_zero, *([] if zero is None else [zero])]

        (sums,) = inserter.node("MatMulInteger", operands, [_SUMS], result, behind=node)
        (wide,) = inserter.node("Cast", [sums], [WIDE], result, to=int(WIDE), shape=shape)
        sums.shape = wide.shape
        last = wide.producer()
        (both,) = inserter.node("Mul", [low_scale, scale], [WIDE], result, behind=last)
        last = both.producer()
        (new,) = inserter.node("Mul", [wide, both], [WIDE], result, behind=last, shape=shape)
        bias = node.inputs[layer.bias] if layer.bias is not None else None
        if bias is not None:
            (new,) = inserter.node("Add", [new, bias], [WIDE], result, shape=shape)
        inserter.take_over(node.outputs[0], new)
