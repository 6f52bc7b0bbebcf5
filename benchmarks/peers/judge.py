"""``python -m benchmarks.peers.judge ORIGINAL RESULT``: what became of a model."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from onnx_passes.errors import EngineError
from onnx_passes.runtime.inputs import InputSearch, generate
from onnx_passes.runtime.ort import engine_for

TOLERANCE = 1e-3
"""Largest difference, of the largest absolute value of an output."""


def feeds_of(path: Path) -> dict[str, Any]:
    """Return the inputs beside a model, or generated ones on which it runs.

    Raises:
        EngineError: It runs on none that were tried.
    """
    beside = path.with_suffix(".npz")
    if beside.exists():
        with np.load(beside) as arrays:
            return dict(arrays)
    model = ir.load(path)
    feeds = generate(model, samples=1)[0]
    with engine_for(model).prepare(model) as started:
        try:
            started.run(feeds)
        except EngineError:
            other = InputSearch(model, samples=1).search(started)
            if other is None:
                raise
            feeds = other.samples[0]
    return dict(feeds)


def session(path: Path, *, optimised: bool, threads: int = 0) -> onnxruntime.InferenceSession:
    """Start a session with every optimisation of ONNX Runtime, or with none.

    Args:
        path: The model.
        optimised: All of its optimisations or none.
        threads: How many compute an operator; 0 is ONNX Runtime's own choice.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def fault(original: Path, result: Path, feeds: dict[str, Any]) -> str:
    """Return what is wrong with a result, empty if nothing is."""
    try:
        onnx.checker.check_model(str(result))
    except Exception as error:  # whatever the checker raises makes it invalid
        return f"invalid: {str(error).splitlines()[0][:200]}"
    if not same_ports(
        *(ports_of(onnx.load(path, load_external_data=False)) for path in (original, result))
    ):
        return "its inputs or outputs are others"
    try:
        actual = session(result, optimised=False).run(None, feeds)
    except Exception as error:  # ONNX Runtime has no common class of errors
        return f"ONNX Runtime refuses it: {str(error).splitlines()[0][:200]}"
    expected = session(original, optimised=False).run(None, feeds)
    names = [value.name for value in onnx.load(result, load_external_data=False).graph.output]
    for name, a, b in zip(names, expected, actual, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"{name} is finite elsewhere"
        off = float(np.max(np.abs(a - b), initial=0, where=np.isfinite(a)))
        if off > TOLERANCE * float(np.max(np.abs(a), initial=0, where=np.isfinite(a))):
            return f"{name} is off by {off:.3g}"
    return ""


Port = tuple[str, int, int | None]


def same_ports(before: list[Port], after: list[Port]) -> bool:
    """Whether names, order, types and ranks, where both have one, are the same."""
    return len(before) == len(after) and all(
        a[:2] == b[:2] and (None in (a[2], b[2]) or a[2] == b[2])
        for a, b in zip(before, after, strict=True)
    )


def ports_of(model: onnx.ModelProto) -> list[Port]:
    """Return name, element type and rank of inputs that must be fed, then of outputs."""
    graph = model.graph
    given = {tensor.name for tensor in graph.initializer}

    def port(value: onnx.ValueInfoProto) -> Port:
        tensor = value.type.tensor_type
        rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
        return value.name, tensor.elem_type, rank

    fed = [port(value) for value in graph.input if value.name not in given]
    return [*fed, ("", 0, None), *(port(value) for value in graph.output)]


def histogram(path: Path) -> Counter[str]:
    """Count nodes by operator, those of bodies and functions included."""
    model = ir.load(path)
    graphs = (model.graph, *model.functions.values())
    return Counter(node.op_type for graph in graphs for node in graph.all_nodes())


def judge(original: Path, result: Path) -> dict[str, object]:
    """Return fault, nodes, bytes and operators of a result beside its original."""
    feeds = feeds_of(original)
    counts = histogram(result)
    return {
        "fault": fault(original, result, feeds),
        "nodes": counts.total(),
        "constants": counts["Constant"],
        # A result has a folder of its own, which also has what it keeps outside its file.
        "bytes": sum(path.stat().st_size for path in result.parent.iterdir()),
        "operators": dict(counts.most_common()),
    }


def main() -> None:
    """Print the judgement of one result."""
    original, result = map(Path, sys.argv[1:])
    print(json.dumps(judge(original, result)))


if __name__ == "__main__":
    main()
