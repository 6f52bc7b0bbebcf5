"""Whether a fault is one: original and result side by side, with nothing of the gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from benchmarks.faults.case import Fault
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs import generate


def rewritten(fault: Fault, at: str, *, full: bool) -> onnx.ModelProto:
    """Return the model after the pass, which nothing checked."""
    model = fault.source.model(full=full)
    with fault.planted(at):
        return ir.to_proto(fault.cls(at=at)(model).model)


def effect(original: onnx.ModelProto, result: onnx.ModelProto, feeds: list[Feeds]) -> float:
    """Return the largest difference that the rewrites make on any of the inputs.

    Relative to the largest element of an output; infinite where outputs, shapes, types,
    NaN or infinities differ, or the result does not run.
    """
    load = _loader(original)
    before = load(original)
    expected = [before.run(None, f) for f in feeds]
    try:
        after = load(result)
        pairs = [(old, after.run(None, f)) for old, f in zip(expected, feeds, strict=True)]
    except Exception:  # ONNX Runtime raises what it likes: the result does not load or run
        return math.inf
    if any(len(old) != len(new) for old, new in pairs):
        return math.inf
    return max(_distance(o, n) for old, new in pairs for o, n in zip(old, new, strict=True))


def effect64(original: onnx.ModelProto, result: onnx.ModelProto, feeds: Feeds) -> float:
    """Return the difference between two networks in float64, as :func:`effect` measures it."""
    wide = {
        name: value.astype(np.float64) if value.dtype == np.float32 else value
        for name, value in feeds.items()
    }
    old, new = (ReferenceEvaluator(_doubled(p)).run(None, wide) for p in (original, result))
    return max(_distance(o, n) for o, n in zip(old, new, strict=True))


def mapped(fault: Fault, at: str, feeds: list[Feeds], *, full: bool) -> float:
    """Return the largest difference between a result and what its interface map promises."""
    model = fault.source.model(full=full)
    ports = fault.cls(at=at).interface_map(model)
    assert ports is not None, "the pass has no interface map"
    old = _session(fault.source.proto(full=full))
    new = _session(rewritten(fault, at, full=full))
    worst = 0.0
    for sample in feeds:
        given = dict(ports.inputs(name, value) for name, value in sample.items())
        seen = dict(ports.back(name, value) for name, value in given.items())
        promised = dict(
            ports.outputs(port.name, value)
            for port, value in zip(old.get_outputs(), old.run(None, seen), strict=True)
        )
        if {port.name for port in new.get_inputs()} != given.keys():
            return math.inf
        names = [port.name for port in new.get_outputs()]
        if set(names) != promised.keys():
            return math.inf
        found = zip(names, new.run(None, given), strict=True)
        worst = max(worst, *(_distance(promised[name], value) for name, value in found))
    return worst


def interface(proto: onnx.ModelProto) -> list[object]:
    """Return names, types and dimensions of inputs and outputs, in order, and defaults."""
    defaults = {tensor.name for tensor in proto.graph.initializer}
    ports = [
        (port.name, port.type.SerializeToString(deterministic=True), port.name in defaults)
        for port in (*proto.graph.input, *proto.graph.output)
    ]
    return [len(proto.graph.input), *ports]


def real(fault: Fault, at: str, *, full: bool) -> bool:
    """Whether the fault changes the result, and more than the pass without it does."""
    original = fault.source.proto(full=full)
    feeds = [
        *generate(fault.source.model(full=full), seed=11, samples=2),
        *fault.feeds,
    ]
    if fault.cls(at="").interface_map(fault.source.model(full=full)) is not None:
        wrong, right = (mapped(fault, where, feeds, full=full) for where in (at, ""))
        return wrong > 10 * right
    results = [rewritten(fault, where, full=full) for where in (at, "")]
    changed, kept = (interface(original) != interface(result) for result in results)
    if changed and not kept:
        return True
    wrong, right = (effect(original, result, feeds) for result in results)
    if wrong > 10 * right:
        return True
    # Rounding hides a small fault deep in a network; in float64 there is hardly any.
    wrong, right = (effect64(original, result, feeds[0]) for result in results)
    return wrong > 10 * right


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


def _loader(original: onnx.ModelProto) -> Callable[..., Any]:
    """Return what loads both sides: onnx's evaluator if ONNX Runtime lacks an operator."""
    try:
        _session(original)
    except NotImplemented:
        return ReferenceEvaluator
    return _session


def _session(proto: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
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
