"""A small classifier, a worse one, and data for both."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CLASSES, WIDTH = 5, 8


@pytest.fixture(autouse=True)
def libraries():
    """Skip where the libraries of the extras are not installed."""
    for library in ("scipy", "pyarrow", "fsspec"):
        pytest.importorskip(library, reason=f"{library} is missing: pip install -e '.[dev]'")


def classifier(weights, batch="N", dtype=TensorProto.FLOAT):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])],
        "classifier",
        [helper.make_tensor_value_info("x", dtype, [batch, WIDTH])],
        [helper.make_tensor_value_info("scores", dtype, [batch, CLASSES])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture(scope="session")
def weights():
    return np.random.default_rng(1).normal(size=(WIDTH, CLASSES)).astype(np.float32)


@pytest.fixture
def save_classifier(tmp_path, weights):
    """Save a classifier whose weights are off by ``noise``."""

    def save(name, noise=0.0, batch="N"):
        off = np.random.default_rng(2).normal(size=weights.shape) * noise
        path = tmp_path / name
        onnx.save(classifier((weights + off).astype(np.float32), batch), path)
        return path

    return save


@pytest.fixture
def samples(weights):
    """Make samples whose labels the classifier has right in 9 of 10 cases."""

    def make(count, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(count, WIDTH)).astype(np.float32)
        labels = (x @ weights).argmax(axis=1).astype(np.int64)
        wrong = rng.random(count) < 0.1
        return x, np.where(wrong, (labels + 1) % CLASSES, labels)

    return make
