"""Operators for which onnx infers another shape than engines compute."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import onnx

from onnx_passes.model.protos import graphs_of

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_CONCERNED = frozenset({*_POOLS, "Constant", "PRelu", "Squeeze"})
_NO_ATTRIBUTE = onnx.AttributeProto()


def follow_engines(graph: onnx.GraphProto, empty: AbstractSet[str] = frozenset()) -> None:
    """Change nodes so that inference finds the shapes that engines compute.

    - Pooling with ``ceil_mode``: before opset 22, onnx also counts a last window that starts
      in the padding behind, which ONNX Runtime, as later opsets, leaves out. Padding behind of
      at most window - stride gives the right number for any size of the image.
    - Squeeze with an empty list of axes: onnx removes no dimension, ONNX Runtime all of size
      1, as if there were no list.
    - PRelu: onnx lets the slope be repeated, ONNX Runtime both operands, as in a product.

    Args:
        graph: The graph, subgraphs included, changed in place; not meant to be run.
        empty: Names of empty constants around it.
    """
    empty = empty | {tensor.name for tensor in graph.initializer if list(tensor.dims) == [0]}
    for node in graph.node:
        if node.op_type in _CONCERNED:
            attributes = {attribute.name: attribute for attribute in node.attribute}
            if node.op_type == "Constant" and list(
                attributes.get("value", _NO_ATTRIBUTE).t.dims
            ) == [0]:
                empty |= {node.output[0]}
            if node.op_type in _POOLS and not node.domain and "pads" in attributes:
                _cap(attributes)
            if node.op_type == "Squeeze" and not node.domain and empty & {*node.input[1:]}:
                del node.input[1]
            if node.op_type == "PRelu" and not node.domain:
                node.op_type = "Mul"
        for body in graphs_of(node.attribute):
            follow_engines(body, empty)


def _cap(attributes: dict[str, onnx.AttributeProto]) -> None:
    if "ceil_mode" not in attributes or not attributes["ceil_mode"].i:
        return
    kernel, pads = attributes["kernel_shape"].ints, attributes["pads"].ints
    strides, dilations = (
        attributes[name].ints if name in attributes else [1] * len(kernel)
        for name in ("strides", "dilations")
    )
    for axis, stride in enumerate(strides):
        behind, window = len(kernel) + axis, (kernel[axis] - 1) * dilations[axis] + 1
        if window < stride:  # padding may not be negative; a wider window counts the same
            kernel[axis], dilations[axis], window = stride, 1, stride
        pads[behind] = min(pads[behind], window - stride)
