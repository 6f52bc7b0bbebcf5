"""A shard that kills its worker is found, and only that one is left out."""

import os

import numpy as np

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.dataset import make_plan
from onnx_passes.data.demand import Demand, RunOutcome
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.workers import Pool
from onnx_passes.model.load import load_model

MODULE = """
import os, signal
def prepare(sample):
    if int(sample["label"]) == 99 and os.environ.get("KILLED_BY_DATA") != str(os.getpid()):
        os.kill(os.getpid(), signal.SIGKILL)
    return sample
"""


def test_only_the_shard_that_kills_is_left_out(
    tmp_path, monkeypatch, save_classifier, samples
):
    x, y = samples(80)
    y[41] = 99
    np.savez(tmp_path / "data.npz", x=x, label=y)
    (tmp_path / "killing.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILLED_BY_DATA", str(os.getpid()))
    a, b = save_classifier("a.onnx"), save_classifier("b.onnx")
    spec = DataSpec((str(tmp_path / "data.npz"),), shard=10, prepare="killing:prepare")
    plan = make_plan(spec, DataInterface.of(load_model(a).model))
    engine = EngineChoice("onnxruntime", {})
    runs = tuple(RunSpec(i, engine, name) for i, name in enumerate("ab"))
    job = DataJob(plan, (ModelFile.of(a), ModelFile.of(b)), runs, Measures())
    result = evaluate(job, Demand(), Pool(2))
    counts = result.data["counts"]
    (entry,) = counts["left_out"]
    assert (entry["shard"], counts["evaluated"]) == (4, 70)
    assert "out of memory" in entry["reason"]
    assert result.outcome is RunOutcome.INCOMPLETE
    assert result.timing.retries == 2
