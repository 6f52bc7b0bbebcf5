"""``compare`` beside comparing: times, builds that are repeated, scripts to be edited."""

import json
import subprocess
import sys
from pathlib import Path

import onnx

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
    assert done.code == 0, done.err
    assert "of 3 runs, after 10 runs that do not count" in done.out
    assert "Conv /conv1/Conv by CPUExecutionProvider" in done.out
    assert "and 16 more; -v lists all" in done.out


def test_an_engine_that_tells_no_layers_says_so(cli):
    done = cli("compare", DIGITS, "--engine", "reference", "--time", "--iterations", "2")
    assert "note: reference does not tell its layers" in done.out


def test_the_state_of_a_gpu_is_told_before_and_after(cli, tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'A GPU, 1410, [N/A], 41, 63.20, 0x0000000000000000'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = cli("compare", DIGITS, "--time", "--iterations", "2")
    for when in ("before", "after"):
        assert f"GPU {when}: name A GPU, SM clock (MHz) 1410, temperature (C) 41" in done.out
    assert "memory clock" not in done.out


def test_a_tool_that_fails_is_as_none(cli, tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = cli("compare", DIGITS, "--time", "--iterations", "2")
    assert "no NVIDIA GPU says its clocks and temperature here" in done.out


def test_a_script_does_what_the_command_would(cli, tmp_path):
    words = ("--engine", "onnxruntime", "--engine", "onnxruntime{optimization=all}")
    options = (
        "--outputs",
        "scores",
        "--rtol",
        "scores:1e-3",
        "--generate",
        "seed=3,samples=2",
    )
    done = cli("compare", DIGITS, *words, *options, "--write-script", "run.py")
    assert (done.code, done.out) == (0, "wrote run.py: python run.py\n")
    command = [sys.executable, str(tmp_path / "run.py")]
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "1 value agrees in 2 samples" in again.stdout
    assert cli("compare", DIGITS, "--write-script", DIGITS).code == 2


def test_a_script_saves_what_the_command_would(cli, tmp_path):
    done = cli("compare", DIGITS, "--save-outputs", "r.zip", "--write-script", "run.py")
    assert done.code == 0
    assert not (tmp_path / "r.zip").exists()
    subprocess.run([sys.executable, "run.py"], check=True, cwd=tmp_path, capture_output=True)
    assert cli("compare", DIGITS, "--load-outputs", "r.zip").code == 0


def test_engines_keep_no_copies_of_many_weights_in_files(cli, tmp_path, monkeypatch):
    model = onnx.load(Path(__file__).parents[2] / "examples" / "digits" / "model.onnx")
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr("onnx_passes.runtime.ort.LARGE", path.stat().st_size + 1)
    assert "prepacking=off" in cli("compare", path, path).out
    assert "prepacking=off" not in cli("compare", path, path, "--time").out
    asked = cli("compare", path, path, "--engine", "onnxruntime{prepacking=true}")
    assert "prepacking=off" not in asked.out
