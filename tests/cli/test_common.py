"""What all commands share: options, suggestions, names that do no harm, faults on file."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.modules import rule_pass
from tests.tables import each_of

EVIL = "x\x1b[31mred\nnew\u202e"


@pytest.fixture
def relu(tmp_path, monkeypatch):
    """Save a model of one node, in the working folder."""
    monkeypatch.chdir(tmp_path)

    def save(name="relu.onnx", value="x", op="Relu"):
        graph = helper.make_graph(
            [helper.make_node(op, [value], ["y"], value)],
            "g",
            [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["N", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        )
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), name)
        return name

    return save


def test_quiet_leaves_results_and_errors(cli, relu):
    noted = cli("inspect", relu(), "-v")
    assert re.search(r"\d s, onnx-passes ", noted.err)
    assert cli("inspect", relu(), "-v", "-q").err == ""
    assert cli("inspect", relu(), "-q").out == noted.out
    assert cli("inspect", "none.onnx", "-q").err.startswith("error[model]")


def test_colours_are_as_asked_and_the_environment_is_left_alone(cli, relu, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    relu("a.onnx"), relu("b.onnx", op="Neg")
    assert "\x1b[" in cli("diff", "a.onnx", "b.onnx", "--color", "always").out
    assert "\x1b[" not in cli("diff", "a.onnx", "b.onnx", "--color", "never").out
    assert not {"NO_COLOR", "FORCE_COLOR"} & set(os.environ)


@each_of(
    "words",
    ["inspect", "evil.onnx", "--show", "layers"],
    ["diff", "evil.onnx", "plain.onnx"],
    ["lint", "evil.onnx"],
    ["compare", "evil.onnx", "plain.onnx"],
    ["extract", "evil.onnx", "-o", "o.onnx", "--outputs", EVIL[:4]],
    ["-c", "cleanup", "-o", "o.onnx", "evil.onnx"],
    ["explain", EVIL],
    [EVIL],
)
def test_names_reach_the_terminal_without_control_characters(cli, relu, words):
    relu("evil.onnx", EVIL), relu("plain.onnx")
    done = cli(*words)
    assert done.out + done.err
    assert not [c for c in done.out + done.err if not c.isprintable() and c != "\n"]
    assert "\nnew" not in done.out


def test_nan_against_a_number_is_not_off_by_nothing(cli, relu):
    np.savez("in.npz", x=-np.ones((1, 3), np.float32))
    done = cli("compare", relu("a.onnx"), relu("b.onnx", op="Sqrt"), "--inputs", "in.npz")
    done.prints(1, "nan is not 0")
    assert "max abs 0" not in done.out


def test_a_fault_of_ours_is_written_down(cli, relu, monkeypatch):
    def fail(words):
        raise RuntimeError(f"unforeseen {EVIL}")

    monkeypatch.setattr(sys.modules["onnx_passes.cli.main"], "_call", fail)
    done = cli("inspect", relu())
    done.tells(70, "unforeseen x\\x1b[31m")
    (file,) = re.findall(r"with (\S+\.txt),", done.err)
    text = Path(file).read_text()
    Path(file).unlink()
    assert "Traceback" in text
    assert "'inspect', 'relu.onnx'" in text


def test_numpy_without_room_for_a_temporary_file_is_no_fault_of_ours(cli, relu, monkeypatch):
    def fail(words):
        raise OSError("Not enough free space to write 9 bytes after offset 128")

    monkeypatch.setattr(sys.modules["onnx_passes.cli.main"], "_call", fail)
    cli("inspect", relu()).tells(2, "error[system]: Not enough free space", "set TMPDIR")


def test_a_working_folder_that_was_removed_is_told(cli, relu, tmp_path, monkeypatch):
    model, gone = tmp_path / relu(), tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    cli("-c", "cleanup", model).tells(2, "the working folder was removed")


def test_warnings_about_values_without_types_are_not_printed(cli, write, model, caplog):
    reshaped = "op.Reshape(x, op.Constant(value_ints=[-1, 2]))"
    write("untyped.py", rule_pass("KeepRows", "op.Identity(x)", reshaped))
    path = write("cfg.yaml", "imports: [untyped]\npasses: [keep-rows]\nreproducers: false\n")
    assert cli("-c", path, "-o", "out.onnx", model).code == 0
    assert not [record for record in caplog.records if record.name.startswith("onnx_ir")]
