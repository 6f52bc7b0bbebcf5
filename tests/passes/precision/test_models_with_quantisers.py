"""Passes of precision on models of QONNX, and on those that were converted to QDQ."""

from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.quantised.convert_to_qcdq import ConvertToQcdq
from onnx_passes.passes.registry import lookup
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.groups import partition, prepare
from tests.passes.precision.samples import sampled
from tests.tables import each_of, outputs_of

FOLDER = Path(__file__).parents[3] / "examples" / "quantised_digits"


def network(name, form):
    model = ir.load(FOLDER / f"{name}.onnx")
    if form != "as it is":
        (cls,) = lookup("remove-initializers-from-inputs")
        cls().call(model)
    if form == "QCDQ":
        ConvertToQcdq().call(model)
    ShapeInference().call(model)
    return model


def outputs(model, feed):
    return next(iter(outputs_of(OnnxRuntimeEngine(prepacking=False), model, feed).values()))


@each_of("form", "as it is", "QONNX", "QCDQ")
@each_of("cls", ConvertFloat16, QuantizeStatic)
def test_values_are_recorded_through_quantisers(images, kept, cls, form):
    model = network("attention_w4a4", form)
    feed = {"image": images[:1].reshape([d or 1 for d in sizes(model.graph.inputs[0])])}
    old = outputs(model, feed)
    assert sampled(cls(), feed).call(model).modified
    assert kept(old, outputs(model, feed)) > 5


def sizes(value):
    return [size if isinstance(size, int) else 0 for size in value.shape]


def test_weights_that_callers_may_replace_are_told():
    pass_ = QuantizeWeights(least=1)
    assert not pass_.call(network("mlp_1w1a", "as it is")).modified
    assert any("remove-initializers-from-inputs" in note for note in pass_.context.notes)
    pass_ = QuantizeWeights(least=1)
    pass_.call(network("mlp_1w1a", "QONNX"))
    assert not any("inputs as well" in note for note in pass_.context.notes)


@each_of("form", "QONNX", "QCDQ")
def test_layers_with_rounded_weights_are_groups(form):
    model = prepare(network("residual_w3a4", form))
    layers = [n for n in model.graph if n.op_type in ("Conv", "Gemm", "MatMul")]
    groups = partition(model, ["float16"], {}, 99)
    assert len(groups) == len(layers) > 8
    assert np.all([group.name for group in groups])
