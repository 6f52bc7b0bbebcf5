"""Engines that execute what they compile: a fake driver and fake bindings, and no GPU."""

import json

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.bench.runs import Runner, Settings, compare
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import ConfigError
from onnx_passes.pipeline import compiling_engines
from onnx_passes.pipeline import compiling_engines as module
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.summary import outcome
from onnx_passes.verify.evidence import LEVEL, Verdict
from tests.pipeline.sums import SumsByRule
from tests.runtime.tensorrt import fake_gpu
from tests.tables import rule_pass

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[n,2] a, float[n,2] b) => (float[n,2] y)
{ [add] s = Add(a, b) [same] i = Identity(s) [neg] y = Neg(i) }"""


rule_pass("SumOfTwo", "Add(x, y) => Sum(x, y)")
rule_pass(
    "NearlyTheSame",
    "Identity(x) => Mul(x, Constant(value_float=1.001))",
    passes.verify.tolerance(atol=1.0),
)


@pytest.fixture(autouse=True)
def executes(gpu, monkeypatch):
    fake_gpu.compile_into_models(monkeypatch)


def go(*steps, when="each", overrides=(), **options):
    rtx = {"tensorrt-rtx": {"when": when, "isolate": False, **options}}
    config = default_config(
        [f"engines={json.dumps([{'onnxruntime': {}}, rtx])}", *overrides], steps
    )
    return run_pipeline(ir.from_onnx_text(TEXT), config)


def levels(checks):
    return [(c.verdict, c.level) for c in checks if c.kind == LEVEL and c.scope == "model"]


def test_what_is_executed_and_agrees_is_verified(gpu):
    done = go("sum-of-two", require="executed")
    assert levels(done.report.passes[0].checks) == [(Verdict.PASSED, "executed")]
    assert levels(done.report.final) == [(Verdict.PASSED, "executed")]
    assert (done.report.not_verified, done.report.exit_code) == ([], 0)
    engine = done.report.engines[-1]
    assert (engine.level, engine.level_reason) == ("executed", "executed on Fake GPU")
    assert engine.details["gpu"] == "Fake GPU"
    assert outcome(done.report).head == "VERIFIED"
    assert from_json(to_json(done.report)) == done.report
    assert gpu.alive == (0, 0, 0, 0)


def test_numbers_that_differ_fail_the_pass_with_output_and_distance(gpu):
    done = go("nearly-the-same", overrides=["verify.drift.atol=1.0"])
    assert done.report.passes[0].verdict is Verdict.PASSED
    strict = go("nearly-the-same", overrides=["verify.tolerance.atol=1e-6"])
    (failed,) = [c for c in strict.report.passes[0].checks if c.kind == LEVEL]
    assert (failed.verdict, failed.level) == (Verdict.FAILED, "executed")
    assert failed.reason.startswith("y too far from the original: ")
    assert failed.outputs[0].mismatched > 0
    assert strict.report.exit_code == 1


def test_a_model_that_ran_and_does_not_run_any_more_fails(gpu):
    real = module.examine

    def examine(engine, asked, samples=()):
        if any(node.op_type == "Sum" for node in asked.graph):
            gpu.fail("cuStreamSynchronize", 700)
        found = real(engine, asked, samples)
        gpu.fail("cuStreamSynchronize", 0)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "examine", examine)
        done = go("sum-of-two")
    (failed,) = [c for c in done.report.passes[0].checks if c.kind == LEVEL]
    assert (failed.verdict, failed.level) == (Verdict.FAILED, "built")
    assert failed.reason.startswith("executed the model before, and the result is built for ")
    assert (
        "does not run: cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS" in failed.reason
    )


def test_an_engine_that_the_gpu_does_not_take_is_built_and_no_verification(gpu, monkeypatch):
    from onnx_passes.runtime.tensorrt import engine

    monkeypatch.setattr(engine, "build", lambda *_: b"of another GPU")
    done = go("sum-of-two")
    assert levels(done.report.passes[0].checks) == [(Verdict.NOT_VERIFIED, "built")]
    (told,) = done.report.not_verified
    assert (
        "not executed: TensorRT cannot load the engine on this GPU: the engine is for" in told
    )


def test_engines_that_run_a_file_are_not_for_pipelines(gpu, tmp_path):
    with pytest.raises(ConfigError, match="load is not for pipelines"):
        go("sum-of-two", load=str(tmp_path / "a.engine"))


def test_layerwise_comparison_says_how_the_values_were_reached(gpu):
    from onnx_passes.runtime.engines import engine_from_config

    model = ir.from_onnx_text(TEXT)
    options = {"isolate": False}
    samples = [{n: np.ones((2, 2), np.float32) for n in "ab"}]
    runners = [Runner(model), Runner(model, engine_from_config("tensorrt-rtx", options))]
    found = compare(runners, samples, settings=Settings(outputs="all"))
    assert found.passed
    assert {"s", "i", "y"} <= set(found.runs[1].names)
    (note,) = [note for note in found.notes if note.startswith("tensorrt-rtx")]
    assert "with 3 values marked as outputs: it fuses less than without" in note


def test_numbers_that_differ_are_blamed_by_regions_on_the_engine_itself(gpu, monkeypatch):
    sums = " ".join(f"s{i} = Add(t{i}, b) t{i + 1} = Neg(s{i})" for i in range(6))
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[n,2] a, float[n,2] b) => (float[n,2] y) {{ t0 = Neg(a) {sums} y = Neg(t6) }}"""
    built = []
    real = compiling_engines.examine
    monkeypatch.setattr(
        compiling_engines, "examine", lambda *words: built.append(words[1]) or real(*words)
    )
    rtx = {"tensorrt-rtx": {"when": "each", "isolate": False}}
    settings = [f"engines={json.dumps([{'onnxruntime': {'when': 'end'}}, rtx])}"]
    settings += ["verify.tolerance.atol=1e-6", "reproducers=false"]
    config = default_config(settings, [SumsByRule.name + '{at="s4"}'])
    (failed,) = run_pipeline(ir.from_onnx_text(text), config).report.passes
    (check,) = [c for c in failed.checks if c.kind == LEVEL]
    assert (check.verdict, check.level) == (Verdict.FAILED, "executed")
    (blame,) = failed.blame
    assert blame.how.startswith("by its own error on that engine, in its layers '")
    assert [r.replaced[0][0] for r in failed.rewrites if r.number == blame.number] == ["s4"]
    assert blame.value.mismatched > 0
    parts = [model for model in built if model.graph.name == "regions"]
    assert len(parts) == 2  # all old sides in one build, and all new ones
