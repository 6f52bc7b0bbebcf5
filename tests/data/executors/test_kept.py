"""Workers that stay from one job to the next: the same results, and no sessions left over."""

import json

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import make_plan
from onnx_passes.data.workers import InProcess, KeptExecutor, Pool, make_dask
from onnx_passes.model.load import load_model


class UntilOneFails(Demand):
    def enough(self, states):
        return any(state.failing for state in states)


@pytest.fixture
def jobs(tmp_path, save_classifier, samples):
    """Three jobs: a classifier against worse and worse ones."""
    x, y = samples(200)
    np.savez(tmp_path / "data.npz", x=x, label=y)
    files = [ModelFile.of(save_classifier(f"{n}.onnx", n / 10)) for n in range(4)]
    spec = DataSpec((str(tmp_path / "data.npz"),), shard=20)
    plan = make_plan(spec, DataInterface.of(load_model(files[0].path).model))
    engine = EngineChoice("onnxruntime", {})
    runs = (RunSpec(0, engine, "a"), RunSpec(1, engine, "b"))
    return [DataJob(plan, (files[0], other), runs, Measures()) for other in files[1:]]


@pytest.mark.parametrize("make", [InProcess, lambda: Pool(2), lambda: make_dask("local:1")])
def test_jobs_one_after_the_other_give_what_each_gives_alone(jobs, make, cluster_is_collected):
    kept = KeptExecutor(make())
    try:
        # Each run but the first ends early, with shards under way.
        found = [evaluate(job, UntilOneFails(), kept).text() for job in (*jobs, jobs[0])]
    finally:
        kept.end()
    assert found[:3] == [evaluate(job, UntilOneFails(), InProcess()).text() for job in jobs]
    assert found[3] == found[0]
    assert json.loads(found[0])["counts"]["evaluated"] == 20
