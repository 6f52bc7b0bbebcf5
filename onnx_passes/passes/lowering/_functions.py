"""What the passes share that put in the function by which ONNX defines an operator."""

from __future__ import annotations

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.versions import CannotConvertError
from onnx_passes.passes._support.calls import Names, inline_call
from onnx_passes.passes._support.scopes import nodes_within
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.convert._bodies import body_of
from onnx_passes.passes.convert._conform import conform, schema_of
from onnx_passes.passes.convert._versions import changes


class FunctionPass(Transformation):
    """A pass that puts in the definitions of operators, in subgraphs too.

    Not in functions: a definition depends on types, and theirs on the call.
    """

    needs = ("topological-sort", "shape-inference")

    def wanted(self, node: ir.Node) -> bool:
        """Whether an operator is to be lowered."""
        raise NotImplementedError

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Put in the definitions, and those of what they bring."""
        modified = False
        opset = model.opset_imports.get("", 0)
        names = Names(*graphs_within(model.graph))
        pending = [n for graph in graphs_within(model.graph) for n in graph]
        while pending:
            node = pending.pop()
            if node.domain or node.op_identifier() in model.functions or not self.wanted(node):
                continue
            put_in = self._define(node, opset, names)
            modified = modified or bool(put_in)
            pending += put_in
        return ir.passes.PassResult(model, modified=modified)

    def _define(self, node: ir.Node, opset: int, names: Names) -> list[ir.Node]:
        """Replace a node by a definition, if there is one that fits."""
        graph = node.graph
        assert graph is not None, "the node has just been found in it"
        if not _has_types_for(node) or not _has_values_for(node):
            return []
        attributes = dict(node.attributes)
        found = body_of(node, opset)
        fits = found is not None and _fits(found[0], node, found[1], opset)
        if found is None or not fits or not _is_typed(found[0], node):
            for name in node.attributes.keys() - attributes.keys():
                del node.attributes[name]  # the defaults that `body_of` has filled in
            return []
        nodes = inline_call(graph, node, found[0], names)
        return [inner for outer in nodes for inner in nodes_within(outer)]


_OVERFLOWING = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
)
"""Reductions of integers that saturate in kernels, and wrap in their definitions."""


def _has_types_for(node: ir.Node) -> bool:
    """Whether a definition is valid for the type of its operator's first input.

    ONNX defines Shrink by Neg, which has no unsigned integers, and ReduceLogSum by Log, which
    has none. It defines ReduceL2 by the root of a float, which has half of the digits of a
    double. ONNX Runtime computes Shrink of doubles in floats, so that its definition is
    another function.
    """
    if node.op_type not in (*_OVERFLOWING, "Shrink"):
        return True
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    if dtype is None or dtype.is_floating_point():
        in_floats = node.op_type in ("ReduceL2", "Shrink") and dtype is ir.DataType.DOUBLE
        return dtype is not None and not in_floats
    return node.op_type == "Shrink" and dtype.is_signed()


def _has_values_for(node: ir.Node) -> bool:
    """Whether a definition is that of its operator for the node's attributes and constants.

    That of AffineGrid with aligned corners divides by sizes less one. That of Celu changes
    positive elements where alpha is negative.
    """
    if node.op_type == "Celu":
        return node.attributes.get_float("alpha", 1.0) > 0
    if node.op_type != "AffineGrid" or not node.attributes.get_int("align_corners", 0):
        return True
    sizes = constant_of(node.inputs[1])
    return sizes is not None and 1 not in sizes.numpy()[2:]


def _is_typed(body: ir.Function, node: ir.Node) -> bool:
    """Whether a definition is of consistent types for the node's inputs.

    That of MeanVarianceNormalization before opset 21 adds a float32 to whatever it is given.
    """
    types = []
    for value in node.inputs:
        if value is None or value.type is None:
            return True  # it cannot be asked
        types.append(ir.serde.serialize_value(value).type)
    attributes = [ir.serde.serialize_attribute(a) for a in node.attributes.values()]
    function = ir.serde.serialize_function(body)
    try:
        onnx.shape_inference.infer_function_output_types(function, types, attributes)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _fits(body: ir.Function, node: ir.Node, since: int, opset: int) -> bool:
    """Whether a definition of an older opset means the same in this one."""
    if len(node.inputs) > len(body.inputs) or len(node.outputs) > len(body.outputs):
        return False
    given = dict(zip(body.inputs, node.inputs, strict=False))
    if any(value in body.inputs and given.get(value) is None for value in body.outputs):
        return False
    for inner in (n for outer in body for n in nodes_within(outer)):
        after = schema_of(inner, opset)
        borders = range(since + 1, opset + 1)
        if after is None or any(changes(inner.op_type, border) for border in borders):
            return False
        try:
            conform(inner, schema_of(inner, since), after)
        except CannotConvertError:
            return False
    return True
