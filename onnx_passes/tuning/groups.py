"""Parts of a model that get one format each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from onnx_passes.errors import ConfigError, PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.convolution import Conv, ConvTranspose
from onnx_passes.ops.linear import Einsum, Gemm, MatMul
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.precision._node_selection import OnSomeNodes
from onnx_passes.passes.registry import lookup
from onnx_passes.passes.replace import Namer
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import is_constant_node

_PRODUCTS = (Conv, ConvTranspose, Einsum, Gemm, MatMul)
"""Operators that multiply by weights."""
_DEPTH = 3
"""Nodes between the constant and the product that reads it: a quantiser, a Transpose."""


@dataclass(frozen=True)
class FormatGroup:
    """Nodes that get one format.

    Attributes:
        name: What reports call it.
        nodes: Names of its nodes, in order.
        formats: Names of the formats that it may have; float32 is always among them.
    """

    name: str
    nodes: tuple[str, ...]
    formats: tuple[str, ...]


def prepare(model: ir.Model) -> ir.Model:
    """Return a copy without functions, whose nodes have names and whose values have types.

    No two nodes have one name, nor two values, those in bodies among them.

    Args:
        model: Any model; not changed.
    """
    copy = copy_model(inlined(model))
    namer, seen = Namer(copy), set[str]()
    # Those in bodies too: a format is given to nodes by their names.
    for node in copy.graph.all_nodes():
        if not node.name or node.name in seen:
            node.name = namer.node(node.name or node.outputs[0].name or node.op_type)
        seen.add(str(node.name))
    _tell_apart(copy, namer)
    (cls,) = lookup("shape-inference")
    cls().call(copy)
    return copy


def _tell_apart(model: ir.Model, namer: Namer) -> None:
    """Rename values of bodies that have the name of another: two branches may."""
    known: set[str] = set()
    for graph in graphs_within(model.graph):
        for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
            if graph is not model.graph and value.name in known:
                value.name = namer.value(value.name)
            known.add(str(value.name))


def partition(
    model: ir.Model,
    formats: Sequence[str],
    wanted: Mapping[str, tuple[Mapping[str, Sequence[str]], Sequence[str]]],
    most: int,
) -> list[FormatGroup]:
    """Divide a model.

    Args:
        model: As :func:`prepare` returns it.
        formats: Formats that a group may have.
        wanted: By name of a group, which nodes it has, in the words of ``OnSomeNodes``, and its
            formats (none for all). A node that several mean is of the first. Nodes that none of them means
            stay in float32. Without any group, each layer with a weight is one, with the nodes
            behind it up to the next layer. Nodes in bodies follow the node that has the body.
        most: Number of groups, if they are found by layers; neighbours are joined.

    Raises:
        ConfigError: A pattern matches nothing, or a group has no node that is left.
    """
    nodes = [node for node in model.graph.all_nodes() if not is_constant_node(node)]
    if not wanted:
        return _by_layers(nodes, tuple(formats), most)
    groups, taken = [], set[str]()
    for name, (words, own) in wanted.items():
        try:
            meant = set(_Members(None, None, **words).select(model, bodies=True))
        except PassError as error:
            text = error.message.partition(": ")[2]
            raise ConfigError(f"the group {name!r}: {text}", help=error.help) from error
        members = [str(n.name) for n in nodes if n in meant and n.name not in taken]
        if not members:
            raise ConfigError(
                f"the group {name!r} has no nodes: nothing that is left matches",
                help="a node is of the first group that means it",
            )
        taken.update(members)
        groups.append(FormatGroup(name, tuple(members), tuple(own or formats)))
    return groups


class _Members(OnSomeNodes):
    """The nodes of a group."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Change nothing: nodes are selected only."""
        return ir.passes.PassResult(model, modified=False)


def _by_layers(
    nodes: Sequence[ir.Node], formats: tuple[str, ...], most: int
) -> list[FormatGroup]:
    runs: list[list[ir.Node]] = [[]]
    for node in nodes:
        if _has_weight(node) and any(map(_has_weight, runs[-1])):
            runs.append([])
        runs[-1].append(node)
    while len(runs) > most:
        sizes = [len(a) + len(b) for a, b in pairwise(runs)]
        place = sizes.index(min(sizes))
        runs[place : place + 2] = [runs[place] + runs[place + 1]]
    found = []
    for run in runs:
        head = next((node for node in run if _has_weight(node)), run[0] if run else None)
        if head is not None:
            names = tuple(str(node.name) for node in run)
            found.append(FormatGroup(str(head.name), names, formats))
    return found


def weight_of(node: ir.Node) -> int | None:
    """Return the number of the constant matrix that a product reads; None if there is none."""
    operator = operator_of(node)
    if operator is None or type(operator) not in _PRODUCTS:
        return None
    for index, value in enumerate(node.inputs):
        tensor = constant_tensor(value) if value is not None else None
        if tensor is not None and tensor.dtype is ir.DataType.FLOAT and len(tensor.shape) > 1:
            return index
    return None


def read_by_layers(model: ir.Model) -> set[str]:
    """Return the names of the values that products with a weight read.

    Those of a model with bodies need its inputs: what bodies compute is measured by runs.

    Args:
        model: As :func:`prepare` returns it.
    """
    holds = any(node.graph is not model.graph for node in model.graph.all_nodes())
    inputs = {str(value.name) for value in model.graph.inputs} if holds else set()
    return inputs | {
        str(value.name)
        for node in model.graph.all_nodes()
        if (index := weight_of(node)) is not None
        for place, value in enumerate(node.inputs)
        if value is not None and place != index
    }


def _has_weight(node: ir.Node) -> bool:
    """Whether a product reads a weight, which may be rounded by quantisers already."""
    if weight_of(node) is not None:
        return True
    operator = operator_of(node)
    if operator is None or type(operator) not in _PRODUCTS:
        return False
    read = [value for value in node.inputs[:2] if value is not None]
    return any(constant_tensor(v) is None and _is_fixed(v, _DEPTH) for v in read)


def _is_fixed(value: ir.Value, depth: int) -> bool:
    """Whether a value is a constant, or computed from constants by at most some nodes."""
    if constant_tensor(value) is not None:
        return True
    node = value.producer()
    read = [v for v in node.inputs if v is not None] if node is not None and depth else []
    return bool(read) and all(_is_fixed(v, depth - 1) for v in read)
