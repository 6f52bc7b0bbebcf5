import tracemalloc

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.evaluation_job import EngineChoice
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.plan import IncompleteDataError, make_plan
from onnx_passes.data.workers import InProcess, WorkersGoneError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.configured_search import draw_batches
from onnx_passes.tuning.loss_budget import (
    FlipLimit,
    LossBudget,
    RejectedError,
    SamplesInMemory,
    Stream,
    StreamedSamples,
)
from onnx_passes.tuning.search_record import join_outputs
from tests.tuning.conftest import DIGITS

LABELS = np.load(DIGITS / "labels.npy")
LIMITS = {"kl_divergence": (0.0, 1.0), "accuracy": (0.9, 1.0), "rmse": (0.0, 1e3)}


@pytest.fixture
def stream(original):
    def make(executor=InProcess, images=DIGITS / "images.npy", **given):
        named = {"image": str(images), "label": str(DIGITS / "labels.npy")}
        plan = make_plan(DataSpec(named=named, **given), DataInterface.of(original))
        return Stream(plan, EngineChoice("onnxruntime", {"optimization": "all"}), executor)

    return make


def budget():
    return LossBudget(LIMITS, FlipLimit(0.2), [[LABELS]])


@pytest.fixture
def coarse(task, ranges):
    asked = task(formats=("int4-weights",))
    asked.ranges.update(ranges)
    return asked.build({group.name: "int4-weights" for group in asked.groups})


def test_a_stream_measures_what_memory_does(original, coarse, images, stream):
    engine = OnnxRuntimeEngine(optimization="all")
    held = SamplesInMemory(original, engine, [{"image": images}], budget())
    read = StreamedSamples(original, stream(batch=32, shuffle=3), budget())
    try:
        assert held.begin().values == read.begin().values
        one, other = held.measure(coarse), read.measure(coarse)
    finally:
        read.close()
    assert one.flips == other.flips
    assert one.flips.value > 0
    assert other.values == pytest.approx(dict(one.values), rel=1e-5)
    assert other.shares == pytest.approx(dict(one.shares), rel=1e-5)


def test_memory_does_not_grow_with_the_data(original, stream, tmp_path):
    peaks = []
    for count in (1_000, 20_000):  # of 64 floats: 0.3 and 5 MB
        path = tmp_path / f"{count}" / "image.npy"
        path.parent.mkdir()
        np.save(path, np.zeros((count, 1, 8, 8), np.float32))
        spec = DataSpec(named={"image": str(path)}, batch=50, shard=500)
        read = StreamedSamples(
            original,
            Stream(
                make_plan(spec, DataInterface.of(original)),
                EngineChoice("onnxruntime", {}),
                InProcess,
            ),
            LossBudget({"rmse": (0.0, 1.0)}),
        )
        tracemalloc.start()
        try:
            read.begin()
            read.measure(original)
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            read.close()
    assert peaks[1] < peaks[0] + 1e6


def test_a_model_that_does_not_run_is_rejected(original, stream):
    read = StreamedSamples(original, stream(), budget())
    read.begin()
    wrong = ir.from_proto(ir.to_proto(original))
    next(node for node in wrong.graph if node.op_type == "Relu").op_type = "NoSuch"
    with pytest.raises(RejectedError, match="NoSuch"):
        read.measure(wrong)
    read.close()


def test_workers_that_are_gone_end_the_search(original, stream):
    class Gone(InProcess):
        def start(self, job):
            if len(job.runs) > 1:
                raise WorkersGoneError("all workers are gone")
            super().start(job)

    read = StreamedSamples(original, stream(Gone), budget())
    read.begin()
    with pytest.raises(WorkersGoneError):
        read.measure(original)
    read.close()


def test_a_shard_that_is_left_out_is_no_measurement(original, stream):
    class Losing(InProcess):
        def collect(self):
            outcome = super().collect()
            if outcome["shard"] == 2:
                return {"shard": 2, "samples": 100, "error": "it is lost", "retry": False}
            return outcome

    read = StreamedSamples(original, stream(Losing, shard=100), budget())
    with pytest.raises(IncompleteDataError, match="samples 200 to 299: it is lost"):
        read.begin()
    read.close()


def test_samples_of_scores_are_from_all_over_the_data(stream, images):
    batches = draw_batches(stream(batch=8), 20)
    assert [batch["image"].shape for batch in batches] == [(8, 1, 8, 8)] * 3
    drawn = np.concatenate([batch["image"] for batch in batches])
    rows = [int(np.flatnonzero((images == one).all((1, 2, 3)))[0]) for one in drawn]
    assert len(set(rows)) == 24
    assert max(rows) > 300
    again = np.concatenate([batch["image"] for batch in draw_batches(stream(batch=8), 20)])
    assert (drawn == again).all()


def test_batches_are_joined_along_the_axis_of_samples():
    whole = np.arange(20.0).reshape(5, 4)
    assert (
        join_outputs([{"y": whole[:2]}, {"y": whole[2:4]}, {"y": whole[4:]}], 2)[0]["y"]
        == whole
    ).all()
    assert (join_outputs([{"y": row} for row in whole], 1)[0]["y"] == whole).all()
    odd = [{"y": whole[:2]}, {"y": whole[:2, :3]}]
    assert join_outputs(odd, 2) == odd
