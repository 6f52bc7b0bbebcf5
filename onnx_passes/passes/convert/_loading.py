"""Whether ONNX Runtime loads a model: its kernels, and the functions that it knows."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.model.ort_sessions import open_session, session_options
from onnx_passes.passes._support.proto import light_proto


def lost(before: ir.Model, after: ir.Model) -> str | None:
    """Return why ONNX Runtime loads a model no longer, None if it does or never did.

    Its optimisations are asked, too: those for quantised models break some opsets.

    Args:
        before: The model before.
        after: The model after.
    """
    for optimized in (False, True):
        reason = refusal(after, optimized=optimized)
        if reason is not None and refusal(before, optimized=optimized) is None:
            return reason
    return None


def refusal(model: ir.Model, *, optimized: bool = False) -> str | None:
    """Return why ONNX Runtime does not load a model, None if it does.

    It finds a kernel for every node when it loads a model, or puts the function there that
    the standard defines the operator by. No list of kernels says as much: which function holds
    in an opset depends on the operators within it.

    Args:
        model: Any model; its big weights are taken for inputs, so that none is copied.
        optimized: Whether ONNX Runtime may rewrite it.
    """
    try:
        options = session_options("all" if optimized else "none")
        open_session(_weightless(model), options)
    except Exception as error:  # each status has a class of its own, with no common one
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return first.rpartition(" : ")[2]
    return None


def _weightless(model: ir.Model) -> onnx.ModelProto:
    proto = light_proto(model, main_graph_only=True)
    graph = proto.graph
    given = {value.name for value in graph.input}
    held = [t for t in graph.initializer if t.data_location != onnx.TensorProto.EXTERNAL]
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL and tensor.name not in given:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    del graph.initializer[:]
    graph.initializer.extend(held)
    return proto
