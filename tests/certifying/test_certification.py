import subprocess
import sys

import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes import certifying as rules
from onnx_passes.certifying import certification, rule_fuzzing
from onnx_passes.certifying.certification import verdict_of
from onnx_passes.certifying.rewrite_rule import Job, rules_of
from onnx_passes.certifying.variants import with_attribute
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.contracts import equality, tolerance
from onnx_passes.errors import UsageError
from onnx_passes.passes import registry
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse


def _by_reciprocal():
    return RewriteRule(
        lambda op, x, y: op.Div(x, y),
        lambda op, x, y: op.Mul(x, op.Reciprocal(y)),
        lambda context, x, y: x.dtype == ir.DataType.FLOAT,
        name="by-reciprocal",
    )


@equality
class Exact:
    pass


@tolerance
class Close:
    pass


JOB = Job("m:o", level="test", seconds=600, models=30)


class MadeFinite(Transformation, RewriteRulePass):
    """Remove a logarithm and its inverse, which are NaN where a number is negative."""

    def pattern(self, op, x):
        return op.Exp(op.Log(x))

    def rewrite(self, op, x):
        return op.Identity(x)


def test_nan_made_finite_is_within_a_certificate_and_not_within_a_run(own_registry):
    """As certify.md says, and says why."""
    tolerance(registry.register()(MadeFinite))
    result = verdict_of(MadeFinite, rules_of(MadeFinite)[0], JOB)
    assert (result["verdict"], result["contract"]) == ("tested", "tolerance")
    model = parse("(float[8] x) => (float[8] y) { a = Log(x) y = Exp(a) }")
    done = run_pipeline(model, default_config(["reproducers=false"], ["made-finite"]))
    assert "expected nan" in str(done.error)


def test_a_declared_equality_that_rounding_breaks_is_refuted(tmp_path):
    job = Job("m:o", level="test", seconds=600, models=30, folder=str(tmp_path / "out"))
    result = verdict_of(Exact, _by_reciprocal(), job)
    assert result["verdict"] == "refuted"
    assert (result["declared"], result["contract"]) == ("equality", "tolerance")
    script = tmp_path / "out" / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, check=False)
    assert ran.returncode == 1


def test_a_declared_tolerance_agrees_with_rounding():
    result = verdict_of(Close, _by_reciprocal(), JOB)
    assert result["verdict"] == "tested"


def test_without_z3_what_was_tested_stands_and_the_rest_is_said(monkeypatch):
    def absent(*args, **kwargs):
        raise UsageError("z3 is not installed", help="install it")

    monkeypatch.setattr(rules, "prove_rule", absent)
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    result = verdict_of(Exact, rule, Job("m:o", seconds=600, models=5))
    assert result["verdict"] == "tested"
    assert "z3 is not installed (install it)" in result["reason"]
    alone = verdict_of(Exact, rule, Job("m:o", level="prove", seconds=600))
    assert alone["verdict"] == "undecided"


def test_an_attribute_of_one_value_caps_the_verdict_and_is_named(monkeypatch):
    pytest.importorskip("z3")
    found = rule_fuzzing.Tested(models=30, alone=["ConvTranspose.group"])
    monkeypatch.setattr(certification, "fuzz_rule", lambda *_, **__: found)
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    result = verdict_of(Exact, rule, Job("m:o", seconds=600))
    assert result["verdict"] == "tested"
    assert "one value alone of ConvTranspose.group" in result["reason"]


def test_weights_have_as_many_channels_as_other_groups_leave():
    model = parse(
        "(float[1,4,5,5] x, float[2,4,3,3] w) => (float[1,2,3,3] y) { y = Conv(x, w) }"
    )
    grouped = with_attribute(model, [0], "group", 2)
    assert [*grouped.graph.inputs[1].shape] == [2, 2, 3, 3]
    assert [*grouped.graph.outputs[0].shape] == [1, 2, 3, 3]


def test_a_fault_in_half_precision_has_a_script_that_shows_it(tmp_path):
    dtype = ir.DataType.FLOAT16
    rule = RewriteRule(
        lambda op, x: op.Neg(x),
        lambda op, x: op.Identity(x),
        lambda context, x: x.dtype == dtype,
        name="half",
    )
    job = Job("m:o", level="test", seconds=600, folder=str(tmp_path / "out"))
    assert verdict_of(Close, rule, job)["verdict"] == "refuted"
    script = tmp_path / "out" / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout


@tolerance(rtol=1e-9, atol=0.0)
class TooClose:
    pass


def test_a_tolerance_that_is_declared_too_tight_is_an_error_with_a_script(tmp_path):
    rule = RewriteRule(
        lambda op, x: op.QuickGelu(x, _domain="com.microsoft", alpha=1.0),
        lambda op, x: op.Mul(x, op.Sigmoid(x)),
        name="quick",
    )
    job = Job("m:o", level="test", seconds=600, models=40, folder=str(tmp_path / "out"))
    result = verdict_of(TooClose, rule, job)
    assert result["verdict"] == "refuted"
    assert "breaks tolerance(rtol=1e-09" in result["reason"]
    assert 0 < result["tested"]["errors"]["float16"]["rtol"] < 1e-3
    script = tmp_path / "out" / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, check=False)
    assert ran.returncode == 1
