"""Regions as models of their own: the nodes, with what they read as inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.walk import captured_values
from onnx_passes.plain import PlainMapping
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.region import Region, Side, boundary_of, leading_to


def region_model(
    model: ir.Model,
    region: Region,
    rows: Sequence[PlainMapping],
    hidden: Collection[str] = (),
) -> ir.Model:
    """Return the region as a model: inputs are its boundary, outputs all that it computes.

    Only the nodes of the region are copied; weights and functions are shared.

    Args:
        model: The model that the region was found in.
        region: The region.
        rows: Values that it will be run on, for the type and rank of each name of the
            boundary. The length of a vector is declared where all agree: operators that take
            sizes ask for it.
        hidden: Names of what it computes that are not outputs.
    """
    return _model_of(model, [_cut(region, rows, hidden)])


def joined_model(
    model: ir.Model, parts: Sequence[tuple[Region, Sequence[PlainMapping]]]
) -> ir.Model:
    """Return regions as one model, in which nothing connects them.

    Each name begins with the number of its region and a slash.

    Args:
        model: A model with the functions and opset imports of all of them.
        parts: The regions, each with values as for :func:`region_model`.
    """
    cuts = [_cut(region, rows, (), f"{n}/") for n, (region, rows) in enumerate(parts)]
    return _model_of(model, cuts)


def part_leading_to(
    name: str, side: Side, recordings: Sequence[PlainMapping]
) -> ir.Model | None:
    """Return the nodes of a part that lead to a value, as a model with this output alone.

    Args:
        name: Name of the value.
        side: The model, and the nodes of the part.
        recordings: Recorded values by name, one mapping a sample.

    Returns:
        None where nothing of the part does, or what they read is not recorded.
    """
    model, nodes = side
    needed = leading_to([name], nodes, lambda _: False)
    boundary = boundary_of(needed)
    if not needed or not all(set(boundary) <= row.keys() for row in recordings):
        return None
    hidden = {str(v.name) for node in needed for v in node.outputs} - {name}
    return region_model(model, Region(tuple(needed), boundary, ()), recordings, hidden)


@dataclass(frozen=True)
class _RegionCopy:
    """Copies of nodes, and what a graph of them holds."""

    nodes: list[ir.Node]
    inputs: list[ir.Value]
    outputs: list[ir.Value]
    initializers: list[ir.Value]


def _model_of(model: ir.Model, cuts: Sequence[_RegionCopy]) -> ir.Model:
    body = ir.Graph(
        [value for cut in cuts for value in cut.inputs],
        [value for cut in cuts for value in cut.outputs],
        nodes=[node for cut in cuts for node in cut.nodes],
        initializers=[value for cut in cuts for value in cut.initializers],
        opset_imports=dict(model.graph.opset_imports),
        name="region",
    )
    functions = list(model.functions.values())
    return ir.Model(body, ir_version=model.ir_version, functions=functions)


def _cut(
    region: Region, rows: Sequence[PlainMapping], hidden: Collection[str], prefix: str = ""
) -> _RegionCopy:
    """Copy the nodes of a region; names begin with ``prefix``, and tensors keep theirs."""
    nodes, copies = copy_nodes(region.nodes)
    for copy in copies.values() if prefix else ():
        copy.const_value = None  # it would be renamed as well, and is shared
        copy.name = f"{prefix}{copy.name}" if copy.name else copy.name
    for node in nodes if prefix else ():
        node.name = f"{prefix}{node.name}" if node.name else node.name
    inside = {value for node in region.nodes for value in node.outputs}
    outside: dict[str, ir.Value] = {}
    initializers: dict[str, ir.Value] = {}
    for node in region.nodes:
        for value in (*node.inputs, *captured_values(node)):
            if value is None or value in inside:
                continue
            copy = copies[value]
            tensor = constant_tensor(value)
            if tensor is None:
                outside[str(value.name)] = copy
            else:
                copy.const_value = tensor
                initializers[str(value.name)] = copy
    inputs = []
    for name in region.boundary:
        array = rows[0][name]
        entry = outside.get(name) or ir.Value(name=f"{prefix}{name}")
        entry.const_value = None
        entry.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        entry.shape = ir.Shape([None] * array.ndim)
        if array.ndim == 1 and all(row[name].shape == array.shape for row in rows):
            entry.shape = ir.Shape(array.shape)
        inputs.append(entry)
    shown = [v for node in nodes for v in node.outputs if v.name and v.name not in hidden]
    return _RegionCopy(nodes, inputs, shown, list(initializers.values()))
