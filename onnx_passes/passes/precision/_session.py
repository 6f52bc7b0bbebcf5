"""ONNX Runtime on a model whose weights stay where they are: in files, or in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.ort_sessions import open_session, session_options
from onnx_passes.model.walk import all_graphs
from onnx_passes.ops.bodies import attach_to_model
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnxruntime

_LEAST = 1 << 12
"""Tensors of fewer bytes are written into the protobuf: they may be shapes or axes."""
_MOST_WITHIN = 1 << 30
"""Bytes of weights that are written into the protobuf, if they cannot be handed over."""
_FOLDER = "session.model_external_initializers_file_folder_path"
_ELSEWHERE = "in memory"


def start_beside(
    model: ir.Model, outputs: Sequence[str]
) -> tuple[onnxruntime.InferenceSession, list[onnxruntime.OrtValue]]:
    """Start a session on one thread that computes a model as it is written.

    Weights in files are mapped by ONNX Runtime, and those in memory are not copied into a
    protobuf, which ends at 2 GiB.

    Args:
        model: The model; not changed.
        outputs: Names of float32 values that are outputs as well.

    Returns:
        The session, and the weights in memory, which have to live as long.

    Raises:
        Exception: ONNX Runtime does not load the model; its errors have no common class.
    """
    try:
        return _start(model, outputs, beside=True)
    except Exception:
        # ONNX Runtime may remove a weight that it has folded before it asks for its data.
        if _held(model) > _MOST_WITHIN:
            raise
        return _start(model, outputs, beside=False)


def _start(
    model: ir.Model, outputs: Sequence[str], *, beside: bool
) -> tuple[onnxruntime.InferenceSession, list[onnxruntime.OrtValue]]:
    """Start a session, with weights in memory beside the protobuf or within."""
    import onnxruntime as ort

    copy = copy_model(model)
    attach_to_model(copy)  # ONNX Runtime has no quantisers of QONNX
    folder = _folder_of(copy)
    given: PlainDict = {}
    for graph in all_graphs(copy):
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if tensor is None or tensor.dtype is ir.DataType.STRING:
                continue
            if not _is_file(tensor) and (tensor.nbytes < _LEAST or value.is_graph_input()):
                continue
            if graph is not copy.graph:
                # ONNX Runtime takes data from outside in the main graph only.
                value.const_value = ir.tensor(np.array(tensor.numpy()), tensor.dtype, name)
            elif _is_file(tensor) and _parent(tensor) == folder:
                assert isinstance(tensor, ir.ExternalTensor), "it was looked at"
                value.const_value = _declare(tensor, Path(tensor.path).name, tensor.offset)
            elif beside and tensor.dtype.numpy().isbuiltin == 1:
                given[name] = ort.OrtValue.ortvalue_from_numpy(
                    np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape.numpy())
                )
                value.const_value = _declare(tensor, _ELSEWHERE, 0)
    proto = ir.to_proto(copy)
    known = {output.name for output in proto.graph.output}
    for name in outputs:
        if name not in known:
            kind = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
            proto.graph.output.append(kind)
    # Prepacked weights have other kernels, whose last bits differ from those of the gate.
    options = session_options(prepacking=False)
    if folder is not None:
        options.add_session_config_entry(_FOLDER, folder)
        # In its own order, it widens all weights before the first product.
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.add_external_initializers(list(given), list(given.values()))
    return open_session(proto, options), list(given.values())


def _held(model: ir.Model) -> int:
    """Return the bytes of the weights in memory."""
    tensors = (v.const_value for v in model.graph.initializers.values())
    return sum(t.nbytes for t in tensors if t is not None and not _is_file(t))


def _is_file(tensor: ir.TensorProtocol) -> bool:
    return isinstance(tensor, ir.ExternalTensor)


def _parent(tensor: ir.TensorProtocol) -> str:
    assert isinstance(tensor, ir.ExternalTensor), "only such a tensor has a path"
    return str(Path(tensor.path).resolve().parent)


def _folder_of(model: ir.Model) -> str | None:
    """Return the folder of most external data of the main graph; None without any."""
    sizes: Counter[str] = Counter()
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and _is_file(tensor):
            sizes[_parent(tensor)] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else None


def _declare(
    tensor: ir.TensorProtocol, location: str, offset: int | None
) -> ir.ExternalTensor:
    """Return a tensor that says where data is, and holds none."""
    assert isinstance(tensor.shape, ir.Shape), "a tensor has a shape"
    return ir.ExternalTensor(
        location,
        offset or 0,
        tensor.nbytes,
        tensor.dtype,
        shape=tensor.shape,
        name=tensor.name or "",
    )
