"""Values inside a model on an engine that fuses nodes: rounding passes, a fault fails."""

from contextlib import contextmanager

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.pipeline.rounding import FUSED, Cause, find_fused_cause
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime import engines
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import ENGINE, Verdict
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import Recording
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of, rule_pass

# The Softmax does not notice: one element is far above the others.
MASKED = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[3,4] x) => (float[3,4] y) <float[4] far = {0, 500, 0, 0}, float k = {0.7}> {
      s = Sin(x) t = Mul(s, k) u = Add(t, far) y = Softmax(u) }"""


class Fusing:
    """Computes a model without Mul in double precision, and rounds at its end only."""

    name = "fusing"
    factor = 1.0

    def describe(self):
        return {"engine": self.name}

    @contextmanager
    def prepare(self, model):
        factor = self.factor

        class Session:
            def run(self, feeds, *_):
                (found,) = evaluate(model, [feeds]).outputs
                return {k: np.float32(v * factor) for k, v in found.items()}

        if any(node.op_type == "Mul" for node in model.graph):
            with OnnxRuntimeEngine().prepare(model) as session:
                yield session
        else:
            yield Session()


class Doubling(Fusing):
    """Doubles what it fuses."""

    name = "doubling"
    factor = 2.0


DIVIDES = "Mul(x, k) => Div(x, Constant(value=ir.tensor(np.float32(self.divisor))))"
Closely = rule_pass(
    "Closely", DIVIDES, passes.verify.tolerance(rtol=1e-9, atol=0), divisor=1 / 0.7
)
Roughly = rule_pass("Roughly", DIVIDES, passes.verify.tolerance, divisor=1 / 0.7)


@pytest.fixture(autouse=True)
def own_engines(monkeypatch, own_registry):
    monkeypatch.setattr(engines, "_FACTORIES", dict(engines._FACTORIES))
    engines.register_engine("fusing")(lambda options: Fusing())
    engines.register_engine("doubling")(lambda options: Doubling())


def check(cls, engine, **options):
    """Return the report of one pass, and its check by the engine."""
    data = {"passes": [{cls.name: options}], "engines": [engine], "reproducers": False}
    report = run_pipeline(ir.from_onnx_text(MASKED), config_from_data(data)).report.passes[0]
    return report, next(c for c in report.checks if c.engine == engine)


def test_a_value_that_differs_by_rounding_alone_passes():
    report, found = check(Closely, "fusing")
    assert report.verdict is Verdict.PASSED
    assert FUSED in str(found.reason)


def test_a_fault_that_the_outputs_do_not_show_fails_and_is_named():
    report, found = check(Roughly, "fusing", divisor=1 / 0.71)
    assert (found.verdict, found.scope, found.kind) == (Verdict.FAILED, "region", "tolerance")
    assert report.culprits == [1]
    assert str(found.reason).startswith("t not within tolerance")


def test_what_another_engine_finds_right_is_charged_to_the_engine():
    report, found = check(Roughly, "doubling")
    assert (found.verdict, found.kind) == (Verdict.FAILED, ENGINE)
    assert "onnxruntime finds them to agree" in str(found.reason)
    assert not report.culprits


WIDE = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[3,4] x) => (float[3,4] y) <float low = {-1000}, float high = {1000}> {
      t = Clip(x, low, high) u = Sin(t) y = Softmax(u) }"""


rule_pass("Unclips", "Clip(x, low, high) => Max(x, low)")


@each_of("engine", "onnxruntime", "fusing")
def test_drawn_values_tell_what_the_samples_do_not_on_any_engine(engine):
    config = config_from_data({"passes": ["unclips"], "engines": [engine]})
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    given = ReferenceData([{"x": x}], None, "given")
    done = run_pipeline(ir.from_onnx_text(WIDE), config, reference=given)
    (one,) = done.report.passes[0].evidence
    assert one.unobserved.startswith("t differs on drawn values (where x is ")


def test_what_rounding_explains_on_drawn_values_is_no_difference():
    report, _ = check(Closely, "fusing")
    assert not any(one.unobserved for one in report.evidence)


def sides(new):
    """Return the value t of the model and of one in which it is computed otherwise."""
    before = ir.from_onnx_text(MASKED)
    after = ir.from_onnx_text(MASKED.replace("t = Mul(s, k)", new))
    found = [(m, [n for n in m.graph if n.outputs[0].name == "t"]) for m in (before, after)]
    return Obligation("t", "t"), *found


def explained(new, expected, actual):
    recording = Recording(1 << 20)
    recording.update({"s": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)})
    one, before, after = sides(new)
    found = find_fused_cause(one, before, after, [recording], [(expected, actual)])
    return {Cause.ROUNDING: True, Cause.FUNCTION: False}.get(found.cause)


RIGHT = np.float32(0.7) * np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@each_of(
    "actual, answer",
    (RIGHT, True),
    (RIGHT + np.float32(1e-4), False),
    (RIGHT[:2], False),
    (RIGHT.astype(np.float64), False),
    (np.where(RIGHT > 0, np.nan, RIGHT).astype(np.float32), False),
)
def test_the_limit_is_derived_from_the_operators(actual, answer):
    assert explained("t = Mul(k, s)", RIGHT, actual) is answer


def test_what_has_no_bound_is_not_known():
    other = RIGHT + np.float32(1)
    assert explained("t = NoSuch(s, k)", RIGHT, other) is None
    assert explained("t = Mul(k, s)", RIGHT, [RIGHT]) is None
