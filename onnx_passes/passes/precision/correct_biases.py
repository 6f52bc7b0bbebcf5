"""Add to biases what rounding the weights has taken from the means of layers."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import dequantise_node
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import ORIGINALS, Inserter
from onnx_passes.passes.precision._layers import (
    Layer,
    Moments,
    find_stored_layers,
    has_rows,
    in_body,
    matrix_of,
    moments_of,
)
from onnx_passes.passes.precision._node_selection import OnData

_LARGEST = 2**31 - 1


@passes.verify.metric
@passes.register()
class CorrectBiases(OnData):
    """Add to biases what rounding the weights has taken from the means of layers.

    Before: ``y = Conv(x, DequantizeLinear(w8, s), b)``
    After:  ``y = Conv(x, DequantizeLinear(w8, s), b + c)``, where c is the mean over the
            user's data of what the product lost by rounding

    Runs behind a pass that rounded weights in the same pipeline, and asks what they were
    (bias correction, Nagel et al., 2019). A bias of integers stays one, on its grid. A layer
    without a bias gets one, if it is a Conv or a Gemm, or else an Add behind it.

    Sound because a bias has the type and shape that the operator expects; the numbers change,
    which the metrics of the pipeline judge.

    Leaves alone: layers whose weights no pass of this run has rounded; groups of a Conv;
    stacks of matrices; products in integers and MatMulNBits; layers that read what a body of
    If, Loop or Scan computes.
    """

    repeats_itself = False

    needs = ("shape-inference",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Correct the biases."""
        inserter = Inserter(model, self.state_dict)
        lost: dict[Layer, Array] = {}
        for layer in find_stored_layers(self.select(model, bodies=True)):
            fits = has_rows(layer) and not in_body(layer, model)
            moved = _rounding_shift(layer, inserter) if fits else None
            if moved is not None:
                lost[layer] = moved
        if not lost:
            if not self.state_dict.get(ORIGINALS):
                self.context.notes.append("no pass before it has rounded weights in this run")
            return ir.passes.PassResult(model, modified=False)
        means = self._means(model, lost)
        modified = [
            _correct(layer, moved.T @ means[layer.node].mean, inserter)
            for layer, moved in lost.items()
            if layer.node in means and means[layer.node].count
        ]
        return ir.passes.PassResult(model, modified=any(modified))

    def _means(self, model: ir.Model, layers: dict[Layer, Array]) -> dict[ir.Node, Moments]:
        """Return the moments of what layers read, in front of quantisers if those differ."""
        names = {str(layer.node.inputs[0].name) for layer in layers}  # type: ignore[union-attr]
        if self.context.values and not self.data:
            # They were recorded before quantisers came in.
            renamed = {
                n: _before_quantisers(layer) for layer in layers for n in [_read(layer)]
            }
            rows = self.values(model, set(renamed.values()), "see what layers read")
            samples = [{n: row[o] for n, o in renamed.items() if o in row} for row in rows]
            return moments_of(layers, samples)
        return moments_of(layers, self.values(model, names, "see what layers read"))


def _read(layer: Layer) -> str:
    value = layer.node.inputs[0]
    return "" if value is None else str(value.name)


def _before_quantisers(layer: Layer) -> str:
    value = layer.node.inputs[0]
    for kind in ("DequantizeLinear", "QuantizeLinear"):
        node = value.producer() if value is not None else None
        if node is not None and node.op_type == kind:
            value = node.inputs[0]
    name = "" if value is None else str(value.name)
    return name.removesuffix("_exact")


def _rounding_shift(layer: Layer, inserter: Inserter) -> Array | None:
    """Return what rounding took from a weight, as [depth, channels]; None if nothing."""
    assert layer.weight is not None, "stored layers have weights"
    value = layer.node.inputs[layer.weight]
    node = value.producer() if value is not None else None
    levels = node.inputs[0] if node is not None else None
    known = inserter.originals.get(str(levels.name)) if levels is not None else None
    near = dequantise_node(node) if node is not None and known is not None else None
    if near is None or known is None:
        return None
    moved = known.numpy().astype(np.float64) - near
    return matrix_of(layer, moved) if np.any(moved) else None


def _correct(layer: Layer, shift: Array, inserter: Inserter) -> bool:
    """Add a vector to what a layer computes."""
    node, index = layer.node, 2
    if not np.isfinite(shift).all() or not np.any(shift):
        return False
    if node.op_type == "MatMul":
        return _behind(layer, shift, inserter)
    old = node.inputs[index] if len(node.inputs) > index else None
    if old is None:
        new = inserter.constant(shift.astype(np.float32), f"{node.outputs[0].name}_shift")
        node.resize_inputs(index + 1)
        node.replace_input_with(index, new)
        return True
    tensor, name = constant_of(old), str(old.name)
    if tensor is not None:
        whole = (tensor.numpy() + shift).astype(np.float32)
        inserter.read(node, index, inserter.constant(whole, f"{name}_corrected"))
        return True
    return _on_grid(old, shift, inserter)


def _on_grid(bias: ir.Value, shift: Array, inserter: Inserter) -> bool:
    """Add a vector to a bias of integers."""
    node = bias.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return False
    levels, scale = (constant_of(value) for value in node.inputs[:2])
    if levels is None or scale is None or levels.dtype is not ir.DataType.INT32:
        return False
    found = levels.numpy() + np.rint(shift / scale.numpy().astype(np.float64))
    if np.abs(found).max(initial=0) > _LARGEST:
        return False
    name = "bias" if node.inputs[0] is None else str(node.inputs[0].name)
    inserter.read(node, 0, inserter.constant(found.astype(np.int32), f"{name}_corrected"))
    return True


def _behind(layer: Layer, shift: Array, inserter: Inserter) -> bool:
    """Add a vector to the result of a MatMul: to the bias behind it, or as one."""
    (result,) = layer.node.outputs
    users = result.consumers()
    if len(users) == 1 and users[0].op_type == "Add" and not result.is_graph_output():
        place = 1 - list(users[0].inputs).index(result)
        other = users[0].inputs[place]
        tensor = constant_of(other) if other is not None else None
        if tensor is not None and tensor.shape.numpy()[-1:] == (len(shift),):
            whole = (tensor.numpy() + shift).astype(np.float32)
            new = inserter.constant(whole, f"{result.name}_corrected")
            inserter.read(users[0], place, new)
            return True
    inserter.add_behind(result, shift.astype(np.float32), WIDE)
    return True
