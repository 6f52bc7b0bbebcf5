"""The shipped pipelines on real architectures, as a user runs them: by the command line."""

import json
import subprocess
import sys

import pytest

from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.model.load import load_model
from tests.corpus.backend_models import ids, load
from tests.corpus.examine import interface_changes
from tests.tables import each_of


def onnx_passes(*words):
    command = [sys.executable, "-m", "onnx_passes", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_nine_are_there():
    assert len(ids("real")) == 9


ALIKE = {"densenet121", "inception_v2", "vgg19", "zfnet512"}
"""Networks of the layers and connections that the others have: more of them, or wider."""
MODELS = [
    pytest.param(i, marks=pytest.mark.slow if i.removeprefix("real/test_") in ALIKE else ())
    for i in ids("real")
]


@pytest.mark.timeout(600)
@each_of("config", "optimize", pytest.param("cleanup", marks=pytest.mark.slow))
@each_of("model_id", *MODELS)
def test_a_light_model_comes_out_verified(config, model_id, tmp_path, corpus_log):
    source, target = load(model_id).path, tmp_path / "out.onnx"
    told = tmp_path / "report.json"
    done = onnx_passes("-c", config, "-o", target, "--json", told, source)

    assert done.returncode == 0, done.stderr
    report = json.loads(told.read_text())
    assert report["exit_code"] == 0
    assert report["not_verified"] == []
    assert {e["details"]["engine"] for e in report["engines"]} == {"onnxruntime"}
    assert report["reference"]["samples"] > 0
    assert all(p["verdict"] in ("passed", "unchanged") for p in report["passes"])
    assert all(check["verdict"] in ("passed", "unchanged") for check in report["final"])
    before, after = load_model(source).model, load_model(target).model
    assert not interface_changes(before, after, load_config(config))
    if config != "cleanup":  # which gives nodes names
        assert target.stat().st_size <= 1.01 * source.stat().st_size
    nodes = [report[moment]["nodes"] for moment in ("before", "after")]
    assert nodes == [len(before.graph), len(after.graph)]

    name = model_id.partition("/test_")[2]
    corpus_log(
        f"{config} by the command line", f"{name}: {nodes[0]} -> {nodes[1]} nodes", name
    )
