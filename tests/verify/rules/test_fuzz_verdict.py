import subprocess
import sys

import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.contracts import equality, tolerance
from onnx_passes.errors import UsageError
from onnx_passes.verify import rules
from onnx_passes.verify.rules.fuzz_child import Job
from onnx_passes.verify.rules.fuzz_verdict import verdict_of


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


JOB = Job("m:o", level="test", seconds=60, models=30)


def test_a_declared_equality_that_rounding_breaks_is_a_disagreement(tmp_path):
    job = Job("m:o", level="test", seconds=60, models=30, folder=str(tmp_path / "out"))
    result = verdict_of(Exact, _by_reciprocal(), job)
    assert result["disagrees"]
    assert (result["declared"], result["contract"]) == ("equality", "tolerance")
    script = tmp_path / "out" / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, check=False)
    assert ran.returncode == 1


def test_a_declared_tolerance_agrees_with_rounding():
    result = verdict_of(Close, _by_reciprocal(), JOB)
    assert not result["disagrees"]
    assert result["verdict"] == "tested"


def test_without_z3_what_was_tested_stands_and_the_rest_is_said(monkeypatch):
    def absent(*args, **kwargs):
        raise UsageError("z3 is not installed")

    monkeypatch.setattr(rules, "prove_rule", absent)
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    result = verdict_of(Exact, rule, Job("m:o", seconds=60, models=5))
    assert result["verdict"] == "tested"
    assert "z3 is not installed" in result["reason"]
    alone = verdict_of(Exact, rule, Job("m:o", level="prove", seconds=60))
    assert alone["verdict"] == "undecided"


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_a_fault_in_half_precision_has_a_script_that_shows_it(tmp_path, dtype):
    rule = RewriteRule(
        lambda op, x: op.Neg(x),
        lambda op, x: op.Identity(x),
        lambda context, x: x.dtype == dtype,
        name="half",
    )
    job = Job("m:o", level="test", seconds=60, folder=str(tmp_path / "out"))
    assert verdict_of(Close, rule, job)["verdict"] == "refuted"
    script = tmp_path / "out" / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout
