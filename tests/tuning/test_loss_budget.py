import tracemalloc

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.evaluation_job import EngineChoice
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.plan import make_plan
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
    draw,
)
from onnx_passes.tuning.search_record import Record
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


def test_samples_of_scores_are_from_all_over_the_data(stream, images):
    batches = draw_batches(stream(batch=8), 20)
    assert [batch["image"].shape for batch in batches] == [(8, 1, 8, 8)] * 3
    drawn = np.concatenate([batch["image"] for batch in batches])
    rows = [int(np.flatnonzero((images == one).all((1, 2, 3)))[0]) for one in drawn]
    assert len(set(rows)) == 24
    assert max(rows) > 300
    again = np.concatenate([batch["image"] for batch in draw_batches(stream(batch=8), 20)])
    assert (drawn == again).all()


def budget_sketch(**limits):
    found = LossBudget({name: (0.0, high) for name, high in limits.items()})
    found.begin_with(dict.fromkeys(limits, 0.0), 0)
    return found


@pytest.fixture
def scores():
    """Return scores of 400 samples; 20 of them have two that are close to each other."""
    rng = np.random.default_rng(0)
    found = rng.normal(size=(400, 10)).astype(np.float32)
    found[:, 0] += 12
    unsure = rng.choice(400, 20, replace=False)
    found[unsure, 1] = found[unsure, 0] + 0.1
    return found, set(unsure.tolist())


def test_what_few_lose_is_what_all_lose(scores):
    outputs, _ = scores
    feeds, first = [{"x": np.zeros((400, 1))}], [{"x": np.zeros((40, 1))}]
    asked = budget_sketch(kl_divergence=1)
    made = draw(feeds, first, [{"y": outputs}], asked)
    errors = {"drawn": [], "first": []}
    for seed in range(20):
        noise = np.random.default_rng([1, seed]).normal(size=outputs.shape) * 0.3
        moved = (outputs + noise).astype(np.float32)
        all_lose = asked.measure([{"y": moved}], [{"y": outputs}]).total
        few = [made.take(feeds, [{"y": values}]) for values in (moved, outputs)]
        drawn = asked.measure(*map(made.spread, few), sure=False).total
        plain = asked.measure([{"y": moved[:40]}], [{"y": outputs[:40]}], sure=False).total
        errors["drawn"].append(abs(np.log(drawn / all_lose)))
        errors["first"].append(abs(np.log(plain / all_lose)))
    assert max(errors["drawn"]) < 0.2
    assert np.median(errors["first"]) > 2 * np.median(errors["drawn"])


def test_rows_of_several_feeds_are_put_together():
    rng = np.random.default_rng(0)
    outputs = [{"y": rng.normal(size=(n, 5)).astype(np.float32)} for n in (50, 30)]
    feeds = [{"x": np.arange(50.0)}, {"x": np.arange(50.0, 80.0)}]
    made = draw(feeds, [{"x": feeds[0]["x"][:20]}], outputs, budget_sketch(rmse=1))
    np.testing.assert_array_equal(made.feeds[0]["x"], made.numbers)
    taken = made.take(feeds, outputs)
    joined = np.concatenate([own["y"] for own in outputs])
    np.testing.assert_array_equal(taken[0]["y"], joined[list(made.numbers)])
    assert [len(own["y"]) for own in made.spread(taken)] == [50, 30]


def test_whole_feeds_represent_each_other():
    rng = np.random.default_rng(0)
    outputs = [{"y": np.float32(rng.normal(size=(3, i % 7 + 1)))} for i in range(40)]
    feeds = [{"x": np.array([float(i)])} for i in range(40)]
    made = draw(feeds, feeds[:8], outputs, budget_sketch(max_abs_error=1))
    assert not made.by_rows
    assert [int(feed["x"][0]) for feed in made.feeds] == list(made.numbers)
    taken = made.take(feeds, outputs)
    assert taken == [outputs[number] for number in made.numbers]
    assert len(made.spread(taken)) == 40


@pytest.mark.parametrize(
    ("outputs", "limits"),
    [
        ({"y": np.float32(3.0)}, {"rmse": 1.0}),
        ({"y": np.arange(40) > 7}, {"rmse": 1.0}),
        ({"y": np.zeros((7, 2), np.float32)}, {"rmse": 1.0}),
    ],
    ids=["scalar", "nothing moves", "another length"],
)
def test_where_samples_cannot_be_told_apart_the_first_are_kept(outputs, limits):
    first = [{"x": np.zeros(8)}]
    made = draw([{"x": np.zeros(40)}], first, [outputs], budget_sketch(**limits))
    assert made.feeds is first
    assert not made.numbers
    assert made.spread([{"y": 1}]) == [{"y": 1}]


def test_a_record_holds_which_samples_were_drawn(scores, tmp_path):
    feeds = [{"x": np.arange(400.0)}]
    made = draw(
        feeds, [{"x": np.zeros(40)}], [{"y": scores[0]}], budget_sketch(kl_divergence=1)
    )
    Record(tmp_path, "key").add_sketch(made)
    again = Record(tmp_path, "key").sketch(feeds)
    assert again.numbers == made.numbers
    assert again.represented == made.represented
    np.testing.assert_array_equal(again.feeds[0]["x"], made.feeds[0]["x"])
    assert Record(None, "").sketch(feeds) is None
