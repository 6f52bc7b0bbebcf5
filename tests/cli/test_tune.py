"""``onnx-passes tune``, through the program."""

import json
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_passes.cli import supervision
from onnx_passes.tuning.loss_budget import SamplesInMemory
from tests.cli.conftest import ROOT

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
    with open("out.json") as file:
        data = json.load(file)
    assert data["cost"]["chosen"] < 0.3 * data["cost"]["original"]
    assert data["gap"] <= 0.01
    others = [other for group in data["groups"] for other in group["others"].values()]
    assert others
    assert all(other["why"].startswith("not chosen, ") for other in others)
    assert {group["format"] for group in data["groups"]} <= {
        *("float32", "float16", "int8-dynamic", "int8-weights"),
    }
    assert data["flips"]["at most"] <= 0.05
    assert data["flips"]["kind"].startswith("statistical")
    assert "% less; " in found.out
    assert "measured accuracy" in found.out
    assert "recording the original" in found.err


def test_a_record_explains_nodes_and_is_gone_on_from(cli, config):
    words = ("tune", MODEL, "-c", config, "-o", "out.onnx", "--record", "search", "-q")
    first = cli(*words)
    again = cli(*words)
    assert (first.code, again.code) == (0, 0)
    assert first.out == again.out
    told = cli("tune", MODEL, "-c", config, "--record", "search", "--explain", "/conv1/Conv")
    assert told.code == 0
    assert "int8-dynamic: refused, quantize-dynamic changes nothing in it" in told.out
    assert "chosen" in told.out


def test_culprits_of_a_format(cli, config):
    found = cli(
        *("tune", MODEL, "-c", config, "--culprits", "-s", "tune.formats=[int8-static]"),
        *("--set", "verify.metrics={snr: [38, .inf]}", "--json", "found.json"),
    )
    assert found.code == 0, found.err
    with open("found.json") as file:
        nodes = json.load(file)["nodes"]
    assert "must stay in float32" in found.out
    assert nodes
    assert all(name in found.out for name in nodes)


def test_there_has_to_be_data_and_a_budget(cli, write):
    config = write("t.yaml", "tune: {objective: size}\n")
    assert "there is no data" in cli("tune", MODEL, "-c", config, "-o", "o.onnx").err
    config = write("u.yaml", f"reference: {{inputs: {{image: {DIGITS}/images.npy}}}}\n")
    assert "there is no budget" in cli("tune", MODEL, "-c", config, "-o", "o.onnx").err


def test_formats_and_groups_of_ones_own(cli, config):
    found = cli(
        *("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json"),
        *("--set", "tune.formats=[{mine: {quantize-weights: {weights: uint8, least: 1}}}]"),
        *("--set", "tune.groups={head: {nodes: ['/fc*']}}"),
    )
    assert found.code == 0, found.err
    with open("out.json") as file:
        (group,) = json.load(file)["groups"]
    assert (group["group"], group["format"]) == ("head", "mine")
    kinds = {t.name: t.data_type for t in onnx.load("out.onnx").graph.initializer}
    assert kinds["fc1.weight_uint8"] == onnx.TensorProto.UINT8
    assert kinds["conv2.weight"] == onnx.TensorProto.FLOAT


@pytest.mark.parametrize(
    ("words", "members"),
    [
        ("after: [/pool/MaxPool_output_0]", {"/fc1/Gemm", "/fc2/MatMul"}),
        ("before: [/relu1/Relu_output_0]", {"/conv1/Conv"}),
        ("operators: [Conv], skip: ['/conv1*']", {"/conv2/Conv"}),
        (
            "after: [/relu1/Relu_output_0], before: [/relu3/Relu_output_0]",
            {"/conv2/Conv", "/fc1/Gemm"},
        ),
    ],
)
def test_groups_by_region_and_operator(cli, config, words, members):
    found = cli(
        *("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json"),
        *("--set", "tune.formats=[int8-weights]", "--set", f"tune.groups={{g: {{{words}}}}}"),
    )
    assert found.code == 0, found.err
    with open("out.json") as file:
        (group,) = json.load(file)["groups"]
    original = onnx.load(MODEL).graph.node
    layers = {n.name for n in original if n.op_type in ("Conv", "Gemm", "MatMul")}
    assert layers & set(group["nodes"]) == members


def test_an_interrupt_writes_the_best_model_so_far(cli, config, monkeypatch):
    def interrupted(self, model):
        supervision.received.number = signal.SIGINT
        raise KeyboardInterrupt

    monkeypatch.setattr(SamplesInMemory, "measure", interrupted)
    found = cli("tune", MODEL, "-c", config, "-o", "out.onnx")
    assert found.code == 130
    assert "out.onnx holds the best model so far" in found.err
    onnx.checker.check_model("out.onnx", full_check=True)


def test_what_is_written_is_held_against_what_was_chosen(cli, config, monkeypatch):
    from onnx_passes.tuning import search_record

    save = search_record.save

    def faulty(found, path, source):
        for value in found.model.graph.initializers.values():
            if value.name == "fc1.weight_scale":
                value.const_value = type(value.const_value)(value.const_value.numpy() * 2)
        save(found, path, source)

    monkeypatch.setattr(search_record, "save", faulty)
    found = cli("tune", MODEL, "-c", config, "-o", "out.onnx")
    assert found.code == 1
    assert "does not hold the chosen formats: /fc1/Gemm" in found.err
    with pytest.raises(FileNotFoundError):
        np.fromfile("out.onnx")


STREAMED = TASK.replace(
    f"""inputs: {{image: {DIGITS}/images.npy}}
  outputs: {{scores: {DIGITS}/labels.npy}}""",
    f"data: {{files: {{image: {DIGITS}/images.npy, label: {DIGITS}/labels.npy}}, shard: 50}}",
)


def test_a_data_set_is_streamed_by_any_workers(cli, write):
    config = write("stream.yaml", STREAMED)
    found = {}
    for workers in ((), ("--jobs", "2")):
        words = ("tune", MODEL, "-c", config, "-o", "out.onnx", "--json", "out.json", "-q")
        told = cli(*words, *workers)
        assert told.code == 0, told.err
        with open("out.json") as file:
            found[workers] = json.load(file) | {"seconds": 0}
    one, two = found.values()
    assert one == two
    assert one["data"]["samples"] == 400
    assert one["cost"]["chosen"] < 0.3 * one["cost"]["original"]
    assert one["work"]["whole model"] == len(one["tried"]) + 1 == 2
    assert 0.98 <= one["values"]["accuracy"] < 1


def test_a_killed_search_goes_on_by_its_shards(cli, write):
    config = write("stream.yaml", STREAMED)
    words = ("tune", MODEL, "-c", config, "-o", "out.onnx", "--record", "search", "-q")
    assert cli(*words).code == 0
    journals = sorted(Path("search/shards").glob("*.journal"))
    assert len(journals) == 2  # of the original, and of the model that was chosen
    before = [path.read_bytes() for path in journals]
    first = Path("out.onnx").read_bytes()
    half = before[0][: len(before[0]) // 2]
    journals[0].write_bytes(half)
    assert cli(*words).code == 0
    assert Path("out.onnx").read_bytes() == first
    assert [path.read_bytes() for path in journals] == before


def test_options_name_a_data_set(cli, write):
    config = write(
        "t.yaml", "verify: {metrics: {accuracy: [0.98, 1]}}\ntune: {formats: [float16]}"
    )
    data = ("--data", f"image={DIGITS}/images.npy", f"truth={DIGITS}/labels.npy")
    words = (
        "tune",
        MODEL,
        "-c",
        config,
        "-o",
        "out.onnx",
        *data,
        "--set",
        "tune.objective=size",
    )
    found = cli(*words, "--labels", "truth", "--limit", "100", "--batch", "20")
    assert found.code == 0, found.err
    assert "measured on 100 samples" in found.out
    found = cli(*words)
    assert found.code == 2
    assert "the metric 'accuracy' needs labels" in found.err


def test_a_part_that_cannot_be_evaluated_ends_the_search(cli, write):
    labels = np.load(DIGITS / "labels.npy").astype(np.float32)
    labels[321] = np.nan
    np.save("labels.npy", labels)
    text = STREAMED.replace(f"{DIGITS}/labels.npy", "labels.npy")
    found = cli("tune", MODEL, "-c", write("t.yaml", text), "-o", "out.onnx")
    assert found.code == 5
    assert "samples 300 to 349" in found.err
    assert not Path("out.onnx").exists()


def test_no_report_changes_the_model_that_is_written(cli, config):
    words = ("tune", MODEL, "-c", config, "-s", "verify.metrics.kl_divergence=[0, 0.00001]")
    words += ("-s", "tune.formats=[float16, int8-static]", "-q", "-o")
    cli(*words, "plain.onnx")
    reports = ("--record", "found", "--json", "found.json")
    found = cli(*words, "told.onnx", *reports)
    assert found.code == 0, found.err
    assert Path("told.onnx").read_bytes() == Path("plain.onnx").read_bytes()
    data = json.loads(Path("found.json").read_text())
    assert data["cost"]["chosen"] == Path("plain.onnx").stat().st_size
    assert all(group["snr"] != "nan" for group in data["groups"])


def test_a_step_of_a_pipeline(cli, write):
    steps = "passes: [fuse-batch-normalization, tune]\n"
    path = write("steps.yaml", steps + TASK.replace("accuracy: [0.98, 1]", "snr: [10, .inf]"))
    found = cli(MODEL, "-c", path, "-o", "out.onnx")
    assert found.code == 0, found.err
    assert Path("out.onnx").stat().st_size < 0.5 * MODEL.stat().st_size
    assert found.err.startswith("VERIFIED")
