"""A refutation is reported only if its own script shows it."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes import testing
from onnx_passes.certifying import certification
from onnx_passes.certifying.certification import (
    verdict_of,
)
from onnx_passes.certifying.proof import Counterexample, Fault
from onnx_passes.certifying.replay import Replayer
from onnx_passes.certifying.rewrite_rule import Job
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.contracts import equality

TEXT = "(float[1] x) => (float[1] y) {{ y = {}(x) }}"


def fault(before, after, x):
    feeds = {"x": np.array([x], np.float32)}
    models = [testing.parse(TEXT.format(name)) for name in (before, after)]
    (expected, actual) = (
        {"y": getattr(np, {"Neg": "negative", "Abs": "abs"}[name])(feeds["x"])}
        for name in (before, after)
    )
    found = Counterexample(feeds, expected, actual, "they differ")
    return Fault("they differ", "plain", *models, found)


def wrong():
    return RewriteRule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), name="wrong")


@equality
class Exact:
    pass


def test_what_does_not_repeat_is_counted_and_not_reported(monkeypatch):
    monkeypatch.setattr(certification, "is_reproducible", lambda fault, declared: False)
    for level in ("test", "all"):
        result = verdict_of(Exact, wrong(), Job("m:o", level=level, models=5))
        assert result["verdict"] != "refuted"
        assert result["tested"]["unrepeated"] > 0
    result = verdict_of(Exact, wrong(), Job("m:o", level="prove"))
    assert result["verdict"] == "undecided"
    assert "does not show again" in result["reason"]


def test_half_precision_is_rounded_where_the_model_says():
    # Joined with its neighbor by the engine, the sum would keep the digits of a float.
    text = "(float16[1] x) => (float16[1] y) {{ t = Add(x, x) {} y = Sub(u, t) }}"
    before = testing.parse(text.format("s = Sqrt(t) u = Mul(s, s)"))
    after = testing.parse(text.format("s = Sqrt(t) r = Identity(s) u = Mul(r, r)"))
    x = np.array([0.3], np.float16)
    assert Replayer(before, after).compare({"x": x}, real=False) is None


def test_a_right_rule_of_half_precision_is_not_refuted_in_another():
    # Right: a half that is filled equals a half. In float32 the constant has other digits.
    third = np.array(1 / 3, np.float16)

    def rewrite(op, x):
        return op.Mul(x, op.Constant(value=ir.tensor(third)))

    def halves(context, x):
        return x.dtype == ir.DataType.FLOAT16

    def pattern(op, x):
        return op.Mul(x, op.Cast(op.Constant(value_float=1 / 3), to=int(ir.DataType.FLOAT16)))

    tested = fuzz_rule(RewriteRule(pattern, rewrite, halves), seconds=600, models=20)
    assert tested.verdict != "refuted"
    assert np.finfo(third.dtype).eps > float(ml_dtypes.finfo(np.float32).eps)


def test_all_faults_are_told_apart_by_cause():
    def broken(op, x):
        if x.dtype == ir.DataType.FLOAT:
            raise KeyError("of the rule itself")
        return op.Abs(x)

    rule = RewriteRule(lambda op, x: op.Neg(x), broken, name="broken")
    job = Job("m:o", level="test", models=20, faults=50)
    result = verdict_of(Exact, rule, job)
    causes = {result["cause"], *(cause for cause, _ in result["further"])}
    assert causes == {"an exception of the rule", "wrong values"}
