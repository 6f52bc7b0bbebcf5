"""The peak memory of verified runs, on a model of 3 GB with its weights in a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.processes import run

WIDTH, LAYERS = 4096, 48
BYTES = 4 * WIDTH * WIDTH * LAYERS
"""3.2 GB: more than protobuf can hold in one message."""

LIMIT = 1.3
ELIMINATE = """passes:
  - eliminate-identity
  - eliminate-common-subexpressions
  - deduplicate-initializers
  - remove-unused
"""


def large_model(folder: Path) -> Path:
    """Write a chain of 48 matrices of [4096,4096] (float32, 3.2 GB) and external data.

    Each layer is ``x + Relu(x @ W)`` with what exporters leave: an Identity, and a node that
    is computed twice. Input ``x`` and output ``y`` are float32 [batch,4096].
    """
    rng = np.random.default_rng(0)
    block = rng.standard_normal((WIDTH, WIDTH), np.float32) * np.float32(0.5 * WIDTH**-0.5)
    nodes, weights, value = [], [], "x"
    with Path(folder, "large.bin").open("wb") as file:
        for layer in range(LAYERS):
            # A shift makes each matrix another one, without drawing 3 GB of numbers.
            np.roll(block, layer, axis=1).tofile(file)
            weights.append(_weight(f"w{layer}", layer))
            left, right = f"left{layer}", f"right{layer}"
            nodes += [
                helper.make_node("Identity", [value], [f"i{layer}"]),
                helper.make_node("MatMul", [f"i{layer}", f"w{layer}"], [f"m{layer}"]),
                helper.make_node("Relu", [f"m{layer}"], [left]),
                helper.make_node("Relu", [f"m{layer}"], [right]),
                helper.make_node("Add", [left, right], [f"s{layer}"]),
                helper.make_node("Add", [f"s{layer}", value], [f"h{layer}"]),
            ]
            value = f"h{layer}"
    nodes.append(helper.make_node("Tanh", [value], ["y"]))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH])
        for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], weights)
    path = folder / "large.onnx"
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _weight(name: str, index: int) -> onnx.TensorProto:
    size = 4 * WIDTH * WIDTH
    tensor = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
    tensor.data_location = TensorProto.EXTERNAL
    place = {"location": "large.bin", "offset": index * size, "length": size}
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def tables() -> list[str]:
    """Return the table."""
    lines = [
        f"## A model of {BYTES / 1e9:.1f} GB with external data",
        "",
        f"Peak resident memory over the bytes of the weights; the bar is {LIMIT} verified.",
        "",
        "| pipeline | nodes | verified (s) | unverified (s) "
        "| peak, verified | peak, unverified |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = large_model(folder)
        (folder / "eliminate.yaml").write_text(ELIMINATE)
        for title, pipeline in (("cleanup", "cleanup"), ("eliminate", "eliminate.yaml")):
            config = str(folder / pipeline) if pipeline.endswith("yaml") else pipeline
            on = run(path, "-c", config)
            off = run(path, "-c", config, "--no-verify")
            nodes = f"{on.report['before']['nodes']} → {on.report['after']['nodes']}"
            lines.append(
                f"| {title} | {nodes} | {on.seconds:.1f} | {off.seconds:.1f} "
                f"| {on.megabytes * 2**20 / BYTES:.2f} | {off.megabytes * 2**20 / BYTES:.2f} |"
            )
    return lines
