"""Outputs of batches are joined by sample, whatever their form."""

import os
from dataclasses import replace

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data import evaluation_job
from onnx_passes.data.dataset import Shard, make_plan
from onnx_passes.data.demand import Demand, RunOutcome
from onnx_passes.data.evaluation_job import (
    DataJob,
    EngineChoice,
    ModelFile,
    OutputBlocks,
    RunSpec,
)
from onnx_passes.data.input_binding import Binding, DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures, PairState
from onnx_passes.data.workers import Pool
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.model.load import load_model
from tests.tables import each_of

COUNT = 50
X = np.arange(COUNT * 3, dtype=np.float32).reshape(COUNT, 3)
SHARD = Shard(np.arange(COUNT), None, {"x": X}, Binding({"x": "x"}, None, True, 4, True))


class Seen(PairState):
    def __init__(self):
        super().__init__(Measures())
        self.blocks = []

    def update(self, block):
        self.blocks.append(block)
        super().update(block)


def collect(shard, *models):
    state = Seen()
    made = OutputBlocks([state], shard)
    for batches in shard.batches(lambda: made.many):
        made.add(batches, [[model(feeds["x"]) for feeds in batches.feeds] for model in models])
    made.flush()
    return state


def seen(state):
    rows = np.concatenate([block.rows for block in state.blocks])
    return rows, [np.asarray(v) for block in state.blocks for v in block.left["y"]]


def double(x):
    return {"y": x * 2}


@each_of("batch", 1, 4, 7, 64)
@each_of("room", 1, 100, 16 << 20)
def test_each_sample_gets_its_own_output(monkeypatch, batch, room):
    monkeypatch.setattr(evaluation_job, "FLUSH_BYTES", room)
    shard = replace(SHARD, binding=replace(SHARD.binding, batch=batch))
    rows, values = seen(collect(shard, double))
    assert rows.tolist() == list(range(COUNT))
    assert np.array_equal(values, X * 2)


def test_outputs_without_the_axis_of_samples_are_stacked_if_a_batch_has_one():
    shard = replace(SHARD, binding=replace(SHARD.binding, batch=1))
    rows, values = seen(collect(shard, lambda x: {"y": x.sum()[None, None]}))
    assert rows.tolist() == list(range(COUNT))
    assert np.array_equal(np.ravel(values), X.sum(axis=1))


def test_a_batch_without_that_axis_cannot_be_divided():
    with pytest.raises(EngineError, match="no first axis of 4 samples"):
        collect(SHARD, lambda x: {"y": x.sum(axis=0)})


def test_an_output_that_is_no_tensor_cannot_be_measured():
    with pytest.raises(EngineError, match="not a tensor"):
        collect(SHARD, lambda x: {"y": [x]})


def test_shapes_and_types_may_change_from_batch_to_batch():
    def odd(x):
        wide = int(x[0, 0]) % 24 < 12
        return {"y": np.tile(x, (1, 2)) if wide else x.astype(np.float64)}

    rows, values = seen(collect(SHARD, odd))
    assert rows.tolist() == list(range(COUNT))
    for row, value in zip(rows, values, strict=True):
        first = row - row % 4
        assert np.array_equal(value, odd(X[first : first + 4])["y"][row % 4])


def test_an_output_may_be_missing_on_one_side():
    state = collect(SHARD, lambda x: {"y": x, "z": x}, double)
    assert state.finish()["missing"] == {"z is missing": COUNT}


def test_labels_of_several_shapes_are_never_joined():
    labels = [np.zeros((2 if row < 20 else 3,), np.int64) for row in range(COUNT)]
    shard = replace(SHARD, labels=labels)
    state = collect(shard, lambda x: {"y": x[:, None].repeat(2 if x[0, 0] < 60 else 3, 1)})
    assert sorted({block.labels.shape[1] for block in state.blocks}) == [2, 3]
    assert sum(len(block.rows) for block in state.blocks) == COUNT


def test_labels_of_one_batch_that_differ_are_an_error():
    labels = [np.zeros((2 if row < 18 else 3,), np.int64) for row in range(COUNT)]
    with pytest.raises(ReferenceDataError, match="labels"):
        collect(replace(SHARD, labels=labels), double)


# A shard that kills its worker is found, and only that one is left out.


MODULE = """
import os, signal
def prepare(sample):
    if int(sample["label"]) == 99 and os.environ.get("KILLED_BY_DATA") != str(os.getpid()):
        os.kill(os.getpid(), signal.SIGKILL)
    return sample
"""


def test_only_a_shard_that_kills_is_left_out(tmp_path, monkeypatch, save_classifier, samples):
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
