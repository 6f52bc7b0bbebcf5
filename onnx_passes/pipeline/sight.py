"""Whether the outputs of a model can see a change at all: one run with it disturbed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality
from onnx_passes.errors import EngineError
from onnx_passes.graph.copy import copy_model
from onnx_passes.runtime.base import Engine, Feeds
from onnx_passes.verify.compare import compare
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import diff_nodes

_FACTOR, _SHIFT = 1.0625, 0.0625
"""What a value is disturbed by: enough to be seen, and far from saturating what follows."""


def can_see(
    engine: Engine,
    before: ir.Model,
    after: ir.Model,
    sample: Feeds,
    ignored: Collection[str] = (),
) -> bool | None:
    """Return whether the outputs move when the values that a change replaced are disturbed.

    Args:
        engine: What runs the model before.
        before: The model before.
        after: The model after.
        sample: Inputs.
        ignored: Outputs that are no evidence.

    Returns:
        Whether they move; None where that cannot be asked.
    """
    before, after = inlined(before), inlined(after)
    _, removed = diff_nodes(before, after)
    inner = {
        str(value.name)
        for node in removed
        for value in node.outputs
        if value.name and not value.is_graph_output()
    }
    if not inner:
        return True  # what was replaced are the outputs themselves
    disturbed = disturb_values(before, inner)
    if disturbed is None:
        return None
    try:
        with engine.prepare(before) as session:
            old = session.run(sample)
        with engine.prepare(disturbed) as session:
            new = session.run(sample)
    except EngineError:
        return None
    kept = [name for name in old if name not in ignored]
    sides = [{name: side[name] for name in kept} for side in (old, new)]
    return bool(kept) and not all(c.passed for c in compare(sides[0], sides[1], Equality()))


def disturb_values(model: ir.Model, names: Collection[str]) -> ir.Model | None:
    """Return a copy in which the readers of some float values see others.

    Returns:
        The copy; None where none of the values is known to be a float.
    """
    copy = copy_model(model)
    found = False
    for node in list(copy.graph):
        for value in node.outputs:
            if value.name in names and _is_float(value):
                found = True
                _disturb(copy.graph, node, value)
    return copy if found else None


def _is_float(value: ir.Value) -> bool:
    return value.dtype in (
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
    )


def _disturb(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    assert value.dtype is not None
    users = list(value.uses())
    read = value
    for operator, number in (("Mul", _FACTOR), ("Add", _SHIFT)):
        name = f"{value.name}/disturbed/{operator}"
        tensor = ir.tensor(np.asarray(number, value.dtype.numpy()), value.dtype, name=name)
        by = ir.node("Constant", [], {"value": tensor}, name=f"{name}/by")
        by.outputs[0].name = f"{name}/by"
        made = ir.node(operator, [read, by.outputs[0]], name=name)
        made.outputs[0].name, made.outputs[0].type = name, value.type
        graph.insert_after(node, [by, made])
        node, read = made, made.outputs[0]
    for user, index in users:
        user.replace_input_with(index, read)
