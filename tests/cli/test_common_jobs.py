"""What people type first: the common jobs, and the near misses."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import onnx

from tests.tables import each_of


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def names(path):
    return [each["name"] for each in json.loads(Path(path).read_text())["passes"]]


@each_of("words", ("-o", "out.onnx"), ("out.onnx",))
def test_a_model_and_an_output_are_enough(cli, model, words):
    cli(model, *words, "--json", "r.json").tells(0)
    assert operators("out.onnx") == ["Add", "Relu"]
    assert {"fuse-all", "remove-inferred-shapes"} <= set(names("r.json"))


def test_an_output_in_place_is_not_written_over_without_its_option(cli, model):
    Path("out.onnx").write_text("old")
    cli(model, "out.onnx").tells(2, "write -o out.onnx to replace it")
    assert Path("out.onnx").read_text() == "old"
    assert cli(model, "-o", "out.onnx").code == 0


def test_without_passes_the_model_is_copied(cli, model):
    assert cli(model, "-o", "copy.onnx", "--no-passes").code == 0
    assert operators("copy.onnx") == operators(model)
    assert cli(model, "--no-passes", "-c", "cleanup").code == 2
    assert cli(model, "--no-passes", "eliminate-identity").code == 2


def test_without_an_output_nothing_but_a_summary_is_printed(cli, model):
    done = cli(model)
    assert done.code == 0
    assert not done.out
    assert "3 → 2 (-33.3 %)" in done.err
    assert [path.name for path in Path().iterdir()] == ["model.onnx"]


def test_a_terminal_gets_no_weights(tmp_path, model):
    ours, its = pty.openpty()
    words = [sys.executable, "-m", "onnx_passes", str(model), "-o", "-"]
    done = subprocess.run(words, stdout=its, stderr=subprocess.PIPE, cwd=tmp_path, text=True)
    os.close(its)
    os.close(ours)
    assert done.returncode == 2
    assert "a terminal is no place to print the model on" in done.stderr


def test_dimensions_are_fixed_before_the_passes_run(cli, model):
    cli(model, "-o", "out.onnx", "--dims", "N=3", "--json", "r.json").tells(0)
    assert names("r.json")[0] == "freeze-dims{dims={N: 3}}"
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3
    assert json.loads(Path("r.json").read_text())["reference"]["samples"] > 1


def test_help_and_version_are_words_as_well(cli):
    assert "Usage: onnx-passes" in cli("help").out
    assert "Usage: onnx-passes list" in cli("help", "list").out
    assert "version" in cli("version").out


@each_of("words", (), ("run",), ("inspect",), ("config",))
def test_without_words_the_help_stands_alone(cli, words):
    done = cli(*words)
    assert done.code == 2
    assert done.err.startswith("Usage:")
    assert "error[usage]" not in done.err
