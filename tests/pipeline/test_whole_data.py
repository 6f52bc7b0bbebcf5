"""A pipeline whose result is compared over a whole data set."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.model.load import load_model
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict

pytest.importorskip("scipy", reason="scipy is not installed: pip install -e '.[dev]'")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("images", "labels"):
        shutil.copy(DIGITS / f"{name}.npy", tmp_path)

    def call(*settings, passes=("fold-constants", "checkpoint", "remove-unused")):
        files = "reference.data.files={image: images.npy, label: labels.npy}"
        return run_pipeline(
            load_model(DIGITS / "model.onnx").model,
            default_config(
                [files, "reference.data.batch=50", f"reproducers={tmp_path / 'r'}", *settings],
                passes,
            ),
        )

    return call


def over_the_data(checks):
    return [check for check in checks if check.kind == "data set"]


def test_the_result_and_checkpoints_are_compared_over_all_samples(run):
    done = run("verify.accuracy=2 %")
    assert done.error is None
    assert "first 3 of 400" in done.report.reference.source
    assert done.report.reference.samples == 3
    found = over_the_data(done.report.final)
    assert [check.verdict for check in found] == [Verdict.PASSED] * 2
    assert {m.samples for check in found for m in check.metrics} == {400}
    (checkpoint,) = [p for p in done.report.passes if p.name.startswith("checkpoint")]
    assert len(over_the_data(checkpoint.checks)) == 1


def test_too_few_samples_are_not_verified(run):
    done = run("verify.accuracy={drop: 0.1 %, confidence: 99 %}", "strict=true")
    assert done.report.exit_code == 4
    assert any("0.100% may be" in sentence for sentence in done.report.not_verified)


def test_without_a_rule_every_output_of_every_sample_is_compared(run):
    (found, _) = over_the_data(run().report.final)
    assert found.verdict is Verdict.PASSED
    assert found.outputs[0].size == 4000


@passes.register("whole-data-cuts-off")
@passes.verify.tolerance
class WholeDataCutsOff(Transformation):
    """Cut off what is above 100: right for small values only."""

    def call(self, model):
        node = model.graph[-1]
        output = model.graph.outputs[0]
        limit = ir.node("Constant", [], {"value_float": 100.0})
        made = ir.node("Min", [node.outputs[0], limit.outputs[0]])
        model.graph.extend([limit, made])
        node.outputs[0].name = "before"
        made.outputs[0].name = "y"
        made.outputs[0].type, made.outputs[0].shape = output.type, output.shape
        model.graph.outputs[0] = made.outputs[0]
        return ir.passes.PassResult(model, True)


def test_what_only_many_samples_show_fails_with_a_reproducer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.zeros((200, 4), np.float32)
    x[150] = -500
    np.save("x.npy", x)
    given = ["reference.data=x.npy", f"reproducers={tmp_path / 'r'}", "verify.scope=model"]
    model = parse("(float[N,4] x) => (float[N,4] y) { y = Neg(x) }")
    done = run_pipeline(model, default_config(given, ("whole-data-cuts-off",)))
    assert over_the_data(done.report.final)[0].verdict is Verdict.FAILED
    assert "1 are too far from the original" in str(done.error)
    folder = Path(done.report.reproducer)
    assert {p.name for p in folder.iterdir()} >= {"original.onnx", "result.onnx", "worst"}
    (first, *_) = json.loads((folder / "worst" / "samples.json").read_text())
    assert first["sample"] == "x.npy[150]"
    assert np.load(folder / "worst" / first["file"])["x"][0, 0] == -500
