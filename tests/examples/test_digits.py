"""The digits example: what its README says of the model, the data and the training."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_passes.configs.pipeline_files import load_config

HERE = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def model():
    return onnx.load(HERE / "model.onnx")


@pytest.fixture(scope="module")
def held_back():
    return np.load(HERE / "images.npy"), np.load(HERE / "labels.npy")


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import export
    import network

    return network, export


def run(model, images):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(["scores"], {"image": images})[0]


def test_model_is_an_unoptimised_export(model):
    operators = [node.op_type for node in model.graph.node]
    idiom = ["Shape", "Gather", "Unsqueeze", "Concat", "Reshape"]
    assert {"Conv", "BatchNormalization", "Constant", "Identity", "Dropout", *idiom} <= {
        *operators
    }
    used = {name for node in model.graph.node for name in node.input} | {"scores"}
    assert [node.op_type for node in model.graph.node if not {*node.output} & used] == [
        "LogSoftmax"
    ]
    raw = [tensor.raw_data for tensor in model.graph.initializer]
    assert len(set(raw)) < len(raw)


def test_pipeline_verifies_the_accuracy_on_the_held_back_images():
    config = load_config(HERE / "pipeline.yaml")
    assert config.reference.inputs == {"image": "images.npy"}
    assert config.reference.outputs == {"scores": "labels.npy"}
    assert config.verify.enabled
    assert config.verify.metrics == {"accuracy": (0.97, 1.0)}
    assert len(config.passes) >= 8


def test_held_back_images_are_as_the_readme_says(held_back):
    images, labels = held_back
    assert (images.dtype, images.shape) == (np.float32, (400, 1, 8, 8))
    assert (labels.dtype, labels.shape) == (np.int64, (400,))
    assert images.min() == 0
    assert images.max() == 1
    assert np.array_equal(images * 16, np.round(images * 16))
    assert min(np.bincount(labels)) >= 39


def test_export_computes_what_the_network_predicts(scripts, held_back):
    network, export = scripts
    images = held_back[0][:5]
    params = network.initialise(np.random.default_rng(3), images)
    for name in params:
        if name.endswith(("mean", "bias")):
            params[name] += np.float32(0.25)
    scores = run(export.build_model(params, {}), images)
    np.testing.assert_allclose(scores, network.predict(params, images), rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_the_loss(scripts):
    network, _ = scripts
    rng = np.random.default_rng(1)
    images, labels = rng.random((6, 1, 8, 8)), rng.integers(0, 10, 6)
    params = network.initialise(rng, images, np.float64)
    # Away from the kinks of ReLU and the ties of the pool, which have no gradient.
    params |= {f"bn{n}.bias": rng.normal(0, 1, params[f"bn{n}.bias"].shape) for n in "12"}

    def loss(**changed):
        copies = {name: value.copy() for name, value in (params | changed).items()}
        return network.loss_and_gradients(copies, images, labels, np.random.default_rng(2))

    gradients = loss()[1]
    assert sorted(gradients) == sorted(network.trainable(params))
    for name, gradient in gradients.items():
        direction = rng.normal(size=gradient.shape)
        step = 1e-6 * direction
        above = loss(**{name: params[name] + step})[0]
        below = loss(**{name: params[name] - step})[0]
        slope = float((gradient * direction).sum())
        assert (above - below) / 2e-6 == pytest.approx(slope, rel=1e-4, abs=1e-6), name
