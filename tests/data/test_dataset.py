import math
import shutil

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.dataset import DataSet, Order, make_plan
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.measures import Measures
from onnx_passes.errors import ReferenceDataError
from tests.tables import each_of


def interface(batch="N", width=8, dtype="float32"):
    return DataInterface({"x": (batch, width)}, {"x": dtype}, (), ("scores",))


@pytest.fixture
def folder(tmp_path, samples):
    x, y = samples(50)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "a.npz", x=x[:30], label=y[:30])
    np.savez(tmp_path / "data" / "b.npz", x=x[30:], label=y[30:])
    return tmp_path / "data"


def test_a_plan_is_the_same_in_another_folder_and_through_json(folder, tmp_path):
    plan = make_plan(DataSpec((str(folder),), shuffle=3), interface())
    shutil.copytree(folder, tmp_path / "copy")
    other = make_plan(DataSpec((str(tmp_path / "copy"),), shuffle=3), interface())
    assert plan.digest == other.digest
    job = DataJob(
        plan,
        (ModelFile("m", "/m.onnx", "0", ("m.onnx",)),),
        (RunSpec(0, EngineChoice("reference", {"opset": [1, 2.5]}), "m"),),
        Measures(rtol=math.inf, overrides={"y": (1e-3, None)}, metrics=("psnr",)),
    )
    assert DataJob.from_text(job.to_text()) == job


@each_of("change", {"shuffle": 4}, {"limit": 20}, {"batch": 2}, {"shard": 10})
def test_what_changes_the_shards_changes_the_plan(folder, change):
    plan = make_plan(DataSpec((str(folder),)), interface())
    assert make_plan(DataSpec((str(folder),), **change), interface()).digest != plan.digest


def test_a_limit_takes_the_start_of_the_order(folder):
    plan = make_plan(DataSpec((str(folder),), shuffle=1, limit=20), interface())
    rows = DataSet(plan).shard(0).rows
    whole = make_plan(DataSpec((str(folder),), shuffle=1), interface())
    every = DataSet(whole).shard(0).rows
    assert plan.used == 20
    assert np.array_equal(rows, every[:20])


def test_a_fixed_batch_is_filled_up_with_the_last_sample(folder):
    plan = make_plan(DataSpec((str(folder),)), interface(batch=16))
    batches = list(DataSet(plan).shard(0).batches())
    assert [b.feeds[0]["x"].shape[0] for b in batches] == [16] * 4
    assert [(b.size, b.filled) for b in batches][-1] == (2, 14)
    last = batches[-1].feeds[0]["x"]
    assert np.array_equal(last[1:], np.repeat(last[1:2], 15, 0))


def test_samples_of_several_shapes_are_never_in_one_batch(tmp_path):
    for number, length in enumerate([3, 3, 4, 4, 4, 3]):
        np.savez(tmp_path / f"{number}.npz", x=np.zeros((length, 2), np.float32))
    free = DataInterface({"x": ("N", "L", 2)}, {"x": "float32"}, (), ("y",))
    plan = make_plan(DataSpec((str(tmp_path),), batch=4), free)
    shapes = [b.feeds[0]["x"].shape[:2] for b in DataSet(plan).shard(0).batches()]
    assert shapes == [(2, 3), (2, 4), (1, 4), (1, 3)]


@each_of(
    "spec, inputs, message",
    ({"columns": {"z": "x"}}, {}, "no input 'z'"),
    ({"columns": {"x": "z"}}, {}, "no column 'z' for input 'x'"),
    ({"labels": "z"}, {}, "no column 'z' for the labels"),
    ({"batch": 3}, {"batch": 2}, "the model demands 2"),
    ({}, {"width": 9}, r"has shape \[8\], and the model needs \[9\]"),
    ({}, {"dtype": "float16"}, "is given float32, and the model needs float16"),
)
def test_what_does_not_fit_is_told_before_the_run(folder, spec, inputs, message):
    with pytest.raises(ReferenceDataError, match=message):
        make_plan(DataSpec((str(folder),), **spec), interface(**inputs))


def test_other_ranks_are_told(folder):
    deep = DataInterface({"x": ("N", 1, 2, 8)}, {"x": "float32"}, (), ("y",))
    with pytest.raises(ReferenceDataError, match="has 2 axes"):
        make_plan(DataSpec((str(folder),)), deep)


def test_the_only_column_beside_the_labels_feeds_the_only_input(tmp_path, samples):
    x, y = samples(4)
    np.savez(tmp_path / "a.npz", pixels=x, y=y)
    plan = make_plan(DataSpec((str(tmp_path),)), interface())
    assert (dict(plan.binding.columns), plan.binding.labels) == ({"x": "pixels"}, "y")


@each_of("count", 1, 2, 3, 5, 64, 65, 1000, 4097)
def test_a_shuffled_order_is_a_permutation(count):
    assert sorted(Order(count, 7).rows(0, count)) == list(range(count))


def test_each_sample_is_as_likely_in_each_place():
    first = np.array([Order(10, seed).rows(0, 1)[0] for seed in range(4000)])
    counts = np.bincount(first, minlength=10)
    # Chi squared with 9 degrees of freedom is above 27.9 once in 1,000.
    assert ((counts - 400) ** 2 / 400).sum() < 27.9
