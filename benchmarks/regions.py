"""What the check of one rewrite costs: all regions of a pass against whole-model checks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import onnx
import onnx_ir as ir

from benchmarks.models import resnet50, transformer
from onnx_passes.contracts import Equality
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.eliminate.eliminate_common_subexpressions import (
    EliminateCommonSubexpressions,
)
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.judge import compare
from onnx_passes.verify.recording import Recording, expose_values
from onnx_passes.verify.region import changed_region, region_model

RUNS = 5
BAR = 100


def tables() -> list[str]:
    """Return the table."""
    return [
        f"## Region checks (medians of {RUNS}, one sample; the bar is {BAR} times cheaper)",
        "",
        "A region check finds the regions of all rewrites of a pass, starts one session for "
        "them, runs it on recorded values and compares. A whole-model check starts one of "
        "the model with its weights by reference, runs it and compares; checked one by one, "
        "each rewrite would need one. Where only Identity nodes went, finding that is all.",
        "",
        "| model | rewrites | region check of the pass (ms) | a rewrite (ms) "
        "| whole-model check (ms) | ratio for each rewrite |",
        "|---|---|---|---|---|---|",
        *_rows("transformer", transformer),
        *_rows("ResNet-50", resnet50),
    ]


def _rows(name: str, build: Callable[[], onnx.ModelProto]) -> list[str]:
    proto = build()
    every = _planted(ir.from_proto(proto), lambda node: True)
    relus = _planted(ir.from_proto(proto), lambda node: node.op_type in ("Relu", "Softmax"))
    rows = [
        _row(f"{name}, an Identity behind each node", every, EliminateIdentity()),
        _row(f"{name}, an Identity behind each activation", relus, EliminateIdentity()),
        _row(f"{name}, one Identity", relus, EliminateIdentity(), limit=1),
    ]
    if name == "transformer":
        found = EliminateCommonSubexpressions()
        plain = ir.from_proto(proto)
        rows.insert(0, _row(f"{name} as exported, {found.name}", plain, found))
        identities = EliminateIdentity()
        rows.insert(0, _row(f"{name} as exported, {identities.name}", plain, identities))
    return rows


def _planted(model: ir.Model, where: Callable[[ir.Node], bool]) -> ir.Model:
    """Put an Identity behind the nodes of a model for which ``where`` holds."""
    for index, node in enumerate([n for n in model.graph if where(n)]):
        value = node.outputs[0]
        if node.op_type == "Constant" or value.is_graph_output():
            continue
        identity = ir.Node("", "Identity", [value], name=f"planted_{index}")
        identity.outputs[0].name = f"planted_{index}"
        value.replace_all_uses_with(identity.outputs[0])
        identity.replace_input_with(0, value)
        model.graph.insert_after(node, identity)
    return model


def _row(name: str, before: ir.Model, pass_: Pass, limit: int | None = None) -> str:
    engine = OnnxRuntimeEngine(prepacking=False)
    (feeds,) = generate(before, samples=1)
    recording = Recording(4 << 30)
    with engine.prepare(expose_values(before, weights=False)) as session:
        recording.update(session.run(feeds))
    recording.update(feeds)
    pass_.context.rewrites = Rewrites(limit=limit)
    model = pass_(before.clone()).model
    count = len(pass_.context.rewrites.applied) or len(before.graph) - len(model.graph)
    expected = {str(v.name): recording[str(v.name)] for v in before.graph.outputs}
    regions, wholes = [], []
    for _ in range(RUNS):
        regions.append(_timed(lambda: _region_check(engine, before, model, recording)))
        wholes.append(_timed(lambda: _whole_check(engine, model, feeds, expected)))
    region, whole = (statistics.median(times) * 1000 for times in (regions, wholes))
    return (
        f"| {name} | {count} | {region:.1f} | {region / count:.2f} | {whole:.0f} "
        f"| {count * whole / region:.0f} |"
    )


def _region_check(
    engine: OnnxRuntimeEngine, before: ir.Model, model: ir.Model, recording: Recording
) -> None:
    region = changed_region(before, model)
    if region is None:
        raise SystemExit("the region cannot be told")
    if not region.nodes:
        return  # taking an Identity out makes no node compute another thing
    with engine.prepare(region_model(model, region, [recording])) as session:
        found = session.run({name: recording[name] for name in region.boundary})
    _demand_equal(
        {name: recording[name] for name in region.frontier},
        {name: found[name] for name in region.frontier},
    )


def _whole_check(
    engine: OnnxRuntimeEngine, model: ir.Model, feeds: Feeds, expected: Feeds
) -> None:
    with engine.prepare(model) as session:
        _demand_equal(expected, session.run(feeds))


def _demand_equal(expected: Feeds, found: Feeds) -> None:
    results = compare(dict(expected), dict(found), Equality())
    if not results or not all(result.passed for result in results):
        raise SystemExit("a right rewrite was found wrong")


def _timed(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start
