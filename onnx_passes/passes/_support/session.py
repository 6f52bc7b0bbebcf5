"""ONNX Runtime, as passes that ask it something start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    import onnxruntime


def start(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Start a session that computes a model as it is written, on one thread.

    Raises:
        Exception: ONNX Runtime does not load the model; its errors have no common class.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Prepacked weights have other kernels, whose last bits differ from those of the gate.
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
