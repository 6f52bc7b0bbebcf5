"""Pooling with ``ceil_mode``, of which onnx infers another shape than engines compute."""

from __future__ import annotations

import onnx

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def cap_padding(graph: onnx.GraphProto) -> None:
    """Let inference count only the windows that start inside the image or its padding before.

    Before opset 22, onnx also counts a last window that starts in the padding behind, which
    ONNX Runtime, as later opsets, leaves out. With ``ceil_mode``, padding behind of at most
    window - stride gives the right number for any size of the image.

    Args:
        graph: The graph, subgraphs included, changed in place.
    """
    for node in graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type in _POOLS and not node.domain and "pads" in attributes:
            _cap(attributes)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                cap_padding(body)


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
