"""Types and shapes of a node's results, asked of an engine where no rule of ours says them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.concrete import UNKNOWN
from onnx_passes.ops.semantics import Unsupported, scalars
from onnx_passes.verify.rules.running import EngineFailure, run_once

EMPTY = "an empty operand of a kernel that divides by its sizes, or never ends"
_DIVIDES = ("Attention", "MultiHeadAttention", "GroupNormalization", "Conv")
"""Operators that make ONNX Runtime 1.31.1 end the process or hang (Conv of no channel)."""


def measured(
    node: ir.Node, known: Mapping[ir.Value, Tensor], domains: Mapping[str, int]
) -> tuple[Tensor, ...]:
    """Run one node on inputs of ones, and return its results with their values unknown.

    Args:
        node: The node; its outputs have names.
        known: Types and shapes of its inputs, with numbers where they are constant.
        domains: Opsets.

    Raises:
        Unsupported: The engine does not run it.
    """
    inputs, arrays = [], []
    for value in node.inputs:
        if value is None:
            continue
        tensor = known[value]
        if node.op_type in _DIVIDES and 0 in tensor.shape:
            raise Unsupported(EMPTY)
        data = [1 if s is UNKNOWN else s for s in tensor.data.flat]
        arrays.append(np.array(data, tensor.dtype.numpy()).reshape(tensor.shape))
        inputs.append((str(value.name), int(tensor.dtype), tensor.shape))
    proto = ir.to_proto(node)
    key = proto.SerializeToString(deterministic=True)
    constants = tuple(a.tobytes() if a.dtype == np.int64 else b"" for a in arrays)
    imports = tuple(sorted(domains.items()))
    shapes = _run(key, tuple(dict.fromkeys(inputs)), constants, imports, _Feeds(arrays))
    return tuple(_blank(dtype, shape) for dtype, shape in shapes)


class _Feeds:
    """Arrays that play no part in the identity of a call, since their content is elsewhere."""

    def __init__(self, arrays: Sequence[object]) -> None:
        self.arrays = arrays

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Feeds)


def _blank(dtype: ir.DataType, shape: tuple[int, ...]) -> Tensor:
    size = int(np.prod(shape, dtype=np.int64))
    return Tensor(scalars([UNKNOWN] * size, shape), dtype)


@functools.lru_cache(4096)
def _run(
    node: bytes,
    inputs: tuple[tuple[str, int, tuple[int, ...]], ...],
    constants: tuple[bytes, ...],
    imports: tuple[tuple[str, int], ...],
    feeds: _Feeds,
) -> tuple[tuple[ir.DataType, tuple[int, ...]], ...]:
    del constants  # part of the key alone
    proto = onnx.NodeProto.FromString(node)
    graph = onnx.helper.make_graph(
        [proto],
        "node",
        [onnx.helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [onnx.ValueInfoProto(name=name) for name in proto.output],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in imports]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    by_name = dict(zip([n for n in proto.input if n], feeds.arrays, strict=True))
    results = run_once(ir.from_proto(model), by_name, apart=True)
    if isinstance(results, EngineFailure):
        raise Unsupported(f"{proto.op_type} that the engine does not run: {results.message}")
    return tuple((ir.DataType.from_numpy(r.dtype), r.shape) for r in results)
