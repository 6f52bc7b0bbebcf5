"""Errors add up over passes under tolerance, and the one that exceeds the budget fails."""

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from onnx_passes import passes
from onnx_passes.cli.main import program
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of

MODEL = """<ir_version: 10, opset_import: ["": 21]> g (float[4, 3] x) => (float[4, 3] y)
    <float[1] k = {2}> { a = Abs(x) b = Mul(a, k) y = Relu(b) }"""
# A creeping pass moves y by one part in 10^5: each is allowed two, and all six and a half.
LIMITS = ["verify.tolerance={rtol: 2.0e-5, atol: 0}", "verify.drift={rtol: 6.5e-5, atol: 0}"]


def scale(model, factor):
    value = model.graph.initializers["k"]
    value.const_value = ir.tensor(value.const_value.numpy() * np.float32(factor), name="k")
    return ir.passes.PassResult(model, True)


@passes.verify.tolerance()
@passes.register()
class BudgetCreep(Transformation):
    """Multiply by a little more than k."""

    def call(self, model):
        return scale(model, 1 + 1e-5)


@passes.verify.tolerance()
@passes.register()
class BudgetNudge(Transformation):
    """Multiply by the least more than k that shows."""

    def call(self, model):
        return scale(model, 1 + 2.4e-7)


@passes.verify.tolerance()
@passes.register()
class BudgetBack(Transformation):
    """Multiply by a little less than k."""

    def call(self, model):
        return scale(model, 1 - 1e-5)


@passes.verify.tolerance()
@passes.register()
class BudgetSwap(Transformation):
    """Swap the operands of the product: the same bits."""

    def call(self, model):
        node = next(n for n in model.graph if n.op_type == "Mul")
        first, second = node.inputs
        node.replace_input_with(0, second)
        node.replace_input_with(1, first)
        return ir.passes.PassResult(model, True)


@passes.verify.metric()
@passes.register()
class BudgetCoarse(Transformation):
    """Multiply by much more than k, which metrics are to judge."""

    def call(self, model):
        return scale(model, 1.25)


def run(tmp_path, steps, *settings, verify=LIMITS):
    config = default_config([f"reproducers={tmp_path}", *verify, *settings], steps)
    return run_pipeline(ir.from_proto(onnx.parser.parse_model(MODEL)), config)


def spent(done):
    return [s for check in done.checks for s in check.budget]


@each_of("scope", "auto", "model")
def test_the_pass_that_exceeds_the_budget_fails(tmp_path, scope):
    result = run(tmp_path, ["budget-creep"] * 10, f"verify.scope={scope}")
    failed = [p for p in result.report.passes if p.verdict is Verdict.FAILED]
    assert [p.index for p in failed] == [7]
    assert "y too far from the original, its error budget is exceeded" in failed[0].error
    assert "% of it was spent before" in failed[0].error
    assert "rtol 6.5e-5" in failed[0].error
    shares = [spent(p)[0].total for p in result.report.passes]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / 6.5, rel=0.05)
    assert [p.budget_spent for p in result.report.passes] == shares


def test_the_command_line_tells_what_is_spent(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    limits = [a for limit in LIMITS for a in ("-s", limit)]
    args = ["run", "-v", *limits, "--json", tmp_path / "r.json", "-o", tmp_path / "o.onnx"]
    args += ["-s", f"reproducers={tmp_path}", tmp_path / "m.onnx", *["budget-creep"] * 10]
    result = CliRunner().invoke(program, [str(a) for a in args])
    assert result.exit_code == 1, result.output
    assert "budget y: 15.5 % spent (this pass 15.5 %" in result.output
    saved = json.loads((tmp_path / "r.json").read_text())
    assert saved["passes"][6]["verdict"] == "failed"
    (one,) = saved["passes"][2]["checks"][-1]["budget"]
    assert one["output"] == "y"
    assert one["total"] == pytest.approx(3 / 6.5, rel=0.05)
    assert one["step"] == pytest.approx(1 / 6.5, rel=0.05)


def test_a_rolled_back_pass_spends_nothing_and_a_warned_one_does(tmp_path):
    back = run(tmp_path, ["budget-creep"] * 8, "on_failure=rollback").report
    assert [p.action for p in back.passes[6:]] == ["rolled back"] * 2
    assert spent(back.passes[7])[0].total == pytest.approx(7 / 6.5, rel=0.05)
    warned = run(tmp_path, ["budget-creep"] * 8, "on_failure=warn").report
    assert [p.action for p in warned.passes[6:]] == ["warned"] * 2
    assert spent(warned.passes[7])[0].total == pytest.approx(8 / 6.5, rel=0.05)


def test_errors_that_cancel_are_seen_in_the_sum_of_steps(tmp_path):
    report = run(tmp_path, ["budget-creep", "budget-back"] * 4).report
    assert report.exit_code == 0
    last = spent(report.passes[-1])[0]
    assert last.total < 0.05
    assert last.summed == pytest.approx(8 / 6.5, rel=0.05)


def test_equal_bits_spend_nothing_and_cost_no_run(tmp_path, monkeypatch):
    runs = []
    prepare = OnnxRuntimeEngine.prepare

    def counted(engine, model):
        runs.append(sum(n.op_type in ("Abs", "Relu") for n in model.graph))
        return prepare(engine, model)

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", counted)
    report = run(tmp_path, ["budget-swap"], "engines=[onnxruntime]", verify=[]).report
    assert report.exit_code == 0
    assert not spent(report.passes[0])
    # The original with its values, what changed on these and on drawn ones (both sides in one
    # session), and the result.
    assert runs == [2, 0, 0, 2]


def test_an_inexact_pass_costs_one_run(tmp_path, monkeypatch):
    runs = []
    prepare = OnnxRuntimeEngine.prepare

    def counted(engine, model):
        runs.append(sum(n.op_type in ("Abs", "Relu") for n in model.graph))
        return prepare(engine, model)

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", counted)
    steps = ["budget-nudge"] * 3
    report = run(tmp_path, steps, "engines=[onnxruntime]", verify=[]).report
    assert [bool(spent(p)) for p in report.passes] == [True] * 3
    # The original with its values, again for the noise, each pass once, and the end.
    assert sum(n == 2 for n in runs) <= 3 + len(steps)


def test_what_a_metric_allows_is_not_charged_to_tolerance(tmp_path):
    steps = ["budget-creep"] * 2 + ["budget-coarse"] + ["budget-creep"] * 5
    report = run(tmp_path, steps, "verify.metrics.rmse=[0, 10]").report
    passed = [p.verdict is Verdict.PASSED for p in report.passes]
    assert passed == [True] * 7 + [False]
