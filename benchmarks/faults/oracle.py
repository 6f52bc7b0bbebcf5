"""Whether a fault is one: original and result side by side, with nothing of the gate."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks.faults.case import Fault
from onnx_passes.runtime.base import Feeds
from onnx_passes.runtime.inputs import generate

LOOSE = (1e-3, 1e-3)
"""rtol and atol to which they are raised where the default ones refuse what is right."""


def rewritten(fault: Fault, at: str, *, full: bool) -> onnx.ModelProto:
    """Return the model after the pass, which nothing checked."""
    model = fault.source.model(full=full)
    return ir.to_proto(fault.cls(at=at)(model).model)


def effect(original: onnx.ModelProto, result: onnx.ModelProto, feeds: list[Feeds]) -> float:
    """Return the largest difference that the rewrites make on any of the inputs.

    Relative to the largest element of an output; infinite where outputs, shapes, types,
    NaN or infinities differ, or the result does not run.
    """
    before = _session(original, optimised=False)
    expected = [before.run(None, f) for f in feeds]
    try:
        after = _session(result, optimised=False)
        pairs = [(old, after.run(None, f)) for old, f in zip(expected, feeds, strict=True)]
    except Exception:  # ONNX Runtime raises what it likes: the result does not load or run
        return math.inf
    if any(len(old) != len(new) for old, new in pairs):
        return math.inf
    return max(_distance(o, n) for old, new in pairs for o, n in zip(old, new, strict=True))


def effect64(original: onnx.ModelProto, result: onnx.ModelProto, feeds: Feeds) -> float:
    """Return the difference between two networks in float64, as :func:`effect` measures it."""
    old, new = (
        ReferenceEvaluator(_doubled(p)).run(None, dict(feeds)) for p in (original, result)
    )
    return max(_distance(o, n) for o, n in zip(old, new, strict=True))


def real(fault: Fault, at: str, *, full: bool) -> bool:
    """Whether the fault changes the result, and more than the pass without it does."""
    original = fault.source.proto(full=full)
    feeds = [
        *generate(fault.source.model(full=full), seed=11, samples=2),
        *fault.feeds,
    ]
    results = [rewritten(fault, where, full=full) for where in (at, "")]
    wrong, right = (effect(original, result, feeds) for result in results)
    if wrong > 10 * right:
        return True
    # Rounding hides a small fault deep in a network; in float64 there is hardly any.
    wrong, right = (effect64(original, result, feeds[0]) for result in results)
    return wrong > 10 * right


def usual(
    original: onnx.ModelProto, result: onnx.ModelProto, model: ir.Model
) -> tuple[bool, bool]:
    """Return whether the usual check accepts: one random input, whole model, numpy's allclose.

    First at numpy's default tolerances, then at ``LOOSE``.
    """
    (feeds,) = generate(model, seed=1, samples=1)
    old = _session(original, optimised=True).run(None, feeds)
    try:
        new = _session(result, optimised=True).run(None, feeds)
        default = all(np.allclose(n, o) for o, n in zip(old, new, strict=True))
        loose = all(np.allclose(n, o, *LOOSE) for o, n in zip(old, new, strict=True))
    except Exception:  # it does not run, or shapes do not broadcast
        return False, False
    return default, loose


def _doubled(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a network, without subgraphs, in which all float32 is float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    graph = wide.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        _double(tensor)
    for port in (*graph.input, *graph.output):
        if port.type.tensor_type.elem_type == TensorProto.FLOAT:
            port.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            _double(attribute.t)
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return wide


def _double(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _session(proto: onnx.ModelProto, *, optimised: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _distance(old: np.ndarray, new: np.ndarray) -> float:
    if old.dtype != new.dtype or old.shape != new.shape:
        return math.inf
    o, n = old.astype(np.float64), new.astype(np.float64)
    finite = np.isfinite(o)
    with np.errstate(invalid="ignore"):
        if not np.array_equal(np.where(finite, 0, o), np.where(np.isfinite(n), 0, n), True):
            return math.inf
    scale = np.abs(o[finite]).max(initial=0) or 1.0
    return float(np.abs(o[finite] - n[finite]).max(initial=0) / scale)
