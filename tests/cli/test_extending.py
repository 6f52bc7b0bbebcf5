"""Pipelines that build on others: from a file, and from the command line."""

import json
from pathlib import Path

import pytest

from onnx_passes.configs.pipeline_files import load_config, shipped_configs
from onnx_passes.configs.resolve import format_pipeline, resolve
from onnx_passes.model.load import load_model
from tests.tables import each_of

OWN = """\
import onnx_ir as ir
from onnx_passes import passes
@passes.register()
class MyPass(passes.Analysis):
    def call(self, model):
        return ir.passes.PassResult(model, False)
"""


def pipeline(name):
    return format_pipeline(resolve(load_config(name)))


@pytest.fixture
def check(cli, write):
    """Write a pipeline file; return what ``config check`` says of it."""

    def call(text):
        write("own.py", OWN)
        return cli("config", "check", write("cfg.yaml", text))

    return call


@each_of("name", *shipped_configs())
def test_what_is_shown_is_a_file_that_runs_the_same(cli, write, name):
    shown = cli("config", "show", name)
    assert shown.code == 0
    write("copy.yaml", shown.out)
    assert cli("config", "check", "copy.yaml").out == cli("config", "check", name).out
    assert max(map(len, shown.out.splitlines())) < 100
    assert cli("config", "show", "copy.yaml").out == shown.out


def test_a_shipped_pipeline_stands_for_its_steps(check):
    done = check("imports: [own]\npasses: [optimize, my-pass]\n")
    assert done.code == 0, done.err
    assert done.out == f"{pipeline('optimize')},my-pass\n"


def test_a_misspelt_pipeline_among_the_steps_is_recognised(check):
    check("passes: [optimise]\n").tells(2, "did you mean the shipped pipeline 'optimize'?")


def test_every_file_is_checked_and_named(cli, write):
    for name, step in ("a", "eliminate-identity"), ("b", "nope-b"), ("c", "nope-c"):
        write(f"{name}.yaml", f"passes: [{step}]\n")
    write("d.yaml", "passes: [remove-unused-nodes]\n")
    done = cli("config", "check", "a.yaml", "b.yaml", "c.yaml", "d.yaml")
    done.tells(2, "'nope-b'", "b.yaml:1:10", "'nope-c'", "c.yaml:1:10")
    assert done.out == "a.yaml: eliminate-identity\nd.yaml: remove-unused-nodes\n"


def test_a_pipeline_is_extended_with_its_engines_and_settings(cli, write):
    text = "extends: tensorrt\nverify: {scope: model}\npasses: [remove-unused-nodse]\n"
    path = write("cfg.yaml", text)
    cli("config", "check", path).tells(2, "cfg.yaml:3:10")
    write("cfg.yaml", text.replace("nodse", "nodes"))
    config = load_config(path)
    assert [use.name for use in config.engines] == ["onnxruntime", "tensorrt-rtx"]
    assert config.verify.scope == "model"
    assert pipeline(path) == f"{pipeline('tensorrt')},remove-unused-nodes"
    assert "extends" not in cli("config", "show", path).out
    write("cfg.yaml", "extends: tensorrt\nengines: [reference]\n")
    assert [use.name for use in load_config(path).engines] == ["reference"]


def test_passes_are_left_out_wherever_they_stand(check):
    done = check("passes: [optimize]\nskip: [fuse-gelu, inline-functions, eliminate]\n")
    done.prints(0, "{fuse-all: {exclude: [fuse-gelu]}}")
    assert "inline-functions" not in done.out
    assert "eliminate-identity" not in done.out
    assert "shape-inference" in done.out


def test_passes_are_left_out_on_the_command_line_as_well(cli, model, write):
    path = write("cfg.yaml", "passes: [optimize]\nskip: [inline-functions]\n")
    words = ["--skip", "eliminate-identity", "--skip", "topological-sort", "--json", "r.json"]
    assert cli("-c", path, *words, model).code == 0
    ran = {each["name"] for each in json.loads(Path("r.json").read_text())["passes"]}
    assert not ran & {"inline-functions", "eliminate-identity"}
    assert "fuse-all" in ran


@each_of("name", "cleanup", "lower", "streamline")
def test_a_name_that_means_two_things_is_noted(cli, model, write, name):
    done = cli("-c", write("cfg.yaml", f"passes: [{name}]\n"), model)
    assert f"note: {name!r} among the steps is the group of" in done.err
    assert "note:" not in cli("-c", name, model).err


def test_a_preset_is_explained_by_its_file(cli):
    assert "Makes a model smaller and faster" in cli("explain", "optimize").out
    assert "cleanup" in cli("explain", "cleanup").out  # the passes of the group


@pytest.fixture
def chain(write):
    write(
        "chain.onnxtxt",
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w)
        { a = Relu(x) b = Relu(a) i = Identity(b) y = Neg(i) j = Identity(z) w = Exp(j) }""",
    )
    return "chain.onnxtxt"


def operators(path):
    return [(node.op_type, node.outputs[0].name) for node in load_model(path).model.graph]


@each_of("words", [], ["--no-verify"])
def test_a_node_that_must_stay_stays(cli, chain, words):
    done = cli(chain, "-o", "out.onnxtxt", "--keep", "i", "-v", *words)
    assert done.code == 0, done.err
    found = operators("out.onnxtxt")
    assert ("Identity", "i") in found
    assert not {("Identity", "j"), ("Relu", "a"), ("Relu", "b")} <= set(found)
    assert ("Identity", "j") not in found
    assert "left out 1 rewrite, to keep i" in " ".join((done.out + done.err).split())


def test_a_pass_without_rewrites_that_removes_a_node_that_must_stay_is_left_out(cli, write):
    write("cfg.yaml", "passes: [fold-constants]\nkeep: [n]\n")
    write(
        "folded.onnxtxt",
        """<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (float[4] y)
        <float[4] c = {1, 2, 3, 4}> { n = Neg(c) y = Add(x, n) }""",
    )
    done = cli("-c", "cfg.yaml", "-o", "out.onnxtxt", "folded.onnxtxt")
    assert done.code == 0, done.err
    assert ("Neg", "n") in operators("out.onnxtxt")
    assert "pass 'fold-constants' was left out, to keep n" in " ".join(
        (done.out + done.err).split()
    )
