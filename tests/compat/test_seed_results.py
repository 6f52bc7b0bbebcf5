"""What the seed system's passes make of small networks here, beside what it made itself."""

import numpy as np
import onnx_ir as ir

from onnx_passes.passes import collect
from onnx_passes.passes.analysis._demands import floats_between
from onnx_passes.passes.constants import numbers_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.corpus.seed_networks import SEED, network, wide
from tests.tables import each_of, outputs_of

IMAGES = [{"assumes": ["N", "C", "H", "W"], "perm": [0, 2, 3, 1]}]
STEPS = (
    *("import-qonnx", "convert-layouts", "shape-inference", "inline-qonnx"),
    *("inline-batchnorm", "inline-gemm", "lower-conv", "lower-pooling", "shape-inference"),
    *("streamline-thresholds", "streamline", "decompose-thresholds", "cleanup"),
)
WINDOWS = {"dilations", "kernel_shape", "strides"}


def run(model):
    """Run the steps as clients of the seed system do: classes, a config and a state."""
    is_image = len(model.graph.inputs[0].shape) == 4
    layouts = {"inp": IMAGES, "out": [None]} if is_image else {"inp": [None], "out": [None]}
    config = {"layouts": layouts, "model_checker": {"full_check": True}}
    for made in collect(STEPS):
        model = made(config, {})(model).model
    return model


def outputs(model, x):
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, {"x": x})["y"]


@each_of("name", *SEED)
def test_hardware_gets_what_it_got(name):
    wanted, model = SEED[name], run(ir.from_proto(network(name)))
    x = np.random.default_rng(0).normal(size=model.graph.inputs[0].shape.numpy())
    results = [outputs(m, x.astype(np.float32)) for m in (ir.from_proto(network(name)), model)]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)
    found = {
        kind: [n for n in model.graph if n.op_type == kind] for kind in ("MatMul", "Im2Col")
    }
    weights = [numbers_of(node.inputs[1]) for node in found["MatMul"]]
    assert len(weights) == wanted["MatMul"]
    integers = [w for w in weights if w is not None and np.array_equal(w, np.rint(w))]
    assert len(integers) == wanted["integer weights"]
    told = [node for node in found["Im2Col"] if set(node.attributes) >= WINDOWS]
    assert len(told) == wanted.get("Im2Col", 0)
    assert not floats_between(model.graph)
    for node in model.graph:
        if node.op_type == "MultiThreshold":
            assert (numbers_of(node.inputs[2]) == 1).all()
            assert np.isfinite(numbers_of(node.inputs[1])).all()


def test_weights_are_integers_however_many_there_are():
    original = ir.from_proto(wide())
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    wanted, model = outputs(original, x), run(original)
    np.testing.assert_allclose(outputs(model, x), wanted, rtol=1e-5, atol=1e-5)
    weights = [numbers_of(node.inputs[1]) for node in model.graph if node.op_type == "MatMul"]
    assert max(w.size for w in weights) == 64 * 128 * 9
    assert all(np.array_equal(w, np.rint(w)) for w in weights)
    pads = [node.inputs[0].producer() for node in model.graph if node.op_type == "Pad"]
    assert "Mul" not in {node.op_type for node in pads}
