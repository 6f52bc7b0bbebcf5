"""ONNX Runtime, as passes that ask it something start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    import onnxruntime


def start(proto: onnx.ModelProto, *, optimized: bool = False) -> onnxruntime.InferenceSession:
    """Start a session on one thread.

    Args:
        proto: The model.
        optimized: Whether ONNX Runtime may rewrite it; otherwise it is computed as written.

    Raises:
        Exception: ONNX Runtime does not load the model; its errors have no common class.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    level = "ORT_ENABLE_ALL" if optimized else "ORT_DISABLE_ALL"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    # Prepacked weights have other kernels, whose last bits differ from those of the gate.
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
