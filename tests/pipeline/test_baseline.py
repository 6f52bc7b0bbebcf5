"""The original is run once, and again before an accusation."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.configs.sections import Verify
from onnx_passes.errors import EngineError
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceSession
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.snapshot import Change, Snapshot
from tests.pipeline.sums import SumsByRule
from tests.tables import each_of

MODEL = """(float[2] x) => (float[2] y, float[2] z) { a = Neg(x) y = Exp(a) z = Relu(x) }"""
X = {"x": np.float32([1, 2])}


class Flaky:
    """ONNX Runtime, and in each session another y."""

    name = "flaky"
    concurrent = False
    node_by_node = True

    def __init__(self):
        self.sessions = 0

    def describe(self):
        return {}

    @contextmanager
    def prepare(self, model):
        self.sessions += 1
        with OnnxRuntimeEngine().prepare(model) as session:
            yield Shifted(session, self.sessions)


class Shifted:
    def __init__(self, session, shift):
        self.session, self.shift = session, shift

    def run(self, feeds, names=None):
        found = self.session.run(feeds, names)
        return found | ({"y": found["y"] + np.float32(self.shift)} if "y" in found else {})


class Nudged:
    """Gives floats that are off by a share of themselves."""

    def __init__(self, session, share):
        self.session, self.share = session, np.float32(1 + share)

    def run(self, feeds, names=None):
        found = self.session.run(feeds, names)
        return {name: value * self.share for name, value in found.items()}


class Packing(Flaky):
    """ONNX Runtime, with other last digits in whole models, and others again with a Sum."""

    def __init__(self, share):
        self.share = share

    @contextmanager
    def prepare(self, model):
        operators = [node.op_type for node in model.graph]
        share = self.share if "Sum" in operators else -self.share
        with OnnxRuntimeEngine().prepare(model) as session:
            yield Nudged(session, share if "Exp" in operators else 0.0)


@each_of("share, verdict", (2e-7, "passed"), (1e-3, "failed"))
def test_equal_changes_in_a_model_that_rounds_otherwise_are_right(share, verdict):
    """Both sides of the change agree in one form; the model moves with its kernels."""
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) { a = Add(x, x) y = Exp(a) }"""
    before, after = ir.from_onnx_text(text), ir.from_onnx_text(text.replace("Add", "Sum"))
    baseline = Baseline(before, [EngineBaseline(Packing(share), "each")], [X])
    gate = Gate.begin(Verify(), baseline, Snapshot(before))
    found = gate.check(SumsByRule(), gate.original, after, Change.COMPUTATION).checks
    *_, check = (check for check in found if check.kind == "equality")
    assert check.verdict == verdict
    assert ("context noise of up to" in str(check.reason)) == (verdict == "passed")


@each_of("second", "threads", "seed")
def test_two_engines_check_each_pass(second):
    given = json.dumps([{"onnxruntime": {}}, {"onnxruntime": {second: 2}}])
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) { a = Sigmoid(x) y = Exp(a) }"""
    config = default_config([f"engines={given}", "reproducers=false"], ["lower-sigmoid"])
    report = run_pipeline(ir.from_onnx_text(text), config).report
    assert report.exit_code == 0
    names = {check.engine for check in report.passes[0].checks if check.engine}
    assert names == {"onnxruntime", f"onnxruntime[{second}=2]"}


@pytest.fixture
def model():
    return parse(MODEL)


def test_an_engine_that_does_not_repeat_itself_accuses_no_pass(model):
    bench = EngineBaseline(Flaky(), "each")
    gate = Gate.begin(Verify(), Baseline(model, [bench], [X]), before := Snapshot(model))
    after = parse(MODEL.replace("a = Neg(x) y = Exp(a)", "y = Relu(x)"))
    found = gate.check(EliminateIdentity(), before, after, Change.COMPUTATION).checks
    assert all(check.verdict is not Verdict.FAILED for check in found)
    assert gate.baseline.unstable == {"y"}
    assert {o.output for check in found for o in check.outputs} == {"z"}


def test_an_engine_that_repeats_itself_accuses_the_pass(model):
    bench = EngineBaseline(OnnxRuntimeEngine(), "each")
    gate = Gate.begin(Verify(), Baseline(model, [bench], [X]), before := Snapshot(model))
    after = parse(MODEL.replace("a = Neg(x) y = Exp(a)", "y = Relu(x)"))
    found = gate.check(EliminateIdentity(), before, after, Change.COMPUTATION).checks
    assert any(check.verdict is Verdict.FAILED for check in found)
    assert bench.doubted


def test_all_outputs_that_differ_each_time_leave_nothing_verified():
    model = parse(MODEL.replace(", float[2] z", "").replace("z = Relu(x)", ""))
    baseline = Baseline(model, [EngineBaseline(Flaky(), "each")], [X])
    gate = Gate.begin(Verify(), baseline, Snapshot(model))
    after = parse("""(float[2] x) => (float[2] y) { y = Relu(x) }""")
    found = gate.check(EliminateIdentity(), gate.original, after, Change.COMPUTATION).checks
    (check,) = [check for check in found if check.kind == "equality"]
    assert check.verdict is Verdict.NOT_VERIFIED
    assert check.reason == "the original gives another result each time: y"


def test_outputs_that_are_the_original_s_are_so_on_fewer_samples_and_not_on_more(model):
    samples = [X, {"x": np.float32([3, 4])}]
    baseline = Baseline(model, [EngineBaseline(OnnxRuntimeEngine(), "each")], samples)
    state = Gate.begin(Verify(), baseline, Snapshot(model)).state
    baseline.ready("each")
    state = replace(state.knowing(0, state.of(0)), moved=True)
    baseline.keep([0])
    assert state.of(0).accepted == baseline.benches[0].original
    baseline.samples = [*samples, {**X}]
    assert state.of(0).accepted is None


def test_inner_values_that_differ_fail_although_the_outputs_are_equal():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (int64[1] y)
        <float b = {%s}> { t = Add(x, b) y = ArgMax(t) }"""
    model, after = (ir.from_onnx_text(text % bias) for bias in ("0.5", "0.25"))
    samples = [{"x": np.float32([1, 2, 4, 3])}]
    baseline = Baseline(model, [EngineBaseline(OnnxRuntimeEngine(), "each")], samples)
    gate = Gate.begin(Verify(), baseline, Snapshot(model))
    found = gate.check(EliminateIdentity(), gate.original, after, Change.COMPUTATION).checks
    (check,) = [check for check in found if check.kind == "equality"]
    assert check.verdict is Verdict.FAILED
    assert "t not as expected" in check.reason
    assert "y agrees, and cannot see t" in check.reason or "does not" in check.reason


NAMED_AS_BY_A_FUSION = """<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
    g (float[2,3,4] x) => (float[3,8] y)
    <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4},
     int64[2] gemm_input_shape = {3,8}> {
      m = MatMul(x, w) a = Add(m, b) c = com.microsoft.QuickGelu(a) d = Identity(c)
      y = Reshape(d, gemm_input_shape) }"""
"""ONNX Runtime does not load it optimised, and onnx's evaluator has no QuickGelu."""


@each_of("override", [], ["verify.tolerance.rtol=0.001"], ids=str)
def test_an_engine_that_cannot_run_the_original_is_told_and_others_judge(override):
    config = default_config(["strict=true", *override], ["eliminate-identity"])
    run = run_pipeline(ir.from_onnx_text(NAMED_AS_BY_A_FUSION), config)
    assert run.error is None
    assert [check.engine for check in run.report.final] == ["onnxruntime[prepacking=off]"]
    (told,) = run.report.not_verified
    assert told.startswith("the result: onnxruntime[optimization=all, prepacking=off] cannot")
    assert run.report.exit_code == 4


def test_no_engine_that_can_run_the_original_ends_the_run():
    config = default_config(
        ["reproducers=false", "engines=[{onnxruntime: {optimization: all, when: each}}]"],
        ["eliminate-identity"],
    )
    with pytest.raises(EngineError, match="cannot run the original model"):
        run_pipeline(ir.from_onnx_text(NAMED_AS_BY_A_FUSION), config)


def test_an_evaluator_in_python_that_stands_in_runs_on_the_least_sizes_alone(monkeypatch):
    seen = set()
    run = ReferenceSession.run

    def watched(self, feeds, outputs=None):
        seen.update(feeds[name].shape for name in feeds if name == "x")
        return run(self, feeds, outputs)

    monkeypatch.setattr(ReferenceSession, "run", watched)
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N,3,H,W] x) => (float[N,3,H,V] y)
        { i = Identity(x) y = AveragePool<kernel_shape = [1,1], pads = [0,1,0,1]>(i) }"""
    done = run_pipeline(ir.from_onnx_text(text), default_config(extra_passes=["cleanup"]))
    assert any("reference stands in" in note for note in done.report.notes)
    assert {shape[2:] for shape in seen} == {(1, 1), (37, 43), (64, 96)}


@each_of(
    "operator, unstable, told",
    ("acme.Sinc(x)", set(), True),
    ("com.microsoft.BiasDropout(x, x)", {"y"}, False),
    ("Sin(x)", set(), False),
)
def test_an_unknown_operator_is_believed_if_it_repeats_itself(operator, unstable, told):
    text = f"""<ir_version: 10, opset_import: ["" : 20, "acme" : 1, "com.microsoft" : 1]>
    g (float[2] x) => (float[2] y) {{ y = {operator} }}"""
    baseline = Baseline(ir.from_onnx_text(text), [], [X])
    assert baseline.unstable == unstable
    assert any("acme::Sinc may keep state" in note for note in baseline.notes) is told
