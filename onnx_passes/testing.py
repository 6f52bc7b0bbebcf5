"""Assertions for pass authors: the graph that a pass leaves, and what it computes.

def test_fires():
    assert_rewrites(
        MergeRelus(),
        before=graph("t = Relu(x)  y = Relu(t)"),
        after=graph("y = Relu(x)"),
    )
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.configs.engines import EngineStep
from onnx_passes.configs.sections import Verify
from onnx_passes.model.equality import explain_difference, structurally_equal
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.baseline import establish
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.run import Run
from onnx_passes.report.model import PassReport, RunReport
from onnx_passes.runtime.base import Engine, Feeds
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Kind
from onnx_passes.verify.result import Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.structure import check_structure

HEADER = '<ir_version: 10, opset_import: ["" : 20]> main '


def parse(text: str) -> ir.Model:
    """Read a model in ONNX text form; the header (IR version 10, opset 20) may be left out."""
    model = ir.from_onnx_text(text if text.lstrip().startswith("<") else HEADER + text)
    faults = check_structure(model)
    assert not faults, f"the model in the test is wrong: {'; '.join(faults)}"
    return model


def graph(body: str, dtype: str = "float", **constants: object) -> str:
    """Write a graph from ``x`` to ``y``, both [2,N], with scalar initializers, as text."""
    initializers = ", ".join(f"{dtype} {name}={{{c}}}" for name, c in constants.items())
    return f"({dtype}[2,N] x) => ({dtype}[2,N] y) <{initializers}> {{ {body} }}"


def assert_rewrites(
    pass_: Pass,
    *,
    before: str | ir.Model,
    after: str | ir.Model,
    engine: Engine | None = None,
    feeds: Sequence[Feeds] | None = None,
) -> ir.Model:
    """Check that a pass turns one graph into another, keeps its contract, and comes to rest.

    Args:
        pass_: The pass.
        before: The model, or its text.
        after: What it must become, up to names and the order of independent nodes.
        engine: What runs both; ONNX Runtime where none is given.
        feeds: Reference inputs; generated where none are given.

    Returns:
        The new model.
    """
    model = parse(before) if isinstance(before, str) else before
    expected = parse(after) if isinstance(after, str) else after
    original = Snapshot(model)
    model = pass_(model).model
    assert original.change(model) is not Change.NONE, f"{pass_.name} did not fire"
    assert structurally_equal(model, expected), explain_difference(model, expected)
    assert_verified(pass_, original, model, engine=engine, feeds=feeds)
    once = Snapshot(model)
    again = pass_(once.restore()).model
    difference = explain_difference(again, once.model)
    assert once.change(again) is Change.NONE, (
        f"{pass_.name} changes its own result\n{difference}"
    )
    return model


def assert_leaves_alone(pass_: Pass, before: str | ir.Model) -> None:
    """Check that a pass makes no change, and claims none."""
    model = parse(before) if isinstance(before, str) else before
    original = Snapshot(model)
    result = pass_(model)
    difference = explain_difference(result.model, original.model)
    assert original.change(result.model) is Change.NONE, f"{pass_.name} fired\n{difference}"
    assert not result.modified, f"{pass_.name} claims a change that it did not make"


def assert_verified(
    pass_: Pass,
    before: Snapshot,
    after: ir.Model,
    *,
    engine: Engine | None = None,
    feeds: Sequence[Feeds] | None = None,
) -> None:
    """Check that a model keeps the contract of a pass against the model before it."""
    assert pass_.contracts(), f"{pass_.name} declares no contract"
    steps = [EngineStep(engine or OnnxRuntimeEngine(), "each")]
    samples = list(feeds) if feeds is not None else generate(before.model)
    baseline = establish(before.model, samples, steps, given=feeds is not None)
    gate = Gate.begin(Verify(), baseline, before)
    checked = gate.check(
        pass_, before, after, before.change(after), None, pass_.context.rewrites.applied
    )
    wrong = (Verdict.FAILED, Verdict.NOT_VERIFIED)
    reasons = [c.reason for c in checked.checks if c.verdict in wrong]
    assert Checks(tuple(checked.checks)).verdict is Verdict.PASSED, "; ".join(
        map(str, reasons)
    )


def assert_each_application_executed(found: Run | RunReport | PassReport) -> None:
    """Check that each application of a rewrite was executed or proved, and none was only seen.

    A verified run may rest on outputs only: the outputs of the model agreed, and nothing shows
    that they depend on what the pass has changed. This asks for more.

    Args:
        found: A run, its report, or what it reports of one pass.
    """
    report = found.report if isinstance(found, Run) else found
    passes = [report] if isinstance(report, PassReport) else report.passes
    kept = [done for done in passes if done.changed and done.action != "rolled back"]
    assert any(done.evidence for done in kept), "no pass has applied anything that was checked"
    weak = [
        f"{done.name}: {one.what}: {one.kind}{f', {one.reason}' if one.reason else ''}"
        for done in kept
        for one in done.evidence
        if one.kind not in (Kind.PROVED, Kind.EXECUTED)
    ]
    weak += [
        f"{done.name}: rewrite {rewrite.number} ({rewrite.rule}): no evidence"
        for done in kept
        for rewrite in done.rewrites
        if not any(rewrite.number in one.numbers for one in done.evidence)
    ]
    assert not weak, "; ".join(weak)
