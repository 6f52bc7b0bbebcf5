"""Streams that are closed, full, or read by nobody."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = f"{sys.executable} -m onnx_passes"


def shell(command, folder):
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_a_closed_stdout_is_no_obstacle_where_a_file_is_written(tmp_path, model):
    done = shell(f"{PROGRAM} -c cleanup -o out.onnx {model} >&-", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.onnx").exists()


def test_a_closed_stdout_is_told_before_the_run_where_the_model_goes_there(tmp_path, model):
    done = shell(f"{PROGRAM} -c cleanup -o - {model} >&-", tmp_path)
    assert done.returncode == 2
    assert "no standard output to print the model on" in done.stderr
    assert "-o FILE" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stdout_is_told(tmp_path, model):
    done = shell(f"{PROGRAM} -c cleanup -o - {model} >/dev/full", tmp_path)
    assert done.returncode == 2
    assert "the model cannot be printed: No space left" in done.stderr
    assert "Exception ignored" not in done.stderr


def test_names_that_the_terminal_cannot_show_are_printed_as_utf8(tmp_path):
    import onnx

    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[2] a) => (float[2] y) { y = Relu(a) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "größe"
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    command = f"PYTHONIOENCODING=ascii {PROGRAM} -q model.onnx -o - topological-sort"
    done = shell(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "größe" in done.stdout


def test_what_a_pass_prints_does_not_get_into_the_model(cli, model, write):
    write(
        "loud.py",
        """\
import onnx_ir as ir
from onnx_passes import passes
print("imported")
@passes.register()
class Loud(passes.Analysis):
    def call(self, model):
        print("at work")
        return ir.passes.PassResult(model, False)
""",
    )
    done = cli("-c", write("cfg.yaml", "imports: [loud]\npasses: [loud]\n"), "-o", "-", model)
    assert done.code == 0
    assert done.out.startswith("<")
    assert "imported" in done.err
    assert "at work" in done.err


def test_what_a_library_prints_does_not_get_into_the_model(tmp_path):
    """The checker of onnx writes about operators that were on trial, past Python's stdout."""
    import onnx

    text = """<ir_version: 4, opset_import: ["" : 8]>
    main (float[1,1,4,4] x) => (float[1,1,2,2] y) {
        k = Crop <border = [1, 1, 1, 1]> (x)
        y = Identity (k)
    }"""
    (tmp_path / "model.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    done = shell(f"{PROGRAM} -o - model.onnx", tmp_path)
    assert done.returncode == 0, done.stderr
    nodes = onnx.parser.parse_model(done.stdout).graph.node
    assert [node.op_type for node in nodes] == ["Crop"]
    assert "experimental" in done.stderr
