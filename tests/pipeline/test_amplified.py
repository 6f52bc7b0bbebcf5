"""Networks that amplify rounding: drift is held to what rounding does to the original."""

from types import SimpleNamespace

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline import noise
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.json import to_json
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict
from tests.tables import each_of

WEIGHTS = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 8] x) => (float[N, 8] y)
<float[8, 8] w = {%s}, float k = {1.7}, float gain = {%s}> {
    a = MatMul(x, w) s = Mul(a, k) b = Mul(s, gain) y = Sin(b) }"""


AMPLIFIES = 10.0
DEFAULT = "verify.tolerance=default"
"""Without it double precision says of so small a model that it is rounding."""


def amplifier(gain):
    return TEXT % (", ".join(map(str, WEIGHTS.flat)), gain)


class _Fold(RewriteRulePass, Transformation):
    by: float = 1.0

    def pattern(self, op, x, w, k):
        return op.Mul(op.MatMul(x, w), k)

    def check(self, _, x, w, k):
        return k.name == "k"

    def rewrite(self, op, x, w, k):
        folded = w.const_value.numpy() * (k.const_value.numpy() * np.float32(self.by))
        return op.MatMul(x, op.Constant(value=ir.tensor(folded)))


@passes.verify.tolerance()
@passes.register()
class AmplifiedFold(_Fold):
    """Multiply weights by a factor behind them."""


@passes.verify.tolerance()
@passes.register()
class AmplifiedWrong(_Fold):
    """The same, and a little more."""

    by: float = 1.001


def run(gain, step="amplified-fold", *settings):
    config = default_config(["reproducers=false", *settings], [step])
    return run_pipeline(ir.from_onnx_text(amplifier(gain)), config)


def drift_of(done):
    return [note for note in done.report.notes if note.startswith("drift on")]


def test_drift_that_rounding_makes_of_the_original_passes_and_is_noted():
    done = run(AMPLIFIES)
    assert done.error is None
    assert not done.report.not_verified
    assert "each change agrees by itself" in drift_of(done)[0]
    to_json(done.report)


def test_a_network_that_does_not_amplify_keeps_its_limit():
    assert drift_of(run(0.01)) == []


@each_of(
    "step, settings",
    ("amplified-fold", ["verify.drift={rtol: 0, atol: 1.0e-5}"]),
    ("amplified-fold", ["verify.scope=model", DEFAULT]),
    ("amplified-wrong", []),
    ("amplified-wrong", ["verify.scope=model"]),
)
def test_limits_of_the_user_whole_models_and_wrong_parts_are_held_to_theirs(step, settings):
    done = run(AMPLIFIES, step, *settings)
    assert done.error is not None
    assert drift_of(done) == []


def test_where_the_original_moves_by_more_than_a_fault_may_hide_in_nothing_is_said():
    done = run(3e3)
    assert done.error is None
    assert done.report.not_verified


def test_drift_beyond_that_is_blamed_on_no_rewrite(monkeypatch):
    monkeypatch.setattr(noise, "_UNITS", 0)
    done = run(AMPLIFIES, "amplified-fold", DEFAULT)
    (report,) = done.report.passes
    assert done.error is not None
    assert (report.culprits, report.blame) == ([], [])
    assert any("no rewrite is blamed" in note for note in report.notes)


@each_of("shares, amplifies", ([3.0], True), ([float("inf")], False), ([], False))
def test_a_result_that_is_nan_or_does_not_run_is_no_rounding(shares, amplifies):
    """Of a root of less than nothing it was said that the model amplifies rounding."""
    thresholds = SimpleNamespace(holds=lambda kind: False)
    comparing = SimpleNamespace(thresholds=thresholds)
    gate = SimpleNamespace(state=SimpleNamespace(vouched=True, comparing=comparing))
    outputs = tuple(OutputCheck("y", False, share=share) for share in shares)
    check = Check("drift", Verdict.FAILED, outputs=outputs)
    assert Gate.only_amplifies(gate, check) is amplifies


STEPS = "y = Sin(b) }", "p = Mul(b, k) h = Round(p) q = Sub(p, h) y = Sin(q) }"


@each_of("steps, verdict", (True, "passed"), (False, "failed"))
def test_adversarial_inputs_decide_nothing_behind_steps(monkeypatch, steps, verdict):
    """So a quantised network was accused of a right fusion, where no rewrite was blamed."""
    monkeypatch.setattr(noise, "_UNITS", 0)
    text = amplifier(0.15).replace(*STEPS if steps else ("Sin(b)", "Sin(b)"))
    words = ["engines=[onnxruntime]", "reproducers=false", "on_failure=rollback", DEFAULT]
    config = default_config([*words, "verify.inputs=adversarial"], ["amplified-fold"])
    done = run_pipeline(ir.from_onnx_text(text), config)
    (report,) = done.report.passes
    assert report.verdict == verdict
    assert any("undecided" in str(check.reason) for check in report.checks) == steps
