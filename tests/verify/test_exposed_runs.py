"""A run that also returns inner values gives the same outputs: one run serves both."""

import numpy as np
import onnx_ir as ir

from benchmarks.models import transformer
from onnx_passes.model.load import load_model
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.recording import expose_values
from tests.corpus.backend_models import ids, load
from tests.tables import each_of, outputs_of


def outputs(model, feeds):
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, feeds)


def assert_same(model):
    feeds = generate(model, samples=1)[0]
    plain, recorded = (
        outputs(model, feeds),
        outputs(expose_values(model, weights=False), feeds),
    )
    assert plain.keys() <= recorded.keys()
    for name, array in plain.items():
        np.testing.assert_array_equal(recorded[name], array)


@each_of("model_id", *[i for i in ids("real") if "vgg" not in i])
def test_a_light_model_gives_the_same_bits(model_id):
    assert_same(load_model(load(model_id).path).model)


def test_a_transformer_gives_the_same_bits():
    assert_same(ir.from_proto(transformer(layers=2)))
