"""How much rounding alone moves the outputs of a model.

Trained networks amplify, and a quantiser turns a difference in the last place into a whole
step. Tolerances for sums say nothing of this: runs of the model itself with other last places
of its weights do (Monte Carlo arithmetic: Parker 1997; Denis et al. 2016).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_graphs, all_nodes
from onnx_passes.ops.node_queries import RESIZING, gives_no_floats, makes_steps
from onnx_passes.verify.node_equality import constant_tensor

_MOVED = frozenset(
    (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
)
"""Types of weights that are moved: scales of 16 bits round no less than those of 32."""


def makes_any_steps(model: ir.Model) -> bool:
    """Whether a model holds an operator whose result jumps where an operand moves a little."""
    return any(map(makes_steps, all_nodes(model)))


def move_weights(model: ir.Model, seed: int) -> ir.Model:
    """Return a model whose float weights each stay, or move to a neighbouring float.

    Weights are initializers and constants, those of bodies and functions included. Those that
    reach no more than sizes, indices, comparisons and casts to other types stay: one unit in
    the last place of these is another function.

    Args:
        model: The model; left as it is.
        seed: Decides which are moved, and where to. An odd one moves them the other way than
            the even one before it: few weights are moved both ways in few runs.
    """
    moved = copy_model(model)
    rng, sign = np.random.default_rng(seed // 2), 1 - 2 * (seed % 2)
    reaching = _reaching(moved)
    for value, tensor in _weights(moved):
        if tensor.dtype not in _MOVED or value not in reaching:
            continue
        array = _neighbours(tensor.numpy(), rng, sign)
        new = ir.Tensor(array, dtype=tensor.dtype, name=value.name)  # ir.tensor is slow
        if (node := value.producer()) is None:
            value.const_value = new
        else:
            node.attributes.clear()
            node.attributes["value"] = ir.AttrTensor("value", new)
    return moved


def _weights(model: ir.Model) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    for graph in all_graphs(model):
        values = [node.outputs[0] for node in graph if node.op_type == "Constant"]
        if isinstance(graph, ir.Graph):
            values += graph.initializers.values()
        for value in values:
            tensor = constant_tensor(value)
            if tensor is not None:
                yield value, tensor


def _neighbours(array: Array, rng: np.random.Generator, sign: int) -> Array:
    """Return floats of any shape, each moved by one unit in the last place, or not."""
    turn = rng.integers(-1, 2, array.shape, np.int8) * np.int8(sign)
    # One more in the bits of a float is its neighbour away from zero.
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    moved = (bits + turn).view(array.dtype)
    return np.asarray(np.where((array != 0) & np.isfinite(moved), moved, array))


def _reaching(model: ir.Model) -> set[ir.Value]:
    """Return the values that decide elements of what a graph gives, by way of floats."""
    pending = [value for graph in all_graphs(model) for value in graph.outputs]
    found: set[ir.Value] = set()
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        node = value.producer()
        if node is None or gives_no_floats(node):
            continue
        read = node.inputs[:1] if node.op_type in RESIZING else node.inputs
        pending += [value for value in read if value is not None]
    return found
