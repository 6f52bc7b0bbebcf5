"""Whether ONNX Runtime has a kernel for a node: asked of it, once for each kind of node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import onnx

from onnx_passes.errors import EngineError


def runs(
    node: onnx.NodeProto,
    dtypes: Sequence[int | None],
    ranks: Mapping[str, int],
    opset: int,
) -> bool:
    """Whether the engine starts a session for this operator on these types.

    Args:
        node: The node.
        dtypes: Element type of each input; None for one that is left out.
        ranks: Rank of each input by name; -1 where it is unknown.
        opset: Of the main domain.
    """
    inputs = [name for name in node.input if name]
    places = tuple(inputs.index(name) if name else -1 for name in node.input)
    shape_ranks = tuple(ranks[name] for name in inputs)
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    bare.name = ""
    del bare.input[:], bare.output[:]
    kept = tuple(dtypes[: len(places)])
    key = bare.SerializeToString(deterministic=True)
    return _runs(key, kept, places, shape_ranks, len(node.output), opset)


@lru_cache(maxsize=20000)
def _runs(
    serialized: bytes,
    dtypes: tuple[int | None, ...],
    places: tuple[int, ...],
    ranks: tuple[int, ...],
    outputs: int,
    opset: int,
) -> bool:
    import onnx_ir as ir

    from onnx_passes.runtime.ort import OnnxRuntimeEngine

    node = onnx.NodeProto.FromString(serialized)
    names = ["" if place < 0 else f"x{place}" for place in places]
    node.input.extend(names)
    node.output.extend(f"y{i}" for i in range(outputs))
    fed: dict[str, onnx.ValueInfoProto] = {}
    for name, dtype in zip(names, dtypes, strict=True):
        if name and dtype is not None:
            rank = ranks[int(name[1:])]
            dims = None if rank < 0 else [None] * rank
            fed[name] = onnx.helper.make_tensor_value_info(name, dtype, dims)
    results = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = onnx.helper.make_graph([node], "g", list(fed.values()), results)
    imports = [onnx.helper.make_opsetid("", opset)]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=True)
        with OnnxRuntimeEngine(prepacking=False).prepare(ir.from_proto(inferred)):
            return True
    except (EngineError, onnx.shape_inference.InferenceError):
        return False
