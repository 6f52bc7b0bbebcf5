"""What engines that compile and do not execute say of a run: levels, and never 'verified'."""

import json
import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.errors import ConfigError, EngineUnavailableError
from onnx_passes.pipeline.bisect import judge_by_score
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.tensorrt.bindings import installed_version
from onnx_passes.verify.evidence import LEVEL, Check, Checks, Verdict
from tests.tables import each_of, rule_pass

TEXT = """<ir_version: 10, opset_import: ["": 20]>
g (float[n,2] a, float[n,2] b) => (float[n,2] y)
{ [add] s = Add(a, b) [same] i = Identity(s) [relu] y = Relu(i) }"""

pytestmark = pytest.mark.usefixtures("children_end")
absent = pytest.mark.skipif(
    installed_version("tensorrt-rtx") is not None, reason="tensorrt-rtx is installed here"
)


rule_pass(
    "ThroughSequence",
    "Identity(x) => SequenceAt(SequenceConstruct(x), Constant(value_int=0))",
)


rule_pass(
    "OutOfSequence",
    "SequenceAt(SequenceConstruct(x), Constant(value_int=0)) => Identity(x)",
)


rule_pass("SwapSum", "Add(x, y) => Sum(y, x)")


def go(*steps, when="each", engines=None, overrides=(), text=TEXT, **options):
    rtx = {"tensorrt-rtx": {"when": when, "compute_capabilities": [8.9], **options}}
    given = engines or [{"onnxruntime": {}}, rtx]
    config = default_config([f"engines={json.dumps(given)}", *overrides], steps)
    return run_pipeline(ir.from_onnx_text(text), config)


def levels(report):
    return [(c.verdict, c.level) for c in report.checks if c.kind == LEVEL]


def test_a_level_outweighs_no_comparison_and_verifies_nothing_by_itself():
    built = Check(LEVEL, Verdict.NOT_VERIFIED, "rtx", level="built")
    worse = Check(LEVEL, Verdict.FAILED, "rtx", level="parsed")
    equal = Check("equality", Verdict.PASSED, "ort")
    sound = Check("structure", Verdict.PASSED)
    assert Checks((sound, equal, built)).verdict is Verdict.PASSED
    assert Checks((sound, built)).verdict is Verdict.NOT_VERIFIED
    assert Checks((sound, equal, worse)).verdict is Verdict.FAILED


@absent
def test_without_the_package_the_run_says_what_to_install():
    done = go("swap-sum", require="absent")
    (report,) = done.report.passes
    assert report.verdict is Verdict.PASSED
    assert levels(report) == [(Verdict.NOT_VERIFIED, "absent")]
    engine = done.report.engines[-1]
    told = (
        "absent: tensorrt-rtx is not installed (in a checkout: pip install '.[tensorrt-rtx]')"
    )
    assert (engine.level, engine.level_reason) == ("absent", told)
    assert done.report.not_verified == [f"the result: {told} (tensorrt-rtx[8.9])"]
    assert done.report.exit_code == 0
    assert go("swap-sum", require="absent", overrides=["strict=true"]).report.exit_code == 4


@absent
@each_of("level", None, "parsed", "built", "executed")
def test_an_engine_that_a_pipeline_names_fails_it_where_the_package_is_absent(level):
    with pytest.raises(EngineUnavailableError) as failure:
        go("swap-sum", require=level)
    assert failure.value.exit_code == 3
    assert failure.value.message.endswith("tensorrt-rtx is not installed")
    assert failure.value.help == "in a checkout: pip install '.[tensorrt-rtx]'"


def test_where_no_engine_executes_nothing_is_verified():
    alone = [{"tensorrt-rtx": {"compute_capabilities": [8.9], "require": "absent"}}]
    done = go("swap-sum", engines=alone)
    assert done.report.passes[0].verdict is Verdict.NOT_VERIFIED


def test_bisection_judges_by_numbers_of_an_engine_that_executes():
    rtx, ort = {"tensorrt-rtx": {"compute_capabilities": [8.9]}}, {"onnxruntime": {}}
    model = ir.from_onnx_text(TEXT)
    config = default_config([f"engines={json.dumps([rtx, ort])}"], ())
    assert judge_by_score(model, config)(model) == 0
    alone = default_config([f"engines={json.dumps([rtx])}"], ())
    with pytest.raises(ConfigError, match="no engine of the pipeline executes the model"):
        judge_by_score(model, alone)


@pytest.mark.tensorrt
def test_a_pass_is_verified_on_one_engine_and_built_on_the_other():
    done = go("swap-sum")
    (report,) = done.report.passes
    assert report.verdict is Verdict.PASSED
    assert levels(report) == [(Verdict.NOT_VERIFIED, "built")]
    assert done.report.engines[-1].level == "built"
    (told,) = done.report.not_verified
    assert told.startswith("the result: built for compute capability 8.9, not executed: ")


@pytest.mark.tensorrt
def test_an_operator_that_the_compiler_rejects_fails_the_pass_that_brought_it():
    done = go("swap-sum", "through-sequence")
    good, bad = done.report.passes
    assert good.verdict is Verdict.PASSED
    assert (bad.verdict, bad.action) == (Verdict.FAILED, "stopped")
    assert [c.kind for c in bad.checks if c.verdict is Verdict.FAILED] == [LEVEL]
    reason = bad.checks[-1].reason
    assert reason.startswith("built the model before, and the result is rejected: node ")
    assert "(SequenceConstruct)" in reason
    assert done.report.exit_code == 1
    assert [r.rule for r in bad.rewrites if r.number in bad.culprits] == ["through-sequence"]
    folder = Path(bad.reproducer)
    assert {p.name for p in folder.iterdir()} == {
        *("before.onnx", "after.onnx", "inputs.npz", "check.json"),
        *("pipeline.yaml", "README.md", "repro.py"),
        *("before.engine", "timing.cache", "builder.log"),
    }
    assert "SequenceConstruct" in (folder / "builder.log").read_text()
    assert "Add" not in {node.op_type for node in ir.load(folder / "before.onnx").graph}
    told = (folder / "README.md").read_text()
    assert "before.onnx is built, after.onnx is rejected: node " in told
    command = [sys.executable, "-I", str(folder / "repro.py")]
    again = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert again.returncode == 1, again.stderr
    assert "before.onnx: built" in again.stdout
    assert "after.onnx: rejected" in again.stdout
    assert "SequenceConstruct" in again.stdout
    (folder / "after.onnx").write_bytes((folder / "before.onnx").read_bytes())
    assert subprocess.run(command, capture_output=True, cwd="/").returncode == 0


@pytest.mark.tensorrt
def test_a_part_whose_outputs_had_no_types_is_a_reproducer_too():
    text = """<ir_version: 10, opset_import: ["": 20]>
    g (float[n,2] a) => (float[n,2] y)
    { s = Neg(a) i = Identity(s) r = Relu(i) t = Exp(r) y = Add(t, i) }"""
    folder = Path(go("through-sequence", text=text).report.passes[0].reproducer)
    operators = [node.op_type for node in ir.load(folder / "before.onnx").graph]
    assert "Neg" not in operators
    assert "Exp" not in operators


@pytest.mark.tensorrt
def test_a_rejected_pass_is_rolled_back_and_the_result_is_built():
    done = go("through-sequence", "swap-sum", overrides=["on_failure=rollback"])
    bad, good = done.report.passes
    assert (bad.action, good.verdict) == ("rolled back", Verdict.PASSED)
    assert levels(good) == [(Verdict.NOT_VERIFIED, "built")]
    assert done.report.exit_code == 0


@pytest.mark.tensorrt
def test_passes_after_one_that_was_kept_in_spite_are_not_blamed():
    done = go("through-sequence", "swap-sum", overrides=["on_failure=warn"])
    bad, good = done.report.passes
    assert (bad.action, good.verdict) == ("warned", Verdict.PASSED)
    assert levels(good) == [(Verdict.NOT_VERIFIED, "rejected")]
    assert done.report.exit_code == 1


@pytest.mark.tensorrt
def test_an_original_that_is_rejected_may_stay_so():
    text = TEXT.replace("Identity(s)", "SequenceAt(q, z)").replace(
        "[same]", "q = SequenceConstruct(s) z = Constant<value_int = 0>() [same]"
    )
    done = go("swap-sum", text=text)
    assert levels(done.report.passes[0]) == [(Verdict.NOT_VERIFIED, "rejected")]
    assert done.report.exit_code == 0
    required = go("swap-sum", text=text, require="built")
    assert required.report.exit_code == 1
    assert "the pipeline requires built: rejected: node " in required.report.error
    assert go("out-of-sequence", text=text, require="built").report.exit_code == 0


@pytest.mark.tensorrt
def test_at_the_end_and_at_checkpoints_the_result_is_held_against_the_original():
    done = go("through-sequence", when="end")
    assert done.report.passes[0].verdict is Verdict.PASSED
    (failed,) = [c for c in done.report.final if c.verdict is Verdict.FAILED]
    assert failed.reason.startswith("built the original, and the result is rejected: ")
    (blame,) = done.report.blame
    assert (blame.rule, blame.step) == ("through-sequence", 0)
    assert blame.how.startswith("by its region alone: rejected, node ")
    assert Path(done.report.reproducer, "repro.py").exists()
    assert done.report.exit_code == 1
    held = go("through-sequence", "checkpoint", "swap-sum", when="checkpoint")
    assert held.report.passes[-1].name == "checkpoint"
    assert held.report.passes[-1].action == "stopped"


@pytest.mark.tensorrt
def test_only_parsed_where_the_compiler_cannot_build_for_the_gpu():
    text = """<ir_version: 10, opset_import: ["": 20]>
    g (float[2,3] x, float[3,4] w, float[2,4] b) => (float[2,4] y)
    { [mm] m = MatMul(x, w) y = Add(m, b) }"""
    done = go("swap-sum", text=text, compute_capabilities=[7.5])
    assert levels(done.report.passes[0]) == [(Verdict.NOT_VERIFIED, "parsed")]
    failed = go("swap-sum", text=text, compute_capabilities=[7.5], require="built")
    assert failed.report.exit_code == 1


@pytest.mark.tensorrt
def test_the_shipped_pipeline_leaves_the_digits_built():
    from onnx_passes.model.load import load_model

    model = load_model(Path(__file__).parents[2] / "examples" / "digits" / "model.onnx").model
    each = ["engines.1.tensorrt-rtx.when=each", "engines.1.tensorrt-rtx.require=built"]
    done = run_pipeline(model, load_config("tensorrt", each))
    assert done.error is None
    changed = [p for p in done.report.passes if p.changed]
    assert changed
    assert all(p.verdict is Verdict.PASSED for p in changed)
    assert {level for p in changed for _, level in levels(p)} == {"built"}
