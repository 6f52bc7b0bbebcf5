"""What an engine does to a result is separated from what the result computes."""

import json
from contextlib import contextmanager

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import EngineError
from onnx_passes.passes import registry
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report import summary
from onnx_passes.report.html import to_html
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.junit import to_junit
from onnx_passes.runtime import engines
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import ENGINE, Verdict
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of

FLOAT = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[4] x) => (float[4] y) { a = Identity(x) b = Exp(a) y = Neg(b) }"""


class Spoiled:
    """ONNX Runtime that treats a model without Identity otherwise; it rewrites graphs."""

    name = "spoiled"
    concurrent = False
    node_by_node = False
    refuses = False

    def describe(self):
        return {"engine": self.name}

    @contextmanager
    def prepare(self, model):
        right = any(node.op_type == "Identity" for node in model.graph)
        if not right and self.refuses:
            raise EngineError("it does not load", help="rename it")
        with OnnxRuntimeEngine().prepare(model) as session:
            yield session if right else Doubling(session)


class Doubling:
    def __init__(self, session, factor=2):
        self.session, self.factor = session, np.float32(factor)

    def run(self, *feeds):
        return {k: self.factor * v for k, v in self.session.run(*feeds).items()}


class Refusing(Spoiled):
    name = "refusing"
    refuses = True


@passes.verify.equality
class NegateTwice(Transformation):
    """Replace each Identity by two Neg.

    Before: ``Identity(x)``
    After:  ``Neg(Neg(x))``

    Sound because a sign that is changed twice is as it was.

    Leaves alone: all else.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace."""
        for node in [n for n in model.graph if n.op_type == "Identity"]:
            first = ir.node("Neg", [node.inputs[0]])
            second = ir.node("Neg", [first.outputs[0]])
            first.outputs[0].name = f"{node.outputs[0].name}_negated"
            second.outputs[0].name = node.outputs[0].name
            ir.convenience.replace_nodes_and_values(
                model.graph, node, [node], [first, second], node.outputs, second.outputs
            )
        return ir.passes.PassResult(model, modified=True)


@passes.verify.tolerance
class ScaleWrongly(Transformation):
    """Multiply the weights by 1.01.

    Before: ``w``
    After:  ``1.01 * w``

    Sound because it is not.

    Leaves alone: nothing.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Scale."""
        value = model.graph.initializers["w"]
        value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1.01), name="w")
        return ir.passes.PassResult(model, modified=True)


@pytest.fixture(autouse=True)
def own_engines(monkeypatch):
    monkeypatch.setattr(engines, "_FACTORIES", dict(engines._FACTORIES))
    engines.register_engine("spoiled")(lambda options: Spoiled())
    engines.register_engine("refusing")(lambda options: Refusing())
    registry.discover()
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
    for cls in (NegateTwice, ScaleWrongly):
        passes.register()(cls)


def run(text, steps, *asked):
    data = {"passes": list(steps), "engines": list(asked)}
    return run_pipeline(ir.from_onnx_text(text), config_from_data(data))


PLAIN = {"onnxruntime": {"optimization": "none", "prepacking": False, "when": "each"}}


@each_of("name", "spoiled", "refusing")
def test_a_fault_of_an_engine_at_the_end_blames_no_rewrite(name):
    report = run(FLOAT, ["negate-twice"], PLAIN, {name: {"when": "end"}}).report
    assert report.exit_code == 1
    (failed,) = [c for c in report.final if c.verdict is Verdict.FAILED]
    assert (failed.kind, failed.engine) == (ENGINE, name)
    assert not report.blame
    assert not any("to blame" in note or "traced" in note for note in report.notes)
    assert report.reproducer is not None
    assert "differ on the original" not in str(failed.reason)
    assert summary.outcome(report).head == f"FAILED on {name}"
    assert f"FAILED on {name}" in to_html(report)
    assert f"FAILED on {name}" in to_junit(report)
    assert json.loads(to_json(report))["final"][-1]["kind"] == ENGINE
    assert from_json(to_json(report)).final[-1].kind == ENGINE


@each_of("asked", [PLAIN], [])
def test_a_fault_of_an_engine_after_each_pass_blames_no_rewrite(asked):
    done = run(FLOAT, ["negate-twice"], *asked, {"refusing": {"when": "each"}})
    (report,) = [p for p in done.report.passes if p.verdict is Verdict.FAILED]
    kinds = {c.kind for c in report.checks if c.verdict is Verdict.FAILED}
    if asked:
        assert kinds == {ENGINE}
        assert not report.culprits
        assert not report.blame
        assert report.reproducer is not None
        assert summary.outcome(done.report).head == "FAILED on refusing"
    assert done.report.exit_code == 1


HALF = """<ir_version: 10, opset_import: ["" : 20]>
    g (float16[4,64] x) => (float16[4,64] y)
    <float[64] w = {NUMBERS}>
    { s = Cast<to = 10>(w) a = Mul(x, s) i = Identity(a) b = Add(i, s) c = Sub(b, a)
      d = Mul(c, s) e = Identity(d)
      f = Sub(e, c) h = Div(f, s) y = Add(h, a) }"""


def half_model():
    numbers = np.random.default_rng(3).uniform(0.5, 2, 64)
    return HALF.replace("NUMBERS", ", ".join(f"{n:.4f}" for n in numbers))


class Rounding(Spoiled):
    """Computes a model without Identity in double precision, and rounds at its end only."""

    name, last = "rounding", np.float16

    @contextmanager
    def prepare(self, model):
        from onnx_passes.verify.float64 import evaluate

        class Session:
            def run(self, feeds, *_):
                (found,) = evaluate(model, [feeds]).outputs
                return {k: np.asarray(v).astype(last) for k, v in found.items()}

        last = self.last

        if any(node.op_type == "Identity" for node in model.graph):
            with OnnxRuntimeEngine().prepare(model) as session:
                yield session
        else:
            yield Session()


class RoundingOnce(Rounding):
    """The same for models of 32 bits."""

    last = np.float32


def test_a_right_rewrite_of_a_half_model_passes_where_an_engine_rounds_less():
    """4 of 316 random float16 models were refused for it."""
    engines.register_engine("rounding")(lambda options: Rounding())
    asked = [PLAIN, {"rounding": {"when": "end"}}]
    done = run(half_model(), ["negate-twice"], *asked)
    assert done.report.exit_code == 0, done.report.error
    (noisy,) = [c for c in done.report.final if c.engine == "rounding"]
    assert noisy.verdict is Verdict.PASSED


CANCELS = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[4,64] x) => (float[4,64] y) <float big = {10000}>
    { i = Identity(x) a = Add(i, big) y = Sub(a, big) }"""


@each_of("name, code", ("rounding", 0), ("spoiled", 1))
def test_an_engine_that_rounds_a_float_model_less_is_no_fault(name, code):
    """Results of a qonnx model are 1e-4 apart, and equally near to double precision."""
    engines.register_engine("rounding")(lambda options: RoundingOnce())
    done = run(CANCELS, ["negate-twice"], PLAIN, {name: {"when": "end"}})
    assert done.report.exit_code == code, done.report.error
    if not code:
        (noisy,) = [c for c in done.report.final if c.engine == "rounding"]
        assert "in double precision both sides agree" in noisy.reason


@each_of("engine", "spoiled", "refusing")
def test_a_fault_of_an_engine_in_a_half_model_is_no_noise(engine):
    done = run(half_model(), ["negate-twice"], PLAIN, {engine: {"when": "end"}})
    assert done.report.exit_code == 1
    assert summary.outcome(done.report).head == f"FAILED on {engine}"


def test_a_scale_that_is_wrong_by_a_hundredth_fails_in_a_half_model():
    asked = [PLAIN, {"onnxruntime": {"optimization": "all", "when": "end"}}]
    done = run(half_model(), ["scale-wrongly"], *asked)
    assert done.report.exit_code == 1
    (failed,) = [p for p in done.report.passes if p.verdict is Verdict.FAILED]
    assert all(c.kind != ENGINE for c in failed.checks)


STEPS = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[4] x) => (float[4] y) <float k = {0.5}> {
        a = Mul(x, k) b = Round(a) y = Neg(b) }"""


@passes.verify.tolerance
class MoveScale(Transformation):
    """Multiply a weight by a factor.

    Before: ``k``
    After:  ``factor * k``

    Sound because it is not.

    Leaves alone: all else.

    Attributes:
        factor: The factor.
    """

    factor: float = 1.0

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Multiply."""
        value = model.graph.initializers["k"]
        old = value.const_value.numpy()
        value.const_value = ir.tensor(old * old.dtype.type(self.factor), name="k")
        return ir.passes.PassResult(model, modified=True)


@each_of(
    "x, factor, expected",
    ([1, 3, 5, 7], 1 + 2**-22, Verdict.PASSED),  # all lie at a tie
    (np.float16([1, 3, 5, 7]), 1 + 2**-10, Verdict.PASSED),
    ([1, 3, 5, 7], 3.0, Verdict.FAILED),
    (np.float16([1, 3, 5, 7]), 3.0, Verdict.FAILED),
    ([2, 4, 6, 8], 3.0, Verdict.FAILED),
    ids=["a step at a tie", "of halves", "more than a step", "more of halves", "no tie"],
)
def test_a_step_that_rounding_alone_makes_is_no_fault(x, factor, expected):
    passes.register()(MoveScale)
    config = config_from_data({"passes": [{"move-scale": {"factor": factor}}]})
    x = np.asarray(x, getattr(x, "dtype", np.float32))
    given = ReferenceData([{"x": x}], None, "test")
    half = STEPS.replace("float", "float16").replace("{0.5}", "{14336}")  # its bits
    text = half if x.dtype == np.float16 else STEPS
    found = run_pipeline(ir.from_onnx_text(text), config, reference=given)
    (done,) = found.report.passes
    assert done.verdict is expected
    told = any("rounds to steps" in (check.reason or "") for check in done.checks)
    assert told is (expected is Verdict.PASSED)


LESS = """<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (bool[4] y)
    <float k = {0.1}, float c = {0.3}> { a = Mul(x, k) y = Less(a, c) }"""


@each_of("scope", "region", "model")
@each_of("factor, passes_", (1 - 2**-23, True), (0.5, False))
def test_a_comparison_that_rounding_decides_is_undecided(scope, factor, passes_):
    passes.register()(MoveScale)
    config = config_from_data(
        {"passes": [{"move-scale": {"factor": factor}}], "verify": {"scope": scope}}
    )
    given = ReferenceData([{"x": np.float32([3, 1, 5, 9])}], None, "test")
    found = run_pipeline(ir.from_onnx_text(LESS), config, reference=given)
    assert (found.error is None) is passes_
    (done,) = found.report.passes
    told = "; ".join(check.reason or "" for check in done.checks)
    assert ("1 element is" in told) is passes_


def test_an_engine_that_is_wrong_on_the_original_alone_accuses_no_result():
    # ONNX Runtime folds the Shape by onnx's inference: its kernel gives one row less.
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[1,1,5,5] x) => (int64[4] s, float[1,1,h,w] y) {
        p = AveragePool<kernel_shape = [3,3], strides = [3,3], pads = [1,1,1,1],
            ceil_mode = 1>(x)
        s = Shape(p) y = Relu(p) }"""
    every = {"onnxruntime": {"optimization": "all", "prepacking": False, "when": "end"}}
    report = run(text, ["shape-inference", "fold-constants"], PLAIN, every).report
    assert report.exit_code == 0


def test_an_engine_that_is_wrong_on_both_is_named_with_one_that_is_not(monkeypatch):
    prepare = OnnxRuntimeEngine.prepare

    @contextmanager
    def doubling(self, model):
        original = any(node.op_type == "Identity" for node in model.graph)
        with prepare(self, model) as session:
            factor = 1.03 if original else 2
            yield Doubling(session, factor) if self.optimization == "all" else session

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", doubling)
    every = {"onnxruntime": {"optimization": "all", "prepacking": False, "when": "end"}}
    report = run(FLOAT, ["negate-twice"], PLAIN, every).report
    (failed,) = [c for c in report.final if c.verdict is Verdict.FAILED]
    assert failed.kind == ENGINE
    assert "they differ on the original already: -e onnxruntime" in str(failed.reason)
