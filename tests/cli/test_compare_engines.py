"""``compare`` beside comparing: times, and copies of weights."""

import json
from pathlib import Path

import numpy as np
import onnx

from onnx_passes.verify.saved import read_samples
from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def told(done):
    return json.loads(done.out)


def test_times_are_told_with_percentiles_and_layers(cli):
    words = ("--time", "-e", "onnxruntime", "--iterations", "4", "--warm-up", "1", "--json")
    done = cli("compare", DIGITS, *words)
    assert done.code == 0, done.err
    (timing,) = told(done)["timings"]
    latency = timing["latency"]
    assert (latency["runs"], timing["warm_up"]) == (4, 1)
    assert 0 < latency["least"] <= latency["median"] <= latency["p90"] <= latency["most"]
    layers = {layer["name"]: layer for layer in timing["layers"]}
    assert layers["/conv1/Conv"]["kind"] == "Conv"
    assert layers["/conv1/Conv"]["how"] == "CPUExecutionProvider"
    assert all(layer["seconds"] > 0 for layer in timing["layers"])


def test_times_in_a_child_process_are_taken_there(cli):
    words = ("--engine", "onnxruntime{isolate=true}", "--time", "--iterations", "3")
    done = cli("compare", DIGITS, *words)
    done.prints(
        0,
        "of 3 runs, after 10 runs that do not count",
        "Conv /conv1/Conv by CPUExecutionProvider",
        "and 16 more; -v lists all",
    )


def test_engines_keep_no_copies_of_many_weights_in_files(cli, tmp_path, monkeypatch):
    model = onnx.load(Path(__file__).parents[2] / "examples" / "digits" / "model.onnx")
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr("onnx_passes.runtime.ort.LARGE", path.stat().st_size + 1)
    assert "prepacking=off" in cli("compare", path, path).out
    assert "prepacking=off" not in cli("compare", path, path, "--time").out
    asked = cli("compare", path, path, "--engine", "onnxruntime{prepacking=true}")
    assert "prepacking=off" not in asked.out


def save(text, opset=18):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    onnx.save(model, "model.onnx")


@each_of("opset", 10, 12, 13, 18)
def test_the_reference_runs_quantisers_of_old_opsets(cli, opset):
    save(
        """g (float[N,4] x) => (float[N,4] y) <float s = {0.125},
        uint8 z = {3}, int32[4] b = {9, -700, 5, 80}> {
          q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) c = DequantizeLinear(b, s)
          y = Add(d, c) }""",
        opset,
    )
    found = cli("compare", "model.onnx", "-e", "onnxruntime", "-e", "reference")
    found.prints(0, "agrees  y: max abs 0")


def test_sizes_of_one_input_are_those_of_the_dimensions_it_shares(cli):
    save("""g (int64[b,s] ids, int64[b,s] mask, float[s] w) => (int64[b,s] y, float[s] v)
        { y = Add(ids, mask) v = Neg(w) }""")
    cli(
        "compare", "model.onnx", "--generate", "shape=ids:2x7", "--save-inputs", "in.json"
    ).tells(0)
    for sample in read_samples("in.json"):
        assert {n: v.shape for n, v in sample.items()} == {
            "ids": (2, 7),
            "mask": (2, 7),
            "w": (7,),
        }


def test_an_engine_that_hides_what_overflows_says_so(cli):
    save("""g (float16[n,4] x) => (float16[n,4] y) { a = Mul(x, x) b = Mul(a, a) c = Sqrt(b)
        y = Sqrt(c) }""")
    np.save("x.npy", np.full((2, 4), 300, np.float16))
    words = ("compare", "model.onnx", "--inputs", "x.npy", "--validate")
    hidden, shown = (
        cli(*words, "-e", e) for e in ("onnxruntime{optimization=all}", "onnxruntime")
    )
    assert (hidden.code, shown.code) == (0, 1)
    assert "-e onnxruntime rounds each" in hidden.out
    assert "rounds each" not in shown.out
    both = ("-e", "onnxruntime{optimization=all}", "-e", "onnxruntime", "--data", "x.npy")
    assert "-e onnxruntime rounds each" in cli("compare", "model.onnx", *both).out
