"""What the gate says of a pass: checks, evidence, and what it remembers if that is kept."""

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.configs.sections import Verify
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.cleanup.remove_initializers_from_inputs import (
    RemoveInitializersFromInputs,
)
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import ENGINE, Kind, Verdict
from onnx_passes.verify.reference_data import ReferenceData
from onnx_passes.verify.snapshot import Change, Snapshot
from tests.tables import edit_pass, rule_pass

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
MODEL = """(float[2, 4] x) => (float[2, 4] y) {
    a = Exp(x) i = Identity(a) b = Neg(i) c = Abs(b) d = Relu(c) e = Sin(d) y = Neg(e)
}"""


rule_pass("GateRelu", "Relu(Abs(x)) => Abs(x)")
rule_pass("GateWrong", "Relu(Abs(x)) => Relu(x)")
outputs_alone = passes.verify.equality(at="outputs")
rule_pass("GateWrongForTheOutputs", "Relu(Abs(x)) => Relu(x)", outputs_alone)


class _Shift(Transformation):
    """Add a little to a weight."""

    by: float = 0.5

    def call(self, model):
        value = model.graph.initializers["w"]
        tensor = value.const_value
        value.const_value = ir.tensor(tensor.numpy() + np.float32(self.by), name="w")
        return ir.passes.PassResult(model, True)


@passes.verify.metric()
@passes.register()
class GateRound(_Shift):
    """Promises no more than the metrics."""


@passes.verify.tolerance()
@passes.register()
class GateNudge(_Shift):
    """Stays within tolerance."""

    by: float = 1e-6


def model(text=MODEL):
    return ir.from_onnx_text(HEAD + text)


def run(steps, text=MODEL, *overrides):
    given = ["reproducers=false", "on_failure=rollback", *overrides]
    return run_pipeline(model(text), default_config(given, list(steps)))


def kinds(report):
    return [(one.kind, one.numbers) for one in report.evidence]


def test_a_change_of_names_alone_is_proved_and_nothing_is_run():
    gate, before = begin()
    renamed = model(MODEL.replace("e = Sin(d)", "f = Sin(d)").replace("Neg(e)", "Neg(f)"))
    found = gate.check(EliminateIdentity(), before, renamed, Change.NAMES)
    assert found.verdict is Verdict.PASSED
    assert [one.kind for one in found.evidence] == [Kind.PROVED]
    assert "nothing was run" in found.checks[-1].reason
    assert not gate.baseline.benches[0].ran


def test_names_that_hide_another_computation_are_run():
    gate, before = begin()
    wrong = model(MODEL.replace("e = Sin(d)", "e = Cos(d)"))
    found = gate.check(EliminateIdentity(), before, wrong, Change.NAMES)
    assert found.verdict is Verdict.FAILED


CONSTANT = MODEL.replace("a = Exp(x)", "n = Sub(x, x) a = Exp(n)")


def test_a_value_that_is_constant_on_all_samples_is_compared_on_drawn_ones():
    (done,) = run(["gate-relu"], CONSTANT).report.passes
    assert done.verdict is Verdict.PASSED
    assert kinds(done) == [(Kind.EXECUTED, (1,))]
    assert "on drawn values" in done.evidence[0].reason


def test_a_single_element_under_a_root_is_compared_on_drawn_ones():
    text = """(float[1] x) => (float[1] y) {
        m = Sub(x, x) n = Sqrt(m) c = Abs(n) d = Relu(c) e = Sqrt(d) y = Sqrt(e)
    }"""
    (done,) = run(["gate-relu"], text).report.passes
    assert kinds(done) == [(Kind.EXECUTED, (1,))]


def test_where_it_differs_on_those_nothing_vouches_for_the_rewrite():
    text = CONSTANT.replace("a = Exp(n)", "a = Cos(n)").replace("b = Neg(i)", "b = Add(i, i)")
    (done,) = run(["gate-wrong"], text).report.passes
    assert done.verdict is Verdict.NOT_VERIFIED
    assert kinds(done) == [(Kind.NOTHING, (1,))]
    assert "it differs on drawn values" in done.evidence[0].reason


def test_values_are_drawn_further_back_where_those_at_the_boundary_never_occur():
    text = CONSTANT.replace("b = Neg(i)", "b = Exp(i)")
    (done,) = run(["gate-wrong"], text).report.passes
    assert done.verdict is Verdict.PASSED  # without its sign an Exp is what it was
    assert kinds(done) == [(Kind.EXECUTED, (1,))]
    assert "on drawn values" in done.evidence[0].reason


def test_each_application_has_its_evidence():
    text = """(float[2, 4] x) => (float[2, 4] y, float[2, 4] z) {
        a = Abs(x) b = Relu(a) y = Sin(b) m = Abs(x) n = Exp(m) c = Abs(n) d = Relu(c)
        z = Sin(d)
    }"""
    (done,) = run(["gate-relu"], text).report.passes
    assert sorted(kinds(done)) == [(Kind.EXECUTED, (1,)), (Kind.EXECUTED, (2,))]


def test_what_differs_inside_fails_though_the_outputs_agree():
    blind = "e = Tanh(d) z = Mul(e, k) y = Add(z, x)"  # 0 times infinity would be seen
    text = MODEL.replace("e = Sin(d) y = Neg(e)", blind)
    text = text.replace("{\n", "\n<float k = {0}> {\n")
    done = run(["gate-wrong"], text)
    assert done.report.passes[0].verdict is Verdict.FAILED
    (reason,) = {c.reason for c in done.report.passes[0].checks if c.verdict is Verdict.FAILED}
    assert '@passes.verify.equality(at="outputs")' in reason


LONG = """(float[2, 4] x) => (float[2, 4] y) <float k = {{2}}, float h = {{0.5}}> {{
    v0 = Mul(x, k) {chain} y = Mul(v70, h)
}}""".format(chain=" ".join(f"v{i + 1} = Neg(v{i})" for i in range(70)))


@edit_pass(outputs_alone)
def gate_on_purpose(model):
    """Exchange two factors that are far apart."""
    k, h = (model.graph.initializers[name] for name in "kh")
    k.const_value, h.const_value = (
        ir.tensor(other.const_value.numpy(), name=one.name) for one, other in ((k, h), (h, k))
    )


@passes.verify.equality
@passes.register()
class GateInside(gate_on_purpose):
    """The same, with a promise for values inside."""


def test_a_pass_that_promises_outputs_alone_may_change_values_inside():
    (done,) = run(["gate-on-purpose"], LONG).report.passes
    assert done.verdict is Verdict.PASSED
    assert [one.kind for one in done.evidence] == [Kind.OUTPUTS_ONLY]
    assert "can see the change" in done.evidence[0].reason
    assert done.contract == "equality(at=outputs)"


def test_one_that_promises_values_may_not_and_is_told_of_the_other_promise():
    (done,) = run(["gate-inside"], LONG).report.passes
    assert done.verdict is Verdict.FAILED
    (reason,) = [c.reason for c in done.checks if c.verdict is Verdict.FAILED]
    assert reason.startswith("v0 not as expected")
    assert "do not agree again within 64 nodes" in reason
    assert '@passes.verify.equality(at="outputs")' in reason


def begin(text=MODEL, settings=None, engine=None):
    given = model(text)
    bench = EngineBaseline(engine or OnnxRuntimeEngine(), "each")
    samples = [{"x": np.random.default_rng(0).random((2, 4), np.float32)}]
    before = Snapshot(given)
    return Gate.begin(settings or Verify(), Baseline(given, [bench], samples), before), before


def test_a_check_changes_nothing_that_the_gate_knows():
    gate, before = begin()
    state = gate.state
    right = model(MODEL.replace("i = Identity(a) b = Neg(i)", "b = Neg(a)"))
    wrong = model(MODEL.replace("e = Sin(d)", "e = Cos(d)"))
    first = gate.check(EliminateIdentity(), before, right, Change.COMPUTATION)
    failed = gate.check(EliminateIdentity(), before, wrong, Change.COMPUTATION)
    again = gate.check(EliminateIdentity(), before, right, Change.COMPUTATION)
    assert gate.state is state
    assert (first.verdict, failed.verdict) == (Verdict.PASSED, Verdict.FAILED)
    assert again.verdict is Verdict.PASSED
    assert again.evidence == first.evidence


def test_what_was_kept_is_what_the_next_pass_is_held_against():
    gate, before = begin()
    wrong = model(MODEL.replace("e = Sin(d)", "e = Cos(d)"))
    gate.keep(gate.check(EliminateIdentity(), before, wrong, Change.COMPUTATION))
    same = model(MODEL.replace("e = Sin(d)", "e = Cos(d)").replace("Identity(a)", "Abs(a)"))
    found = gate.check(EliminateIdentity(), Snapshot(wrong), same, Change.COMPUTATION)
    assert found.verdict is Verdict.PASSED


def test_a_model_of_another_interface_is_not_run():
    gate, before = begin()
    other = model(
        MODEL.replace("(float[2, 4] y)", "(float[2, 4] e)").replace("y = Neg(e)", "")
    )
    found = gate.check(EliminateIdentity(), before, other, Change.COMPUTATION)
    assert [c.verdict for c in found.checks if c.kind == "interface"] == [Verdict.FAILED]
    assert {c.kind for c in found.checks} == {"structure", "interface"}
    assert not gate.baseline.benches[0].ran


WEIGHTED = """(float[2, 4] x) => (float[2, 4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Mul(x, w) y = Neg(a)
}"""
RANGES = "verify.metrics.rmse=[0, 10]"


def test_a_pass_whose_metric_holds_is_kept_and_drift_is_measured_from_it():
    done = run(["gate-round", "gate-nudge"], WEIGHTED, RANGES)
    first, second = done.report.passes
    assert (first.action, second.action) == ("kept", "kept")
    assert first.verdict is Verdict.PASSED
    assert done.error is None, done.error
    drift = [c for c in done.report.final if c.kind == "drift"]
    assert drift
    assert all(output.max_abs < 1e-3 for check in drift for output in check.outputs)


def test_drift_is_not_forgiven_after_it():
    done = run(["gate-round", "gate-nudge{by=0.5}"], WEIGHTED, RANGES)
    first, second = done.report.passes
    assert (first.action, second.action) == ("kept", "rolled back")


def test_a_pass_whose_metric_does_not_hold_is_undone():
    (done,) = run(["gate-round{by=100.0}"], WEIGHTED, RANGES).report.passes
    assert (done.verdict, done.action) == (Verdict.FAILED, "rolled back")


def test_without_a_metric_a_pass_that_promises_metrics_is_not_verified():
    (done,) = run(["gate-round"], WEIGHTED).report.passes
    assert done.verdict is Verdict.NOT_VERIFIED


class _Breaks(OnnxRuntimeEngine):
    """An engine that rewrites models, and does so wrongly where there is no Identity."""

    node_by_node = False

    def prepare(self, model):
        copy = model.clone()
        if all(node.op_type != "Identity" for node in copy.graph):
            for node in copy.graph:
                node.op_type = "Cos" if node.op_type == "Sin" else node.op_type
        return super().prepare(copy)


def test_what_an_engine_alone_does_to_the_result_is_a_failure_of_the_engine():
    given = model()
    samples = [{"x": np.random.default_rng(0).random((2, 4), np.float32)}]
    benches = [
        EngineBaseline(OnnxRuntimeEngine(optimization="none"), "each"),
        EngineBaseline(_Breaks(optimization="none", prepacking=False), "end"),
    ]
    before = Snapshot(given)
    gate = Gate.begin(Verify(), Baseline(given, benches, samples), before)
    after = model(MODEL.replace("i = Identity(a) b = Neg(i)", "b = Neg(a)"))
    checked = gate.check(EliminateIdentity(), before, after, Change.COMPUTATION)
    assert checked.verdict is Verdict.PASSED
    gate.keep(checked)
    plain, other = gate.against_original(after, ["each", "end"])
    assert plain.verdict is Verdict.PASSED
    assert (other.verdict, other.kind) == (Verdict.FAILED, ENGINE)


def test_a_change_inside_a_body_is_left_to_the_outputs_too():
    text = """(float[2, 4] x) => (float[2, 4] y) {
        c = Constant<value = bool {1}>() n = Exp(x)
        y = If(c) <
            then_branch = t () => (float[2, 4] o) {
                a = Neg(n) d = Abs(a) e = Relu(d) z = Constant<value_float = 0.0>()
                g = Mul(e, z) o = Add(g, x)
            },
            else_branch = s () => (float[2, 4] p) { p = Neg(x) }
        >
    }"""
    (done,) = run(["gate-wrong-for-the-outputs"], text).report.passes
    assert kinds(done) == [(Kind.BLIND, (1,))]
    assert "cannot see the change" in done.evidence[0].reason


DEFAULTS = """(float[2, 4] x, float[4] w) => (float[2, 4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Mul(x, w) y = Neg(a)
}"""


@passes.verify.equality
@passes.register()
class GateFixes(RemoveInitializersFromInputs):
    """Makes another weight of the default."""

    def call(self, model):
        model.graph.initializers["w"].const_value = ir.tensor(
            np.float32([1, 2, 3, 5]), name="w"
        )
        return super().call(model)


def test_a_default_that_becomes_a_weight_of_the_same_content_is_proved():
    (done,) = run(["remove-initializers-from-inputs"], DEFAULTS).report.passes
    assert done.verdict is Verdict.PASSED
    assert [one.kind for one in done.evidence] == [Kind.PROVED]
    assert "inputs that had defaults" in done.checks[-1].reason


def test_one_that_becomes_another_weight_fails():
    (done,) = run(["gate-fixes"], DEFAULTS).report.passes
    assert (done.verdict, done.action) == (Verdict.FAILED, "rolled back")


def test_values_that_are_no_data_are_not_drawn():
    text = """(float[2, 4] x) => (float[2, 4] y) {
        s = Shape(x) k = ConstantOfShape<value = float[1] {0.0}>(s) n = Mul(x, k)
        m = ConstantOfShape<value = float[1] {0.0}>(s) a = Add(n, m) y = Neg(a)
    }"""
    (done,) = run(["eliminate-common-subexpressions"], text).report.passes
    assert done.verdict is Verdict.PASSED
    assert Kind.NOTHING not in [one.kind for one in done.evidence]


def test_what_is_true_of_no_sample_is_compared_on_special_values():
    text = """(float[2, 4] x) => (bool[2, 4] y) {
        k = Constant<value_ints = [2, 4]>() n = IsInf(x) y = Reshape(n, k)
    }"""
    (found,) = run(["eliminate-noop-reshape"], text).report.passes[-1].evidence
    assert found.kind is Kind.EXECUTED
    assert "on drawn values" in found.reason


def test_draws_that_the_model_before_does_not_run_on_are_left_out():
    # Some of them ask for class 4, which there is not.
    text = """(float[3, 4] x, int64[3] t) => (float z) {
        k = Constant<value = int64[0] {}>() l = SoftmaxCrossEntropyLoss(x, t) z = Reshape(l, k)
    }"""
    given = ir.from_onnx_text(HEAD + text)
    config = default_config(["reproducers=false"], ["eliminate-noop-reshape"])
    sample = {"x": np.ones((3, 4), np.float32), "t": np.int64([0, 1, 3])}
    found = run_pipeline(given, config, reference=ReferenceData([sample], None, "test"))
    (loss,) = found.report.passes[-1].evidence
    assert loss.kind is Kind.EXECUTED
    assert "on drawn values" in loss.reason


@passes.verify.equality
@passes.register()
class GateInlines(Transformation):
    """Inline every function, whatever its name."""

    def call(self, model):
        return InlinePass()(model)


def test_a_call_that_the_engine_takes_for_its_own_operator_is_not_its_function():
    text = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (float[2, 4] x) => (float[2, 4] y) { a = Exp(x) y = com.microsoft.QuickGelu(a) }
        <domain: "com.microsoft", opset_import: ["" : 20]> QuickGelu (p) => (q) {
            q = Neg(p) }"""
    config = default_config(["reproducers=false"], ["gate-inlines"])
    error = run_pipeline(ir.from_onnx_text(text), config).error
    assert "elements differ" in str(error.__cause__ or error)
