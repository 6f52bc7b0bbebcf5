import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.loss_budget import (
    FlipLimit,
    LossBudget,
    RejectedError,
    SamplesInMemory,
)
from tests.tuning.conftest import DIGITS

LABELS = np.load(DIGITS / "labels.npy")
LIMITS = {"kl_divergence": (0.0, 1.0), "accuracy": (0.9, 1.0), "rmse": (0.0, 1e3)}


@pytest.fixture
def samples(original, images):
    budget = LossBudget(LIMITS, FlipLimit(0.2), [[LABELS]])
    engine = OnnxRuntimeEngine(optimization="all")
    return SamplesInMemory(original, engine, [{"image": images}], budget)


def test_a_coarse_model_uses_more_of_the_budget_than_the_original(task, ranges, samples):
    asked = task(formats=("int4-weights",))
    asked.ranges.update(ranges)
    coarse = asked.build({group.name: "int4-weights" for group in asked.groups})
    first, second = samples.begin(), samples.measure(coarse)
    assert first.values["kl_divergence"] == 0.0
    assert second.values["kl_divergence"] > 0.0
    assert second.flips.value > first.flips.value == 0.0
    assert 0.0 < second.total <= 1.0


def test_a_model_that_does_not_run_is_rejected(original, samples):
    samples.begin()
    wrong = ir.from_proto(ir.to_proto(original))
    next(node for node in wrong.graph if node.op_type == "Relu").op_type = "NoSuch"
    with pytest.raises(RejectedError, match="NoSuch"):
        samples.measure(wrong)
