"""Weights that are inputs as well, as in all models before IR version 4, hide no region."""

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of, edit_pass, rule_pass

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MODEL = """<ir_version: 3, opset_import: ["" : 8]>
    g (float[4,4] x, float[4,4] w, float[4,4] v) => (float[4,4] y)
    <float[4,4] w = {1,2,3,4,-1,-2,-3,-4,1,0,1,0,0,1,0,1},
     float[4,4] v = {900,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
    { a = MatMul(x, w) r = Relu(a) b = MatMul(r, v) y = Softmax<axis = 1>(b) }"""


rule_pass("RelusDropped", "Relu(x) => Identity(x)", passes.verify.tolerance)


def test_a_dropped_relu_of_squeezenet_fails_though_softmax_is_saturated():
    config = config_from_data({"passes": ["relus-dropped"], "reproducers": False})
    (done,) = run_pipeline(ir.from_onnx_text(MODEL), config).report.passes
    assert done.verdict is Verdict.FAILED
    assert done.culprits == [1]
    assert [c.scope for c in done.checks if c.verdict is Verdict.FAILED] == ["region"]


@edit_pass()
def relus_of_light_models_dropped(model):
    """Wrong: the values that show it are not kept, and were taken for those of before."""
    relus = [n for n in model.graph if n.op_type == "Relu"]
    for old in relus:
        new = ir.node("Identity", [old.inputs[0]])
        ir.convenience.replace_nodes_and_values(
            model.graph, old, [old], [new], old.outputs, new.outputs
        )
    return bool(relus)


@each_of(
    "name",
    "shufflenet",
    "squeezenet",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("inception_v1", "resnet50")),
)
def test_values_that_are_not_kept_excuse_no_dropped_relu(name):
    model = ir.load(LIGHT / f"light_{name}.onnx")
    config = config_from_data(
        {"passes": ["relus-of-light-models-dropped"], "reproducers": False}
    )
    (done,) = run_pipeline(model, config).report.passes
    assert done.verdict is Verdict.FAILED
