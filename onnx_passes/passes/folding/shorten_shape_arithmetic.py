"""Replace several nodes that pick out dimensions by one Shape."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.domains.sizes import KnownTensor, dimension, is_dimension
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.replace import Namer

START_AND_END = 15
"""The first opset whose Shape can leave dimensions out."""


@passes.verify.equality
@passes.register()
class ShortenShapeArithmetic(passes.Transformation):
    """Replace several nodes that pick out dimensions by one Shape.

    Before: ``s = Shape(x)  g = Gather(s, 1)  n = Unsqueeze(g, [0])``
    After:  ``n = Shape<start = 1, end = 2>(x)``

    Any nodes between are seen through, Slice, Cast and Concat among them, as long as what they
    make of a shape are dimensions that follow each other in it.

    Sound because both are the same dimensions of the same tensor.

    Leaves alone: opset 14 and before, whose Shape is always the whole; dimensions that are
    numbers, which fold-constants makes constants; what would not become fewer nodes;
    functions, whose dimensions depend on the call.
    """

    needs = ("topological-sort", "shape-inference")
    preserves = ("shape-inference", "topological-sort")
    # No other operator computes dimensions.
    needed_operators = frozenset({("", "Shape"), ("", "Size")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the last node of a chain first, so that as much as possible goes at once."""
        if model.graph.opset_imports.get("", 1) < START_AND_END:
            return ir.passes.PassResult(model, modified=False)
        facts, namer, names = (
            Knowledge(model.graph.opset_imports),
            Namer(model),
            graph_edits.name_counts(model),
        )
        shortened = 0
        for graph in list(graphs_within(model.graph)):
            known = [(node, facts.visit(node)) for node in graph]
            for node, found in reversed(known):
                if node.graph is None or found is None or not _are_dimensions(found):
                    continue
                place = _place(node, found)
                if place is None or node.outputs[0].meta.get(graph_edits.QUANTIZATION):
                    continue
                new = _shape_node(*place, namer)
                graph.insert_before(node, new)
                names.update([str(new.outputs[0].name)])
                graph_edits.supersede(node.outputs[0], new.outputs[0], names)
                graph_edits.discard_unread([node])
                shortened += 1
        return ir.passes.PassResult(model, modified=shortened > 0)


def _are_dimensions(known: KnownTensor) -> bool:
    is_vector = known.rank == 1 and known.dtype is ir.DataType.INT64
    return is_vector and bool(known.elements) and all(map(is_dimension, known.elements))


def _place(node: ir.Node, known: KnownTensor) -> tuple[ir.Value, int, int] | None:
    """Return a tensor and the axes from and to which it has the dimensions, if that pays."""
    if node.op_type == "Shape":
        return None
    dying, sources = _cone(node)
    if len(dying) < 2:
        return None
    count = len(known.elements)
    for source in sources:
        if source.shape is None:
            continue
        dims = [dimension(source, axis) for axis in range(len(source.shape))]
        for start in range(len(dims) - count + 1):
            if tuple(dims[start : start + count]) == known.elements:
                return source, start, start + count
    return None


def _cone(last: ir.Node) -> tuple[set[ir.Node], list[ir.Value]]:
    """Return the nodes that only ``last`` needs, itself too, and whose Shape it comes from."""
    dying, sources, seen = {last}, dict[ir.Value, None](), {last}
    pending = [last]
    while pending:
        node = pending.pop(0)
        if (node.domain, node.op_type) == ("", "Shape") and node.inputs[0] is not None:
            sources[node.inputs[0]] = None
            continue
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is None or producer in seen or producer.op_type == "Constant":
                continue
            seen.add(producer)
            pending.append(producer)
    while more := {node for node in seen - dying if _is_needed_by(dying, node)}:
        dying |= more
    return dying, list(sources)


def _is_needed_by(readers: set[ir.Node], node: ir.Node) -> bool:
    """Whether only the given nodes read a node."""
    used = {user for value in node.outputs for user in value.consumers()}
    return used <= readers and not any(value.is_graph_output() for value in node.outputs)


def _shape_node(source: ir.Value, start: int, end: int, namer: Namer) -> ir.Node:
    attributes = [ir.AttrInt64("start", start)] if start else []
    assert source.shape is not None, "the place is known"
    if end < len(source.shape):
        attributes.append(ir.AttrInt64("end", end))
    wish = f"{source.name}_dims"
    output = ir.Value(
        name=namer.value(wish),
        type=ir.TensorType(ir.DataType.INT64),
        shape=ir.Shape([end - start]),
    )
    return ir.Node("", "Shape", [source], attributes, outputs=[output], name=namer.node(wish))
