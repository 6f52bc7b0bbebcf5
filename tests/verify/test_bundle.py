"""Bundles: what is written runs with the script beside it, and reports what is true."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import UsageError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify import bundle as module
from onnx_passes.verify.bundle import Bundle, write_bundle, write_failing
from tests.tables import each_of


def model(body, inputs="float[N] x", outputs="float[N] y"):
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text))


def bundle(before="y = Add(x, x)", after="y = Mul(x, x)", feeds=None, **more):
    types = {key: more.pop(key) for key in ("inputs", "outputs") if key in more}
    feeds = {"x": np.float32([2, 3])} if feeds is None else feeds
    return Bundle(model(before, **types), model(after, **types), feeds, **more)


def repro(folder):
    # Isolated, and from elsewhere: the folder alone has to be enough.
    return subprocess.run(
        [sys.executable, "-I", folder / "repro.py"], capture_output=True, text=True, cwd="/"
    )


def test_models_that_differ_are_exit_code_1_with_the_worst_element(tmp_path):
    run = repro(write_bundle(bundle(), tmp_path / "b"))
    assert run.returncode == 1, run.stderr
    assert "y: 1 of 2 elements differ, the worst at [1]: before 6.0, after 9.0" in run.stdout


@each_of("atol, code", (3.5, 0), (2.5, 1))
def test_tolerances_are_kept(tmp_path, atol, code):
    folder = write_bundle(bundle(limits={"y": (0.0, atol)}), tmp_path / "b")
    assert repro(folder).returncode == code


def test_relative_tolerance_of_an_inner_tensor_refers_to_its_largest_element(tmp_path):
    given = {
        "before": "y = Identity(x)",
        "after": "c = Constant<value_floats = [0.0, 1.0]>() y = Sub(x, c)",
        "feeds": {"x": np.float32([1000, 1])},
        "limits": {"y": (1e-2, 0.0)},
    }
    assert repro(write_bundle(bundle(**given), tmp_path / "own")).returncode == 1
    assert repro(write_bundle(bundle(**given, scaled=True), tmp_path / "max")).returncode == 0


def test_nan_equals_nan_and_zeros_differ_only_on_request(tmp_path):
    feeds = {"x": np.float32([np.nan, 0])}
    given = {"before": "y = Abs(x)", "after": "z = Abs(x) y = Neg(z)", "feeds": feeds}
    assert repro(write_bundle(bundle(**given), tmp_path / "a")).returncode == 0
    folder = write_bundle(bundle(**given, signed_zeros=True), tmp_path / "b")
    assert repro(folder).returncode == 1


def test_a_model_that_does_not_load_still_differs(tmp_path):
    run = repro(write_bundle(bundle(after="y = NoSuchOperator(x)"), tmp_path / "b"))
    assert run.returncode == 1
    assert "after.onnx does not run" in run.stdout


def test_another_shape_is_told_and_never_broadcast(tmp_path):
    after = "c = Constant<value_ints = [1, -1]>() y = Reshape(x, c)"
    run = repro(
        write_bundle(bundle("y = Identity(x)", after, outputs="float y"), tmp_path / "b")
    )
    assert run.returncode == 1
    assert "y is float32[1, 2], expected float32[2]" in run.stdout


@each_of("name", "file", "/a/b.c", "ü", "a\x1b[31m\nb", "x.npy", "'\"{}")
def test_inputs_of_any_name_come_back(tmp_path, name):
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Neg", [name], ["y"])],
            "g",
            [onnx.helper.make_tensor_value_info(name, 1, ["N"])],
            [onnx.helper.make_tensor_value_info("y", 1, ["N"])],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
        ir_version=10,
    )
    one = ir.from_proto(proto)
    run = repro(write_bundle(Bundle(one, one, {name: np.ones(2, np.float32)}), tmp_path / "b"))
    assert (run.returncode, run.stderr) == (0, "")


def test_the_same_failure_takes_its_place_and_another_stays(tmp_path):
    first = write_bundle(bundle(), tmp_path / "b")
    (first / "README.md").write_text("old")
    assert write_bundle(bundle(readme="new"), tmp_path / "b") == first
    assert (first / "README.md").read_text() == "new"
    assert write_bundle(bundle(after="y = Sub(x, x)"), tmp_path / "b").name == "b-2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "b-2"]


def test_sequences_and_packed_elements_are_run(tmp_path):
    given = {
        "before": "i = Constant<value_int = 0>() y = SequenceAt(x, i)",
        "after": "i = Constant<value_int = 1>() y = SequenceAt(x, i)",
        "inputs": "seq(float[2]) x",
    }
    run = repro(
        write_bundle(
            bundle(**given, feeds={"x": [np.ones(2, np.float32), np.zeros(2, np.float32)]}),
            tmp_path / "s",
        )
    )
    assert run.returncode == 1, run.stderr
    assert "before 1.0, after 0.0" in run.stdout
    four = {"inputs": "int4[3] x", "outputs": "int4[3] y"}
    feeds = {"x": np.array([-7, 7, 1], ml_dtypes.int4)}
    text = "w = Cast<to = 6>(x) v = {}(w) y = Cast<to = 22>(v)"
    made = bundle(text.format("Identity"), text.format("Abs"), feeds, **four)
    run = repro(write_bundle(made, tmp_path / "int4"))
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 of 3 elements differ, the worst at [0]: before -7" in run.stdout


def test_a_sequence_of_a_type_that_numpy_lacks_is_refused_with_its_name(tmp_path):
    feeds = {"x": [np.ones(1, ml_dtypes.int4)]}
    with pytest.raises(UsageError, match="'x' is a sequence of a type"):
        write_bundle(bundle(feeds=feeds), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_script_needs_onnx_onnxruntime_and_numpy_alone():
    import ast
    from pathlib import Path

    tree = ast.parse((Path(module.__file__).with_name("repro.py")).read_text())
    found = {
        (node.module if isinstance(node, ast.ImportFrom) else name.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert found - set(sys.stdlib_module_names) == {"numpy", "onnx", "onnxruntime"}


def test_what_a_terminal_could_take_for_a_command_is_escaped(tmp_path):
    pair = [model("y = Add(x, x)"), model("y = Mul(x, x)")]
    for one in pair:
        one.graph.outputs[0].name = "y\x1b[31m\nno\u202e"
    run = repro(write_bundle(Bundle(*pair, {"x": np.float32([2, 3])}), tmp_path / "b"))
    assert run.returncode == 1
    assert run.stdout.splitlines()[1].startswith("y\\x1b[31m\\nno\\u202e: 1 of 2 elements")


def test_a_sequence_has_the_limits_of_each_of_its_elements(tmp_path):
    text = "n = Constant<value_float = {}>() m = Add(x, n) y = SequenceConstruct(x, m)"
    given = {"outputs": "seq(float[2]) y", "limits": {"y[1]": (0.0, 0.1)}}
    good = bundle(text.format(1.0), text.format(1.05), **given)
    assert repro(write_bundle(good, tmp_path / "good")).returncode == 0
    bad = bundle(text.format(1.0), text.format(1.5), **given)
    run = repro(write_bundle(bad, tmp_path / "bad"))
    assert run.returncode == 1
    assert "y[1]: 2 of 2 elements differ" in run.stdout


@each_of(
    "engine",
    OnnxRuntimeEngine(optimization="all", threads=2, prepacking=False, seed=3),
    ReferenceEngine(),
)
def test_the_engine_of_the_check_runs_them(tmp_path, engine):
    run = repro(write_bundle(bundle(engine=engine), tmp_path / "b"))
    assert run.returncode == 1, run.stderr
    version = engine.describe()["version"]
    assert run.stdout.splitlines()[0] == f"{engine.name}, version {version}"


@each_of("kind", "bfloat16", "float16", "string")
def test_the_reference_evaluator_takes_what_numpy_lacks(tmp_path, kind):
    types = {"inputs": f"{kind}[2] x", "outputs": f"{kind}[2] y"}
    array = np.array(["a", "b"], object)
    if kind != "string":
        array = np.array([2, 3], np.float16 if kind == "float16" else ml_dtypes.bfloat16)
    operator = "StringConcat" if kind == "string" else "Add"
    wrong = bundle(
        "y = Identity(x)",
        f"y = {operator}(x, x)",
        {"x": array},
        engine=ReferenceEngine(),
        **types,
    )
    run = repro(write_bundle(wrong, tmp_path / "b"))
    assert run.returncode == 1, run.stderr
    assert "y: 2 of 2 elements differ" in run.stdout


def test_the_first_that_fails_is_written(tmp_path):
    right, wrong, other = bundle(after="y = Sum(x, x)"), bundle(), bundle(after="y = Neg(x)")
    folder, why = write_failing(iter([right, wrong, other]), tmp_path / "b")
    assert why == ""
    assert ir.load(folder / "after.onnx").graph[0].op_type == "Mul"
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_where_none_fails_the_last_is_written_and_its_readme_says_so(tmp_path):
    right = bundle(after="y = Sum(x, x)", readme="# Title\n\nText\n")
    refused = bundle(feeds={"x": [np.ones(1, ml_dtypes.int4)]})
    folder, why = write_failing([right, refused], tmp_path / "b")
    assert why == "repro.py ends with exit code 0: the outputs agree"
    told = (folder / "README.md").read_text()
    assert told == f"# Title\n\n**This folder does not fail by itself:** {why}.\n\nText\n"


def test_a_script_that_does_not_end_or_raises_shows_nothing(tmp_path, monkeypatch):
    _, why = write_failing([bundle()], tmp_path / "a", 1e-3)
    assert why == "repro.py does not end in 0.001 seconds"
    monkeypatch.setattr(module, "_write_npz", lambda *_: None)
    _, why = write_failing([bundle()], tmp_path / "b")
    assert why.startswith("repro.py ends with exit code 1: FileNotFoundError: ")


def test_models_too_large_to_copy_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 4)
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)'
    text = head + " <float[2] c = {1, 2}> { y = Add(x, c) }"
    large = ir.from_proto(onnx.parser.parse_model(text))
    with pytest.raises(UsageError, match="weights"):
        write_bundle(Bundle(large, large, {}), tmp_path / "b")


def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write the reproducer"):
        write_bundle(bundle(), tmp_path / "file" / "b")
