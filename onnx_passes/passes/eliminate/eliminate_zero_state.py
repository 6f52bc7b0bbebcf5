"""Remove the state that a recurrent layer starts with anyway."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.constants import constant_of

LAYERS = ("RNN", "GRU", "LSTM")
STATES = (5, 6)
"""The inputs ``initial_h`` and ``initial_c``; only an LSTM has the second."""
MOVES = (
    *("Expand", "Slice", "Split", "Gather", "Tile"),
    *("Reshape", "Squeeze", "Unsqueeze", "Transpose"),
)
"""Operators whose results hold nothing but elements of their first input."""


@passes.verify.equality
@passes.register("eliminate")
class EliminateZeroState(passes.Transformation):
    """Remove the state that a recurrent layer starts with anyway.

    Before: ``LSTM(x, w, r, b, , z, z)`` with ``z = ConstantOfShape([1, batch, 8])``
    After:  ``LSTM(x, w, r, b)``

    The initial state of an RNN, GRU or LSTM, and the initial cell of an LSTM. It is a constant
    of zeros, or one that is filled or expanded to a shape that is computed, a part of it, or
    several of them in one. Exporters read the size of the batch for it, cut one tensor for
    all layers, and join those of two directions.

    Sound because a state that is not given is 0 by definition, of the one shape that it may
    have.

    Leaves alone: states that are computed in another way or that callers may override, with
    another number than 0, or -0; layers of other domains.
    """

    preserves = ("shape-inference", "topological-sort")
    needed_operators = frozenset(("", name) for name in LAYERS)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look into subgraphs and functions too; what made the zeros is removed as unused."""
        found = 0
        for node in all_nodes(model):
            if node.op_type in LAYERS and not node.domain:
                found += _leave_out(node)
        return ir.passes.PassResult(model, modified=found > 0)


def _leave_out(node: ir.Node) -> bool:
    places = [i for i in STATES if i < len(node.inputs) and _is_zero(node.inputs[i])]
    for place in places:
        node.replace_input_with(place, None)
    if places:
        last = max(i for i, value in enumerate(node.inputs) if value is not None)
        node.resize_inputs(last + 1)
    return bool(places)


def _is_zero(value: ir.Value | None) -> bool:
    """Whether every element is 0, and not -0, whatever the shape."""
    tensor = constant_of(value)
    if tensor is not None:
        return not any(tensor.tobytes())
    producer = None if value is None else value.producer()
    if producer is None or producer.domain:
        return False
    if producer.op_type in MOVES:
        return _is_zero(producer.inputs[0])
    if producer.op_type == "Concat":
        return all(map(_is_zero, producer.inputs))
    if producer.op_type != "ConstantOfShape":
        return False
    fill = producer.attributes.get("value")
    if fill is None:
        return True
    return not fill.is_ref() and not any(fill.as_tensor().tobytes())
