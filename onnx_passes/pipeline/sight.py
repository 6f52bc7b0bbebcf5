"""Whether the outputs of a model can see a change at all: one run with it disturbed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.contracts import Equality
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import leaf_key
from onnx_passes.model.walk import all_nodes, subgraphs_of
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.onnx_inference import infer_types
from onnx_passes.verify.recording import exposed, inlined
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
        ignored: Outputs that do not count as evidence.

    Returns:
        Whether they move; None where that cannot be asked.
    """
    label = risky_runs.label(risky_runs.DRAWN, "disturbed values")
    if risky_runs.avoided(label):
        return None
    before, after = inlined(before), inlined(after)
    disturbed = copy_model(before)
    values = [
        value
        for node in _replaced(disturbed, after)
        for value in node.outputs
        if value.name and value not in disturbed.graph.outputs
    ]
    if not values:
        return True  # what was replaced are the outputs themselves
    try:
        _note_types(before, disturbed, values, engine, sample)
        if not disturb_values(values):
            return None
        with engine.prepare(before) as session:
            old = session.run(sample)
        with risky_runs.running(label), engine.prepare(disturbed) as session:
            new = session.run(sample)
    except EngineError:
        return None
    kept = [name for name in old if name not in ignored]
    sides = [{name: side[name] for name in kept} for side in (old, new)]
    return bool(kept) and bool(Promise(Equality()).broken(*sides))


def _replaced(before: ir.Model, after: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes that were replaced; inside a body, if only that differs."""
    new, removed = diff_nodes(before, after)
    yield from _inside(removed, new)


def _inside(removed: Iterable[ir.Node], new: Iterable[ir.Node]) -> Iterator[ir.Node]:
    holders = {_key(node): node for node in new}
    for node in removed:
        other = holders.get(_key(node))
        pairs = [] if other is None else _bodies(node, other)
        if not pairs:
            yield node
        for one, two in pairs:
            kept = {_key(n) for n in two if not list(subgraphs_of(n))}
            gone = [n for n in one if _key(n) not in kept]
            yield from _inside(gone, two)


def _key(node: ir.Node) -> Hashable:
    attributes = sorted(
        (name, leaf_key(attribute))
        for name, attribute in node.attributes.items()
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    )
    names = (tuple(v and v.name for v in values) for values in (node.inputs, node.outputs))
    return (node.domain, node.op_type, repr(attributes), *names)


def _bodies(node: ir.Node, other: ir.Node) -> list[tuple[ir.Graph, ir.Graph]]:
    return list(zip(subgraphs_of(node), subgraphs_of(other), strict=False))


def _note_types(
    model: ir.Model, copy: ir.Model, values: Sequence[ir.Value], engine: Engine, sample: Feeds
) -> None:
    """Note the types of values, which few files hold: inferred, or as a run shows them.

    Raises:
        EngineError: The model does not run with these values as outputs.
    """
    if any(value.dtype is None for value in values):
        inferred = copy_model(copy)  # as a whole it may not run: sequences become tensors
        infer_types(inferred)
        wanted = set(values)
        for node, twin in zip(all_nodes(copy), all_nodes(inferred), strict=True):
            for value, typed in zip(node.outputs, twin.outputs, strict=True):
                if value in wanted:
                    value.type = value.type or typed.type
    lacking = {str(v.name): v for v in values if v.dtype is None and v.graph is copy.graph}
    if lacking:
        with engine.prepare(exposed(model, needed=lacking)) as session:
            found = session.run(sample)
        for name, value in lacking.items():
            array = found.get(name)
            if isinstance(array, np.ndarray):
                value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))


def disturb_values(values: Iterable[ir.Value]) -> bool:
    """Let the readers of some float values see others.

    Args:
        values: Results of nodes; their graphs are changed in place.

    Returns:
        Whether one of them is known to be a float.
    """
    floats = [value for value in values if _is_float(value)]
    for value in floats:
        _disturb(value)
    return bool(floats)


def _is_float(value: ir.Value) -> bool:
    return value.dtype in (
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
    )


def _disturb(value: ir.Value) -> None:
    node = value.producer()
    assert value.dtype is not None
    assert node is not None
    graph = node.graph
    assert isinstance(graph, ir.Graph)
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
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = read
