"""What a cluster can do to a run: lack files, lose its scheduler, differ in processors."""

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data import evaluation_job
from onnx_passes.data import workers as module
from onnx_passes.data.dataset import make_plan
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.measures import Measures
from onnx_passes.data.workers import WorkersGoneError, make_dask
from onnx_passes.errors import EngineUnavailableError, UsageError
from onnx_passes.model.load import load_model

pytestmark = [
    pytest.mark.usefixtures("cluster_is_collected"),
    # distributed leaves the sockets of what went away to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def job(tmp_path, save_classifier, samples):
    x, y = samples(64)
    np.savez(tmp_path / "data.npz", x=x, label=y)
    path = save_classifier("a.onnx")
    runs = (RunSpec(0, EngineChoice("onnxruntime", {}), "a"),)
    spec = DataSpec((str(tmp_path / "data.npz"),), shard=16)
    plan = make_plan(spec, DataInterface.of(load_model(path).model))
    return DataJob(plan, (ModelFile.of(path),), runs, Measures())


def test_workers_that_lack_a_model_are_found_before_the_first_shard(
    job, tmp_path, start_cluster
):
    cluster = start_cluster(1)
    assert module.missing_models(job.to_text()) == []
    (tmp_path / "a.onnx").write_bytes(b"another model")
    executor = make_dask(cluster.scheduler_address)
    try:
        with pytest.raises(EngineUnavailableError, match=r"do not find .*a\.onnx"):
            executor.start(job)
    finally:
        executor.close()


def test_a_scheduler_that_goes_away_ends_the_run_in_one_sentence(job, start_cluster):
    cluster = start_cluster(1)
    executor = make_dask(cluster.scheduler_address)
    try:
        executor.start(job)
        executor.submit(0)
        assert "pairs" in executor.collect()
        cluster.sync(cluster.scheduler.close)
        executor._running.clear()
        with pytest.raises(WorkersGoneError, match="is gone"):
            executor.collect()
    finally:
        executor.close()


def outcome(cpu):
    return {"worker": {"cpu": cpu}}


def test_other_processors_are_told_and_refused_for_8_bits(job, monkeypatch):
    mixed = evaluation_job.WorkerProcessors(job, allow_mixed=False)
    for cpu in ("a", "a", "b"):
        mixed.accept(outcome(cpu))
    assert "different processors" in mixed.notes[0]
    monkeypatch.setattr(evaluation_job, "uses_int8", lambda model: True)
    strict = evaluation_job.WorkerProcessors(job, allow_mixed=False)
    strict.accept(outcome("a"))
    with pytest.raises(UsageError, match="--mixed-cpus"):
        strict.accept(outcome("b"))
    evaluation_job.WorkerProcessors(job, allow_mixed=True).accept(outcome("b"))
    assert evaluation_job.WorkerProcessors(job, allow_mixed=True).notes == []
