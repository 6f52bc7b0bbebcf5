"""``onnx-passes tune``, through the program."""

import signal
from pathlib import Path

import onnx
import pytest

from onnx_passes.cli import supervision
from onnx_passes.tuning.loss_budget import SamplesInMemory
from tests.cli.conftest import ROOT
from tests.cli.modules import read_json
from tests.tables import each_row

DIGITS = ROOT / "examples" / "digits"
MODEL = DIGITS / "model.onnx"
TASK = f"""
reference:
  inputs: {{image: {DIGITS}/images.npy}}
  outputs: {{scores: {DIGITS}/labels.npy}}
verify:
  metrics: {{kl_divergence: [0, 0.001], accuracy: [0.98, 1]}}
tune:
  formats: [float16, int8-dynamic, int8-weights]
  objective: size
  flips: {{most: 5 %}}
"""


@pytest.fixture
def config(write):
    return write("tune.yaml", TASK)


def test_a_model_is_written_that_is_smaller_and_says_why(cli, config):
    found = cli("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json")
    assert found.code == 0, found.err
    onnx.checker.check_model("out.onnx", full_check=True)
    data = read_json("out.json")
    assert data["cost"]["chosen"] < 0.3 * data["cost"]["original"]
    assert data["gap"] <= 0.01
    others = [other for group in data["groups"] for other in group["others"].values()]
    assert others
    assert all(other["why"].startswith("not chosen, ") for other in others)
    assert {group["format"] for group in data["groups"]} <= {
        *("float32", "float16", "int8-dynamic", "int8-weights")
    }
    assert data["flips"]["at most"] <= 0.05
    assert data["flips"]["kind"].startswith("statistical")
    assert "% less; " in found.out
    assert "measured accuracy" in found.out
    assert "recording the original" in found.err


def test_culprits_of_a_format(cli, config):
    found = cli(
        *("tune", MODEL, "-c", config, "--culprits", "-s", "tune.formats=[int8-static]"),
        *("--set", "verify.metrics={snr: [38, .inf]}", "--json", "found.json"),
    )
    assert found.code == 0, found.err
    nodes = read_json("found.json")["nodes"]
    assert "must stay in float32" in found.out
    assert nodes
    assert all(name in found.out for name in nodes)


def test_there_has_to_be_data_and_a_budget(cli, write):
    config = write("t.yaml", "tune: {objective: size}\n")
    assert "there is no data" in cli("tune", MODEL, "-c", config, "-o", "o.onnx").err
    config = write("u.yaml", f"reference: {{inputs: {{image: {DIGITS}/images.npy}}}}\n")
    assert "there is no budget" in cli("tune", MODEL, "-c", config, "-o", "o.onnx").err
    config = write(
        "v.yaml", f"reference: {{data: {{files: {{image: {DIGITS}/images.npy}}}}}}\n"
    )
    assert "give reference.inputs" in cli("tune", MODEL, "-c", config, "-o", "o.onnx").err


def test_formats_and_groups_of_ones_own(cli, config):
    cli(
        *("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json"),
        *("--set", "tune.formats=[{mine: {quantize-weights: {weights: uint8, least: 1}}}]"),
        *("--set", "tune.groups={head: {nodes: ['/fc*']}}"),
    ).tells(0)
    (group,) = read_json("out.json")["groups"]
    assert (group["group"], group["format"]) == ("head", "mine")
    kinds = {t.name: t.data_type for t in onnx.load("out.onnx").graph.initializer}
    assert kinds["fc1.weight_uint8"] == onnx.TensorProto.UINT8
    assert kinds["conv2.weight"] == onnx.TensorProto.FLOAT


@each_row("""words | members
- after: [/pool/MaxPool_output_0] | ={"/fc1/Gemm", "/fc2/MatMul"}
- before: [/relu1/Relu_output_0] | ={"/conv1/Conv"}
- operators: [Conv], skip: ['/conv1*'] | ={"/conv2/Conv"}
- after: [/relu1/Relu_output_0], before: [/relu3/Relu_output_0] | ={"/conv2/Conv", "/fc1/Gemm"}
""")
def test_groups_by_region_and_operator(cli, config, words, members):
    cli(
        *("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json"),
        *("--set", "tune.formats=[int8-weights]", "--set", f"tune.groups={{g: {{{words}}}}}"),
    ).tells(0)
    (group,) = read_json("out.json")["groups"]
    original = onnx.load(MODEL).graph.node
    layers = {n.name for n in original if n.op_type in ("Conv", "Gemm", "MatMul")}
    assert layers & set(group["nodes"]) == members


def test_an_interrupt_writes_the_best_model_so_far(cli, config, monkeypatch):
    def interrupted(self, model):
        supervision.received.number = signal.SIGINT
        raise KeyboardInterrupt

    monkeypatch.setattr(SamplesInMemory, "measure", interrupted)
    found = cli("tune", MODEL, "-c", config, "-o", "out.onnx")
    found.tells(130, "out.onnx holds the best model so far")
    onnx.checker.check_model("out.onnx", full_check=True)


def test_what_is_written_is_held_against_what_was_chosen(cli, config, monkeypatch):
    monkeypatch.setattr(
        "onnx_passes.tuning.groups.read_stored_type", lambda layer, index: None
    )
    monkeypatch.setattr("onnx_passes.tuning.budget_search.audit", lambda *given: [])
    monkeypatch.setattr("onnx_passes.tuning.format_scores.audit", lambda *given: [])
    found = cli("tune", MODEL, "-c", config, "-o", "out.onnx")
    found.tells(1, "does not hold the chosen formats: /conv1/Conv")
    assert not Path("out.onnx").exists()


def test_no_report_changes_the_model_that_is_written(cli, config):
    words = ("tune", MODEL, "-c", config, "-s", "verify.metrics.kl_divergence=[0, 0.00001]")
    words += ("-s", "tune.formats=[float16, int8-static]", "-q", "-o")
    cli(*words, "plain.onnx")
    cli(*words, "told.onnx", "--json", "found.json").tells(0)
    assert Path("told.onnx").read_bytes() == Path("plain.onnx").read_bytes()
    data = read_json("found.json")
    assert data["cost"]["chosen"] == Path("plain.onnx").stat().st_size
    assert all(group["snr"] != "nan" for group in data["groups"])


def test_a_step_of_a_pipeline(cli, write):
    steps = "passes: [fuse-batch-normalization, tune]\n"
    path = write("steps.yaml", steps + TASK.replace("accuracy: [0.98, 1]", "snr: [10, .inf]"))
    found = cli(MODEL, "-c", path, "-o", "out.onnx")
    assert found.code == 0, found.err
    assert Path("out.onnx").stat().st_size < 0.5 * MODEL.stat().st_size
    assert found.err.startswith("VERIFIED")
