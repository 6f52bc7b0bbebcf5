"""What a failed check leaves behind: the culprit alone, wherever it can be cut out."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.pipeline import reproducer
from onnx_passes.pipeline.baseline import EngineBaseline
from onnx_passes.pipeline.culprit import Judgement
from onnx_passes.pipeline.reproducer import Failure, leave_reproducer
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.run_report import RunReport
from onnx_passes.runtime.engine_base import Finding, Level
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify import bundle
from onnx_passes.verify.evidence import LEVEL, Check, Verdict
from onnx_passes.verify.shrink import Case
from tests.tables import each_of, each_row, edit_pass, rule_pass

HEAD = '<ir_version: 10, opset_import: ["": 21]> g '
CHAIN = """(float[2, 3] x) => (float[2, 3] y) <float c = {3}, float[3] w = {1, 2, 3}>
    { a = Neg(x) b = Add(a, w) d = Add(b, c) e = Exp(d) y = Add(e, w) }"""


rule_pass(
    "ReproHalfWrong",
    "Add(x, y) => Sum(x, x) if y.const_value.shape.rank() == 0 else Sum(y, x) "
    "when y.const_value is not None",
)


@edit_pass(passes.verify.tolerance(rtol=0.001))
def repro_drop_neg(model):
    """Replace every Neg by an Abs, with no rule that could be bisected."""
    for node in model.graph:
        if node.op_type == "Neg":
            node.op_type = "Abs"


def run(folder, steps, *overrides, text=CHAIN):
    given = [f"reproducers={folder}", "on_failure=rollback", *overrides]
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    return run_pipeline(model, default_config(given, steps)).report


def repro(folder):
    script = [sys.executable, "-I", f"{folder}/repro.py"]
    return subprocess.run(script, capture_output=True, text=True)


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_only_the_guilty_rewrite_is_cut_out_with_its_values(tmp_path):
    (done,) = run(tmp_path, ["repro-half-wrong"]).passes
    assert len(done.rewrites) == 3
    assert done.culprits == [2]
    folder = tmp_path / "model-0001-repro-half-wrong"
    assert done.reproducer == str(folder)
    assert operators(folder / "before.onnx") == ["Add"]
    assert operators(folder / "after.onnx") == ["Sum"]
    assert list(np.load(folder / "inputs.npz")) == ["b"]
    (constant,) = onnx.load(folder / "before.onnx").graph.initializer
    assert constant.name == "c"
    shown = repro(folder)
    assert shown.returncode == 1, shown.stderr
    told = "d: 1 of 1 elements differ, the worst at [0, 0]: before 3.0, after 0.0"
    assert told in shown.stdout
    told = (folder / "README.md").read_text()
    assert "- d = Add(b, c)" in told
    assert "+ d = Sum(b, b)" in told
    assert f"onnx {onnx.__version__}" in told


def test_the_first_sample_that_fails_is_the_one_left(tmp_path):
    fine, wrong = np.zeros((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    for index, array in enumerate((fine, wrong)):
        part = tmp_path / "data" / f"test_data_set_{index}"
        part.mkdir(parents=True)
        proto = onnx.numpy_helper.from_array(array, "x")
        (part / "input_0.pb").write_bytes(proto.SerializeToString())
    given = f"reference={{inputs: {tmp_path}/data}}"
    given = [given, "limits.reproducer_seconds=0"]
    (done,) = run(tmp_path / "out", ["repro-drop-neg"], *given).passes
    assert np.array_equal(np.load(f"{done.reproducer}/inputs.npz")["x"], wrong)


@edit_pass()
def repro_gather(model):
    """Read one element further than there may be."""
    model.graph.initializers["s"].const_value = ir.tensor(np.int64([1]), name="one")


def test_a_sample_on_which_the_result_does_not_run_is_found(tmp_path):
    data = tmp_path / "data"
    for index, size in enumerate((2, 3, 1)):
        part = data / f"test_data_set_{index}"
        part.mkdir(parents=True)
        proto = onnx.numpy_helper.from_array(np.ones(size, np.float32), "x")
        (part / "input_0.pb").write_bytes(proto.SerializeToString())
    text = "(float[N] x) => (float[1] y) <int64[1] s = {0}> { y = Gather(x, s) }"
    given = [f"reference={{inputs: {data}}}", "verify.scope=model"]
    (done,) = run(tmp_path / "out", ["repro-gather"], *given, text=text).passes
    assert done.notes == []
    assert np.load(f"{done.reproducer}/inputs.npz")["x"].shape == (1,)
    shown = repro(done.reproducer)
    assert shown.returncode == 1
    assert "after.onnx does not run" in shown.stdout


@each_of("refused", 1, 2, 100)
def test_what_does_not_fail_alone_gives_way_to_larger_models(tmp_path, monkeypatch, refused):
    replayed = []
    replay = bundle._replay

    def fail_later(folder, seconds):
        replayed.append(len(onnx.load(folder / "before.onnx").graph.node))
        return "because" if len(replayed) <= refused else replay(folder, seconds)

    monkeypatch.setattr(bundle, "_replay", fail_later)
    (done,) = run(tmp_path, ["repro-half-wrong"]).passes
    assert replayed[0] == 1
    told = Path(f"{done.reproducer}/README.md").read_text()
    if refused == 100:
        assert done.notes == ["the reproducer does not fail by itself: because"]
        assert "**This folder does not fail by itself:** because." in told
        assert replayed[-1] == len(onnx.load(f"{done.reproducer}/before.onnx").graph.node) == 5
    else:
        assert len(replayed) == refused + 1
        assert done.notes == []
        assert repro(done.reproducer).returncode == 1


def test_models_are_judged_and_left_as_the_gate_prepares_them(tmp_path, monkeypatch):
    def with_identity(_, model):
        copy = model.clone()
        for node in list(copy.graph):
            (value,) = node.outputs
            if node.op_type != "Identity" and not value.is_graph_output():
                behind = ir.node("Identity", [value])
                behind.outputs[0].name = f"{value.name}_behind"
                for user, index in list(value.uses()):
                    if user is not behind:
                        user.replace_input_with(index, behind.outputs[0])
                copy.graph.insert_after(node, behind)
        return copy

    monkeypatch.setattr(Judgement, "prepare", with_identity)
    given = ["limits.reproducer_seconds=0", "verify.scope=model"]
    (done,) = run(tmp_path, ["repro-drop-neg"], *given, text=CHAIN).passes
    monkeypatch.undo()
    monkeypatch.setattr(bundle, "_replay", lambda *_: "")
    assert operators(f"{done.reproducer}/before.onnx").count("Neg") == 1
    readme = Path(f"{done.reproducer}/README.md").read_text()
    assert "THIS_FOLDER/plain.onnx" in readme
    config = load_config(f"{done.reproducer}/pipeline.yaml")
    again = run_pipeline(ir.load(f"{done.reproducer}/plain.onnx"), config)
    assert again.report.exit_code == 1


def test_none_is_left_where_none_is_wanted_or_nothing_failed(tmp_path):
    assert run("false", ["repro-drop-neg"]).passes[0].reproducer is None
    assert run(tmp_path / "f", ["eliminate-identity"]).passes[0].reproducer is None
    assert not (tmp_path / "f").exists()


def test_a_folder_that_cannot_be_written_is_a_note_and_the_failure_stays(tmp_path):
    (tmp_path / "file").write_text("")
    (done,) = run(tmp_path / "file", ["repro-drop-neg"]).passes
    assert done.reproducer is None
    assert done.action == "rolled back"
    assert any("no reproducer: cannot write" in note for note in done.notes)


@each_of("given", "true", "3", "''")
def test_the_key_takes_a_folder_or_false(given):
    from onnx_passes.errors import ConfigError

    with pytest.raises(ConfigError, match="a folder, or false"):
        default_config([f"reproducers={given}"], ["repro-drop-neg"])


rule_pass("ReproDouble", "Add(x, y) => Add(x, x) when x is not y", passes.verify.tolerance())


BRANCHES = """then_branch = a () => (float[4] p) { p = Add(t, w) }, else_branch = b ()
    => (float[4] q) { q = Mul(t, w) }"""


@each_row("""text | kept | inputs
subgraph: =f'(float[4] x, bool c) => (float[4] y) <float[4] w = {{1, 2, 3, 4}}> {{ t = Neg(x)
  z = If (c) <{BRANCHES}> y = Exp(z) }}' | =['If'] | =['c', 't']
sequence: (seq(float[4]) x, float[4] z) => (float[4] y) <int64 s = {0}> { t = SequenceAt(x, s)
  y = Add(t, z) } | =['Add'] | =['t', 'z']
bfloat16: (bfloat16[4] x, bfloat16[4] z) => (bfloat16[4] y) { t = Cast<to = 1>(x) u = Cast<to
  = 1>(z) v = Add(t, u) y = Cast<to = 16>(v) } | =['Cast', 'Add'] | =['z', 't']
dynamic: (float[N, M] x) => (float[N, K] y) <int64[2] s = {-1, 1}, float[1] w = {2}> { t =
  Reshape(x, s) y = Add(t, w) } | =['Add'] | =['t']
no-inputs: () => (float[4] y) <float[4] w = {1, 2, 3, 4}> { t = Neg(w) y = Add(t, w) } |
  =['Add'] | =['t']
""")
def test_regions_of_every_kind_are_cut_out(tmp_path, text, kept, inputs):
    (done,) = run(tmp_path, ["repro-double"], text=text).passes
    assert operators(f"{done.reproducer}/before.onnx") == kept
    assert list(np.load(f"{done.reproducer}/inputs.npz")) == inputs
    shown = repro(done.reproducer)
    assert shown.returncode == 1, shown.stderr


def test_a_fault_in_a_function_is_shown_by_its_call(tmp_path):
    text = """<ir_version: 10, opset_import: ["": 21, "f": 1]> g (float[4] x) => (float[4] y)
        <float[4] w = {1, 2, 3, 4}> { t = Neg(x) y = f.foo(t, w) } <domain: "f",
        opset_import: ["": 21]> foo (a, b) => (r) { r = Add(a, b) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    config = default_config([f"reproducers={tmp_path}"], ["repro-double"])
    (done,) = run_pipeline(model, config).report.passes
    assert operators(f"{done.reproducer}/before.onnx") == ["foo"]
    assert repro(done.reproducer).returncode == 1


def test_how_far_a_compiler_gets_is_left_without_the_compiler(tmp_path, monkeypatch):
    pair = [
        ir.from_proto(
            onnx.parser.parse_model(f"{HEAD} (float[2] x) => (float[2] y) {{ {b} }}")
        )
        for b in (
            "a = Neg(x) b = Abs(a) y = Exp(b)",
            "a = Neg(x) s = SequenceConstruct(a) i = Constant<value_int = 0>() "
            "b = SequenceAt(s, i) y = Exp(b)",
        )
    ]

    def examined(_, model):
        rejected = any(node.op_type == "SequenceConstruct" for node in model.graph)
        return Finding(Level.REJECTED if rejected else Level.BUILT, "because")

    monkeypatch.setattr(reproducer, "examine", examined)
    replays = iter(["it is not installed", ""])
    monkeypatch.setattr(bundle, "_replay", lambda *_: next(replays))
    compiler = engine_from_config("tensorrt-rtx", {"isolate": False})
    state = SimpleNamespace(
        baseline=SimpleNamespace(
            benches=[EngineBaseline(OnnxRuntimeEngine(), "each")],
            samples=[{"x": np.float32([1, 2])}],
        )
    )
    compilers = [SimpleNamespace(engine=compiler, inner=compiler)]
    judgement = Judgement(state, compilers, Check(LEVEL, Verdict.FAILED, compiler.name))
    case = Case(*pair, {}, "what the pass changed")
    failure = Failure(judgement, "0000-p", "p", "it is rejected", "equality", [case], ["p"])
    config = default_config([f"reproducers={tmp_path}"], ["repro-double"])
    folder, notes = leave_reproducer(failure, config, RunReport("m", None, "p", True))
    assert notes == []
    assert operators(f"{folder}/before.onnx") == ["Neg", "Abs", "Exp"]
    told = Path(f"{folder}/README.md").read_text()
    assert "as whole models" in told
    assert "before.onnx is built, after.onnx is rejected: because" in told
    assert "levels" in json.loads(Path(f"{folder}/check.json").read_text())
