"""Put the nodes of a model into a scope of their own: bodies of loops, and functions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.rules.generate_copies import Variant, copied


def looped(model: ir.Model) -> Variant:
    """Move all nodes into the body of a Loop that runs once; its outputs gain an axis."""
    copy = model.clone()
    graph = copy.graph
    nodes, values = copied(graph, "_body")
    step = ir.val("step", dtype=ir.DataType.INT64, shape=[])
    going = ir.val("going", dtype=ir.DataType.BOOL, shape=[])
    on = ir.node("Identity", [going])
    on.outputs[0].name, on.outputs[0].dtype = "still_going", ir.DataType.BOOL
    on.outputs[0].shape = ir.Shape([])
    outputs = [on.outputs[0], *(values[v] for v in graph.outputs)]
    body = ir.Graph(
        [step, going],
        outputs,
        nodes=[on, *nodes],
        name="body",
        opset_imports=graph.opset_imports,
    )
    trips = ir.val("trips", dtype=ir.DataType.INT64, shape=[])
    trips.const_value = ir.tensor(np.array(1, np.int64))
    graph.register_initializer(trips)
    loop = ir.node(
        "Loop", [trips, None], attributes={"body": body}, num_outputs=len(graph.outputs)
    )
    return _only(copy, loop), tuple(model.graph.inputs)


def scanned(model: ir.Model) -> Variant:
    """Move all nodes into the body of a Scan over one element; its outputs gain an axis."""
    copy = model.clone()
    graph = copy.graph
    nodes, values = copied(graph, "_body")
    element = ir.val("element", dtype=ir.DataType.FLOAT, shape=[])
    outputs = [values[v] for v in graph.outputs]
    body = ir.Graph(
        [element], outputs, nodes=nodes, name="body", opset_imports=graph.opset_imports
    )
    scanned_over = ir.val("scanned", dtype=ir.DataType.FLOAT, shape=[1])
    scanned_over.const_value = ir.tensor(np.zeros(1, np.float32))
    graph.register_initializer(scanned_over)
    scan = ir.node(
        "Scan",
        [scanned_over],
        attributes={"body": body, "num_scan_inputs": 1},
        num_outputs=len(graph.outputs),
    )
    return _only(copy, scan), tuple(model.graph.inputs)


def in_function(model: ir.Model) -> Variant:
    """Move all nodes into a function, in which types and shapes are not declared."""
    copy = model.clone()
    graph = copy.graph
    nodes, values = copied(graph, "_inner")
    inputs = [ir.val(str(v.name)) for v in graph.inputs]
    stand_ins: dict[ir.Value, ir.Value] = dict(zip(graph.inputs, inputs, strict=True))
    constants = []
    for value in graph.initializers.values():
        constant = ir.node("Constant", [], attributes={"value": value.const_value})
        constant.outputs[0].name = str(value.name)
        constants.append(constant)
        stand_ins.setdefault(value, constant.outputs[0])
    for node in nodes:
        for index, used in enumerate(node.inputs):
            if used in stand_ins:
                node.replace_input_with(index, stand_ins[used])
        for output in node.outputs:
            output.type, output.shape = None, None
    outputs = [values[v] for v in graph.outputs]
    body = ir.Graph(
        inputs, outputs, nodes=[*constants, *nodes], opset_imports=graph.opset_imports
    )
    function = ir.Function("made", "Matched", graph=body, attributes=[])
    copy.functions[function.identifier()] = function
    copy.graph.opset_imports["made"] = 1
    call = ir.node(
        "Matched", list(graph.inputs), domain="made", num_outputs=len(graph.outputs)
    )
    copy = _only(copy, call, grown=False)
    for value in list(copy.graph.initializers.values()):
        if not value.is_graph_input():
            copy.graph.initializers.pop(str(value.name))
    return copy, tuple(model.graph.inputs)


def _only(copy: ir.Model, node: ir.Node, *, grown: bool = True) -> ir.Model:
    """Let one node be all there is in the main graph, and give it the old outputs' names."""
    graph = copy.graph
    old = list(graph.outputs)
    for before, after in zip(old, node.outputs, strict=True):
        after.name, after.type = before.name, before.type
        if before.shape is not None:
            after.shape = ir.Shape([1, *before.shape] if grown else before.shape)
    graph.outputs[:] = list(node.outputs)
    graph.remove(list(graph), safe=True)
    graph.append(node)
    return copy
