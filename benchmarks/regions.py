"""What a check of one rewrite costs: its region against the whole model."""

from __future__ import annotations

import statistics
import time

import onnx_ir as ir

from benchmarks.models import resnet50, transformer
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.recording import Recording, exposed
from onnx_passes.verify.region import changed_region, region_model

RUNS = 5


def tables() -> list[str]:
    """Return the table."""
    return [
        f"## One rewrite checked (medians of {RUNS})",
        "",
        "Find the region, start a session and run it once, against starting a session of the "
        "whole model by reference and running it once.",
        "",
        "| model | region (ms) | whole model (ms) | ratio |",
        "|---|---|---|---|",
        _row("transformer", ir.from_proto(transformer())),
        _row("ResNet-50 with an Identity behind a Relu", _with_identity(resnet50())),
    ]


def _with_identity(proto: object) -> ir.Model:
    model = ir.from_proto(proto)
    relu = next(n for n in model.graph if n.op_type == "Relu")
    value = relu.outputs[0]
    identity = ir.Node("", "Identity", [value], name="extra")
    identity.outputs[0].name = "extra"
    value.replace_all_uses_with(identity.outputs[0])
    identity.replace_input_with(0, value)
    model.graph.insert_after(relu, identity)
    return model


def _row(name: str, model: ir.Model) -> str:
    engine = OnnxRuntimeEngine(prepacking=False)
    (feeds,) = generate(model, samples=1)
    recording = Recording(4 << 30)
    with engine.prepare(exposed(model)) as session:
        recording.update(session.run(feeds))
    recording.update(feeds)
    before = model.clone()
    pass_ = EliminateIdentity()
    pass_.context.rewrites = Rewrites(limit=1)
    pass_(model)
    regions, wholes = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        region = changed_region(before, model)
        assert region is not None
        assert region.nodes
        with engine.prepare(region_model(model, region, recording)) as session:
            session.run({value: recording[value] for value in region.boundary})
        regions.append(time.perf_counter() - start)
        start = time.perf_counter()
        with engine.prepare(model) as session:
            session.run(feeds)
        wholes.append(time.perf_counter() - start)
    small, large = (statistics.median(times) * 1000 for times in (regions, wholes))
    return f"| {name} | {small:.1f} | {large:.0f} | {large / small:.0f} |"
