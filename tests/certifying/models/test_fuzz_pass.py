from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.certifying.models.fuzz_pass import (
    agree_between_steps,
    fuzz_pass,
    verdict_of_pass,
)
from onnx_passes.contracts import Metric, Tolerance
from onnx_passes.passes.analysis.operator_statistics import OperatorStatistics
from onnx_passes.passes.base import Analysis, RewriteRuleSetPass, Transformation
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.precision.smooth_activations import SmoothActivations
from onnx_passes.passes.registry import all_passes
from onnx_passes.passes.streamline.sum_integer_means import SumIntegerMeans

TEXT = """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x, bool c) => (float[4] y)
    <float s = {0.5}, uint8 z = {10}> { BODY }"""
PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
IN_BODY = """y = If(c)<then_branch = t () => (float[4] p) { q = QuantizeLinear(x, s, z)
    p = DequantizeLinear(q, s, z) }, else_branch = e () => (float[4] r) { r = Identity(x) }>"""
DYNAMIC = "q, s2, z2 = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s2, z2)"
TIE = np.float32([0.25, 1.0, 2.0, -3.0])
"""0.25 is half a step: it becomes 0, and with a little more 0.5."""
OLD = np.float32([0, 1, 2, -3])


def agrees(new, body=PAIR, x=TIE):
    feeds = {"x": x, "c": np.asarray(True)}
    model = ir.from_onnx_text(TEXT.replace("BODY", body))
    new = {"y": np.float32(new)}
    return agree_between_steps(model, feeds, {"y": OLD}, new, Tolerance(), {}) == {"y"}


@pytest.mark.parametrize("body", [PAIR, IN_BODY])
def test_an_element_next_to_a_breakpoint_may_be_a_step_off(body):
    assert agrees([0.5, 1, 2, -3], body)
    assert agrees([0, 1, 2, -3], body)


def test_the_scale_of_a_dynamic_quantizer_moves_a_little():
    x = np.float32([0, 1, 2, -3])
    model = ir.from_onnx_text(TEXT.replace("BODY", DYNAMIC))
    feeds = {"x": x, "c": np.asarray(True)}
    old = np.float32([0, 1.0, 2.0, -3.0196079])
    for error, expected in ((0.0, {"y"}), (0.01, set())):
        new = {"y": old + np.float32(error)}
        found = agree_between_steps(model, feeds, {"y": old}, new, Tolerance(), {})
        assert found == expected


@passes.verify.equality
class SwapsOperands(Transformation):
    def call(self, model):
        for node in model.graph:
            if node.op_type == "Sub":
                a, b = node.inputs
                node.replace_input_with(0, b)
                node.replace_input_with(1, a)
        return ir.passes.PassResult(model, modified=True)


def test_a_wrong_pass_is_refuted_by_a_small_model():
    tested = fuzz_pass(SwapsOperands, models=300, seconds=120)
    assert tested.verdict == "refuted"
    assert len(tested.recipe.steps) <= 3
    assert "differ" in tested.trial.fault or "shape" in tested.trial.fault
    assert "Sub" in tested.trial.before


def test_a_right_pass_is_tested_and_repeats():
    tested = fuzz_pass(RemoveUnusedNodes, models=30, seconds=120)
    assert tested.verdict == "tested"
    assert tested.changed > 0
    assert tested == fuzz_pass(RemoveUnusedNodes, models=30, seconds=120)


class Meddles(Analysis):
    def call(self, model):
        model.graph.name = "mine"
        return ir.passes.PassResult(model, modified=False)


@passes.verify.equality
class RenamesAFew(Transformation):
    """Changes one model in many."""

    def call(self, model):
        rare = sum(node.op_type == "Gather" for node in model.graph) > 1
        if rare:
            model.graph.name = "rare"
        return ir.passes.PassResult(model, modified=rare)


@passes.verify.equality
class RenamesSome(RenamesAFew):
    """Changes one model in some, and says on which kinds it is tested."""

    tested_on: ClassVar[Sequence[str]] = ("transposed", "any")

    def call(self, model):
        some = any(node.op_type == "PRelu" for node in model.graph)
        if some:
            model.graph.name = "some"
        return ir.passes.PassResult(model, modified=some)


def test_a_pass_that_names_kinds_of_models_has_to_change_as_many_as_are_asked_for():
    tested = fuzz_pass(RenamesSome, models=4, seconds=300, most=200)
    assert tested.verdict == "tested"
    assert tested.changed == 4 < tested.models
    short = fuzz_pass(RenamesSome, models=4, seconds=300, most=5)
    assert short.models <= 5
    assert short.changed < 4


@pytest.mark.parametrize("cls", [SmoothActivations, SumIntegerMeans])
def test_passes_of_rare_forms_change_most_models(cls):
    tested = fuzz_pass(cls, seconds=600, models=6, most=20)
    assert tested.verdict == "tested"
    assert tested.changed >= 6


def test_a_pass_that_the_clock_stops_is_undecided():
    assert fuzz_pass(RemoveUnusedNodes, models=30, seconds=0.0).verdict == "undecided"
    verdict = verdict_of_pass(RemoveUnusedNodes, seconds=0.0, seed=0, models=30, folder=None)
    assert verdict["verdict"] == "undecided"
    assert verdict["reason"].startswith("out of time: 0 models")


def test_an_analysis_is_tested_for_changing_nothing():
    assert fuzz_pass(OperatorStatistics, models=5, seconds=600).verdict == "tested"
    assert fuzz_pass(Meddles, models=5, seconds=600).verdict == "refuted"


def library():
    # Other tests register passes of their own, and metrics are measured on a user's data.
    return [
        cls
        for cls in all_passes()
        if cls.__module__.startswith("onnx_passes.")
        and not any(isinstance(one, Metric) for one in cls.contracts())
    ]


@pytest.mark.usefixtures("random_models_are_kept")
@pytest.mark.parametrize("cls", library(), ids=lambda cls: cls.name)
def test_every_shipped_pass_keeps_its_promise(cls):
    # Rules are verified by themselves; here they meet models that were not made for them.
    models = 5 if issubclass(cls, RewriteRuleSetPass) else 10
    tested = fuzz_pass(cls, models=models, seconds=300, seed=3)
    assert tested.trial is None, tested.trial


@pytest.mark.slow
@pytest.mark.parametrize("cls", library(), ids=lambda cls: cls.name)
def test_every_shipped_pass_keeps_its_promise_on_more_models(cls):
    tested = fuzz_pass(cls, models=100, seconds=300, seed=4)
    assert tested.trial is None, tested.trial
