"""A pass that changes the interface is checked, and what follows is, on the user's samples."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.convert.rename_io import RenameIo
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict

MODEL = "(float[4] x, float[4] z) => (float[4] y) { t = Mul(x, z) u = Identity(t) y = Exp(u) }"
HALF = "convert-io-types{inputs={x: float16}}"


@passes.verify.equality
@passes.register()
class RenameWrongly(RenameIo):
    """Exchange what two inputs mean, beside renaming one."""

    def call(self, model):
        result = super().call(model)
        node = next(node for node in model.graph if node.op_type == "Mul")
        node.replace_input_with(0, node.inputs[1])
        return result


def run(*steps, settings=()):
    return run_pipeline(parse(MODEL), default_config(list(settings), steps))


def verdicts(done):
    return [report.verdict for report in done.report.passes]


def test_passes_after_a_change_of_types_and_names_are_verified():
    done = run(HALF, "rename-io{inputs={x: a},outputs={y: b}}", "eliminate-identity")
    assert done.error is None
    assert verdicts(done)[:2] == [Verdict.PASSED] * 2
    assert {check.verdict for check in done.report.final} == {Verdict.PASSED}
    assert [(v.name, v.dtype) for v in done.model.graph.inputs] == [
        ("a", ir.DataType.FLOAT16),
        ("z", ir.DataType.FLOAT),
    ]
    assert [value.name for value in done.model.graph.outputs] == ["b"]


def test_a_renaming_that_mixes_up_inputs_is_found():
    done = run("rename-wrongly{inputs={x: a}}")
    assert verdicts(done) == [Verdict.FAILED]
    assert "y" in str(done.error)


def test_after_a_rollback_the_old_interface_holds():
    done = run(
        "rename-wrongly{inputs={x: a}}",
        "rename-io{inputs={x: c}}",
        "eliminate-identity",
        settings=["on_failure=rollback"],
    )
    assert [r.action for r in done.report.passes][:3] == ["rolled back", "kept", "kept"]
    assert verdicts(done)[1] is Verdict.PASSED
    assert {value.name for value in done.model.graph.inputs} == {"c", "z"}
    assert {check.verdict for check in done.report.final} == {Verdict.PASSED}


def test_samples_of_the_user_are_kept(tmp_path):
    np.save(tmp_path / "x.npy", np.array([1, 2, 3, 4.0001], np.float32))
    np.save(tmp_path / "z.npy", np.ones(4, np.float32))
    files = [f"reference.inputs.{n}={tmp_path / n}.npy" for n in "xz"]
    done = run(HALF, "rename-io{inputs={x: a}}", settings=files)
    assert done.error is None
    assert done.report.reference.samples == 1
    assert verdicts(done) == [Verdict.PASSED] * 2
