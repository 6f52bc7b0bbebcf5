"""What is declared of values, removed where inference can find it itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx

from onnx_passes.ops.bodies import has_body

_NOTHING: Mapping[str, Sequence[object]] = MappingProxyType({})


def forget(
    proto: onnx.GraphProto,
    *,
    numbers: bool,
    keep: Mapping[str, Sequence[object]] = _NOTHING,
    inner: bool = False,
) -> None:
    """Remove what is declared of inner values that inference can find itself.

    Args:
        proto: The graph, changed in place.
        numbers: Whether to remove fixed sizes too, not only names.
        keep: Dimensions of values, by name, that stay; None for one that does not.
        inner: Whether it is a subgraph.
    """
    fixed = results_without_schema(proto) | {tensor.name for tensor in proto.initializer}
    # The outputs of the main graph are the user's, those of a subgraph are inner values.
    for info in (*proto.value_info, *(proto.output if inner else ())):
        if info.name not in fixed:
            dims = info.type.tensor_type.shape.dim
            if numbers and info.name not in keep:
                info.type.tensor_type.ClearField("shape")  # a false rank hides the right one
                continue
            known = keep.get(info.name, (None,) * len(dims))
            for dim, kept in zip(dims, known, strict=False):
                if kept is None and (numbers or dim.HasField("dim_param")):
                    dim.Clear()
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                forget(graph, numbers=numbers, keep=keep, inner=True)


def results_without_schema(proto: onnx.GraphProto) -> set[str]:
    """Return the names of what operators without a schema compute."""
    operators = {(node.op_type, node.domain) for node in proto.node}
    unknown = {
        (op_type, domain)
        for op_type, domain in operators
        if not onnx.defs.has(op_type, domain=domain) and not has_body(domain, op_type)
    }
    return {
        name
        for node in (proto.node if unknown else ())
        if (node.op_type, node.domain) in unknown
        for name in node.output
    }
