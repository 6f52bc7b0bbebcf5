"""Convert pairs of quantisers to the form and the places that TensorRT asks for."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import dequantise_node, quantise, weight_grid
from onnx_passes.passes.precision._insert import Inserter
from onnx_passes.passes.precision._node_selection import OnSomeNodes
from onnx_passes.passes.precision.remove_qdq import QUANTISERS, remove_pair, store_floats

_INTEGERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "QuantizeLinear")
"""What TensorRT runs in integers, or fuses with what does."""
_MOVES = (
    *("MaxPool", "AveragePool", "GlobalAveragePool", "Reshape", "Transpose", "Flatten"),
    *("Squeeze", "Unsqueeze", "Slice", "Concat", "Gather", "Relu", "Identity"),
)
"""What quantisers are moved past."""
_BIASES = tuple((kind, 2) for kind in ("Conv", "ConvTranspose", "Gemm"))
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


@passes.verify.metric
@passes.register()
class PlaceQdq(OnSomeNodes):
    """Convert pairs of quantisers to the form and the places that TensorRT asks for.

    Before: ``a = DequantizeLinear(QuantizeLinear(x, s, 131)) b = DequantizeLinear(b32)``,
            ``y = Conv(a, w, b) z = DequantizeLinear(QuantizeLinear(y)) u = Softmax(z)``
    After:  ``a = DequantizeLinear(QuantizeLinear(x, t, 0)) y = Conv(a, w, c) u = Softmax(y)``,
            with a symmetric grid of int8 and a float32 bias

    TensorRT takes int8 with a zero point of 0 only, adds biases in floats, and asks for pairs
    in front of what it runs in integers, not behind it. Grids are widened so that they cover
    what they did. Constants are rounded to them as well, and those of int32 become floats.

    Sound because both sides have the same types and shapes; other grids round otherwise, which
    the metrics of the pipeline judge.

    Leaves alone: grids of more or fewer than 8 bits; integers of a QuantizeLinear that others
    read than DequantizeLinear; scales by channel of computed values. Calls of functions with
    quantisers are replaced by their bodies.

    Attributes:
        nodes: Names of nodes, or patterns such as ``/encoder/*``, whose quantisers right
            before and behind them are meant as well; empty for all.
    """

    needs = ("shape-inference",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Change the quantisers."""
        opened = self.open_functions(model, QUANTISERS)
        inserter, nodes = Inserter(model), _with_quantisers(self.select(model, bodies=True))
        changed = [opened]
        changed += [_widen(node, inserter) for node in nodes if _is(node, "QuantizeLinear")]
        changed += [
            _convert_constant(node, inserter)
            for node in nodes
            if _is(node, "DequantizeLinear")
        ]
        for node in reversed(nodes):
            if _is(node, "DequantizeLinear") and node.graph is not None:
                changed.append(_drop(node, inserter))
        return ir.passes.PassResult(model, modified=any(changed))


def _with_quantisers(nodes: list[ir.Node]) -> list[ir.Node]:
    """Return nodes, and the quantisers right before and behind them, in order."""
    found: dict[ir.Node, None] = {}
    for node in nodes:
        before = [v.producer() for v in node.inputs if v is not None]
        pairs = [n for n in before if n is not None and _is(n, "DequantizeLinear")]
        sources = [n.inputs[0].producer() for n in pairs if n.inputs[0] is not None]
        behind = [n for v in node.outputs for n in v.consumers() if _is(n, "QuantizeLinear")]
        last = [n for q in behind for n in q.outputs[0].consumers()]
        quantisers = (n for n in (*sources, *pairs, *behind, *last) if n is not None)
        near = [n for n in quantisers if any(_is(n, kind) for kind in QUANTISERS)]
        found |= dict.fromkeys((*near, node))
    return list(found)


def _is(node: ir.Node | None, kind: str) -> bool:
    return node is not None and node.op_type == kind and not node.domain


def _widen(node: ir.Node, inserter: Inserter) -> bool:
    """Give a pair the symmetric grid of int8 that covers its own."""
    scale, zero = (constant_of(v) for v in (*node.inputs, None)[1:3])
    readers = node.outputs[0].consumers()
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return False
    if zero.dtype not in _BYTES:
        return False
    if not readers or not all(_is(reader, "DequantizeLinear") for reader in readers):
        return False
    if node.outputs[0].is_graph_output():
        return False
    step, origin = float(scale.numpy().item()), int(zero.numpy().item())
    if zero.dtype is ir.DataType.INT8 and origin == 0:
        return False
    least, most = int(zero.dtype.min) - origin, int(zero.dtype.max) - origin
    name = str(node.outputs[0].name)
    wide = np.asarray(step * max(-least, most) / 127, np.float32)
    new_scale = inserter.constant(wide, f"{name}_symmetric_scale")
    new_zero = inserter.constant(np.zeros((), np.int8), f"{name}_symmetric_zero_point")
    for user in (node, *readers):
        inserter.read(user, 1, new_scale)
        inserter.read(user, 2, new_zero)
    node.outputs[0].type = ir.TensorType(ir.DataType.INT8)
    return True


def _convert_constant(node: ir.Node, inserter: Inserter) -> bool:
    """Store a bias in floats, and another constant of 8 bits on a symmetric grid of int8."""
    levels, (result,) = constant_of(node.inputs[0]), node.outputs
    if levels is None or node.attributes.get_int("block_size", 0) != 0:
        return False
    uses = [(user.op_type, index) for user, index in result.uses()]
    if levels.dtype is ir.DataType.INT32 or (uses and all(use in _BIASES for use in uses)):
        return store_floats(node, inserter)
    zero = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    plain = zero is None or not zero.numpy().any()
    if levels.dtype not in _BYTES or (levels.dtype is ir.DataType.INT8 and plain):
        return False
    array, scale = dequantise_node(node), constant_of(node.inputs[1])
    if array is None or scale is None:
        return False
    axis = (node.attributes.get_int("axis", 1) or 0) % array.ndim if scale.size > 1 else None
    grid = weight_grid(array, ir.DataType.INT8, axis=axis)
    stored = quantise(array, grid, ir.DataType.INT8)
    name = f"{result.name}_symmetric"
    new = inserter.dequantised(stored, grid, ir.DataType.INT8, name, node)
    inserter.take_over(result, new)
    return True


def _drop(node: ir.Node, inserter: Inserter) -> bool:
    """Remove a pair that nothing reads which runs in integers."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or not _is(source, "QuantizeLinear"):
        return False
    if _is_needed(node.outputs[0], inserter.model.graph):
        return False
    return remove_pair(source, node, inserter)


def _is_needed(value: ir.Value, main: ir.Graph) -> bool:
    """Whether a node that runs in integers reads a value, behind movements.

    What crosses the end of a body may be.
    """
    pending, seen = [value], set[ir.Value]()
    while pending:
        current = pending.pop()
        readers = current.consumers()
        if current.is_graph_output() and current.graph is not main:
            return True
        if any(
            reader.domain or reader.op_type in _INTEGERS or any(subgraphs_of(reader))
            for reader in readers
        ):
            return True
        moved = [v for r in readers if r.op_type in _MOVES for v in r.outputs]
        fresh = [v for v in moved if v not in seen]
        seen.update(fresh)
        pending += fresh
    return False
