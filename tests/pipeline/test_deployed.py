"""At the end ONNX Runtime runs the original and the result as they are deployed."""

from contextlib import contextmanager

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import EngineError
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import ENGINE, Verdict
from tests.tables import each_of

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[4,3] x) => (float[4,3] y)
    <float[3] w = {1, 2, 3}> { i = Identity(x) r = Relu(i) n = Sigmoid(r) y = Exp(n) }"""


class Shifted:
    def __init__(self, session, shift):
        self.session, self.shift = session, shift

    def run(self, feeds, names=None):
        found = self.session.run(feeds, names)
        return {name: value + np.float32(self.shift) for name, value in found.items()}


@pytest.fixture
def shifted(monkeypatch):
    """Shift what ONNX Runtime gives for the original and for the result, as deployed."""
    prepare = OnnxRuntimeEngine.prepare

    def call(original, result):
        @contextmanager
        def shifting(self, model):
            first = any(node.op_type == "Identity" for node in model.graph)
            shift = original if first else result
            if self.threads == 0 and shift is None:
                raise EngineError("no such kernel")
            with prepare(self, model) as session:
                yield Shifted(session, shift) if self.threads == 0 else session

        monkeypatch.setattr(OnnxRuntimeEngine, "prepare", shifting)

    return call


def run(*given, text=TEXT):
    config = default_config(
        ["reproducers=false", *given], ["eliminate-identity", "lower-sigmoid"]
    )
    return run_pipeline(ir.from_onnx_text(text), config)


def deployed(done):
    return [c for c in done.report.final if "threads=0" in str(c.engine)]


def test_the_result_agrees_as_deployed():
    done = run()
    (check,) = deployed(done)
    assert done.error is None
    assert (check.kind, check.verdict) == (ENGINE, Verdict.PASSED)
    assert check.outputs


@each_of("wrong", 0.25, np.nan, None)
def test_a_result_that_is_treated_otherwise_fails(shifted, wrong):
    shifted(0, wrong)
    done = run()
    (check,) = deployed(done)
    assert (check.kind, check.verdict) == (ENGINE, Verdict.FAILED)
    assert done.error is not None
    assert done.report.exit_code == 1


def test_a_result_is_as_far_off_as_the_original_is_from_itself(shifted):
    shifted(0.25, 0.125)
    done = run()
    (check,) = deployed(done)
    assert done.error is None
    assert "than the original is from itself" in check.reason
    shifted(0.125, 0.5)
    assert run().error is not None


def test_an_original_that_does_not_run_as_deployed_is_noted(shifted):
    shifted(None, 0.25)
    done = run()
    assert done.error is None
    assert any("does not run as deployed" in note for note in done.report.notes)


@each_of("engines", "[onnxruntime]", "[reference]")
def test_what_onnxruntime_rewrites_is_asked_only_if_the_pipeline_asks(engines):
    assert not deployed(run(f"engines={engines}"))


def test_copies_of_weights_have_a_limit():
    done = run("verify.memory_limit=0", text=TEXT.replace("Relu(i)", "Add(i, w)", 1))
    assert not deployed(done)
    assert any("copies of weights exceed" in note for note in done.report.notes)


def test_a_sample_that_another_engine_refuses_is_left_out_before_outputs_are_held(monkeypatch):
    prepare = OnnxRuntimeEngine.prepare

    class Refusing(Shifted):
        def run(self, feeds, names=None):
            if len(feeds["x"]) == 1:
                raise EngineError("no kernel for one row")
            return super().run(feeds, names)

    @contextmanager
    def refusing(self, model):
        with prepare(self, model) as session:
            yield Refusing(session, 0) if self.optimization == "all" else session

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", refusing)
    text = TEXT.replace("float[4,3]", "float[N,3]").replace("[3] w = {1, 2, 3}", " w = {1e6}")
    done = run(text=text.replace("y = Exp(n)", "m = Mul(n, w) y = Sin(m)"))
    assert "edge: size 1" not in " ".join(done.report.reference.names)
    assert done.report.exit_code in (0, 1, 4)
