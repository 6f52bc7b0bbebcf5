"""Wrong steps of QONNX's operators that show at ties alone."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from tests.tables import each_of

HEAD = """<ir_version: 8, opset_import: ["" : 17, "qonnx.custom_op.general" : 1]>
    g (float[2, 4] x) => (float[2, 4] y)
    <float[4, 3] t = {0.3, 1.1, 2.7, 0.3, 1.1, 2.7, 0.3, 1.1, 2.7, 0, 1, 2},
    float s = {0.25}, float z = {0}, float b = {4}> { r = Relu(x) y = """
QUANT = """qonnx.custom_op.general.Quant<rounding_mode = "ROUND", signed = 1, narrow = 0>
    (%s, s, z, b) }"""
THRESHOLDS = "qonnx.custom_op.general.MultiThreshold(%s, t) }"


class ChangeSteps(Transformation):
    """Round halves up, or let values exceed thresholds."""

    right: bool = False

    def call(self, model):
        node = next(n for n in model.graph if n.domain)
        if node.op_type == "Quant" and not self.right:
            node.attributes["rounding_mode"] = ir.AttrString("rounding_mode", "HALF_UP")
        elif node.op_type == "Quant":
            node.attributes["rounding_mode"] = ir.AttrString("rounding_mode", "HALF_EVEN")
        else:
            held = node.inputs[1].const_value.numpy()
            moved = held.copy() if self.right else np.nextafter(held, np.float32(np.inf))
            value = ir.Value(name="moved", const_value=ir.tensor(moved, name="moved"))
            model.graph.register_initializer(value)
            node.replace_input_with(1, value)
        return ir.passes.PassResult(model, True)


class ChooseFirst(Transformation):
    """Choose before the Sigmoid, and give the name of its results to what it reads."""

    def call(self, model):
        (node,) = (n for n in model.graph if n.op_type == "TopK")
        (reader,) = (u.node for u in node.outputs[0].uses())
        node.replace_input_with(0, node.inputs[0].producer().inputs[0])
        after = ir.node("Sigmoid", [node.outputs[0]])
        reader.replace_input_with(0, after.outputs[0])
        model.graph.insert_before(reader, after)
        return ir.passes.PassResult(model, True)


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    for one in (ChangeSteps, ChooseFirst):
        passes.verify.equality(passes.register()(one))


def test_a_new_value_of_an_old_name_hid_the_ties_of_what_saturates():
    model = parse("""(float[B, 8] x) => (float[B, 1] y, int64[B, 1] i)
        <float[8] w = {12, 12, 12, 12, 12, 12, 12, 12}, int64[1] k = {1}> {
            a = LayerNormalization(x, w) s = Sigmoid(a) v, i = TopK(s, k) y = Neg(v) }""")
    config = config_from_data({"passes": ["choose-first"], "reproducers": False})
    assert "drawn in x" in str(run_pipeline(model, config).error)


@each_of("operand", "x", "r")
@each_of("step", QUANT, THRESHOLDS)
@each_of("right", False, True)
def test_a_step_that_differs_at_ties_was_verified(step, operand, right):
    """An input is quantised, or the result of a Relu."""
    model = ir.from_onnx_text(HEAD + step % operand)
    steps = [{ChangeSteps.name: {"right": right}}]
    config = config_from_data({"passes": steps, "reproducers": False})
    report = run_pipeline(model, config).report
    assert bool(report.exit_code) is not right
    assert not report.not_verified
    assert not report.preconditions
