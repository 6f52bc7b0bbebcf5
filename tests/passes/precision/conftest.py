"""A trained network, held-back images, and what ONNX Runtime computes."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.model.copy import copy_model
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture
def digits():
    """Return the trained network of the examples, at an opset."""

    def load(opset=13):
        model = ir.load(DIGITS / "model.onnx")
        if opset != 13:
            ConvertOpset(version=opset).call(model)
        ShapeInference().call(model)
        return model

    return load


@pytest.fixture(scope="session")
def images():
    return np.load(DIGITS / "images.npy")


@pytest.fixture
def data(tmp_path, images):
    """Return a file with inputs to record ranges on."""
    path = tmp_path / "calibration.npz"
    np.savez(path, image=images[:100])
    return str(path)


@pytest.fixture
def run():
    """Run a model that onnx's checker accepts; return its outputs."""

    def outputs(model, feeds, optimization="none"):
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        with OnnxRuntimeEngine(optimization=optimization).prepare(model) as session:
            return list(session.run(feeds).values())

    return outputs


@pytest.fixture
def typed():
    """Parse a model and infer its shapes."""

    def build(text, opset=21):
        model = parse(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')
        ShapeInference().call(model)
        return model

    return build


@pytest.fixture
def kept():
    """Return how well a changed network keeps what it computed: decibels on images."""

    def snr(old, new):
        noise = float(((old - new) ** 2).sum())
        return 10 * np.log10(float((old**2).sum()) / noise) if noise else np.inf

    return snr


@pytest.fixture
def deep():
    """Return a trained network of seven or eleven layers, at opset 25."""

    def load(layers=7):
        model = ir.load(DIGITS.parents[1] / "benchmarks" / "tune" / f"digits-{layers}.onnx")
        ConvertOpset(version=25).call(model)
        ShapeInference().call(model)
        return model

    return load


@pytest.fixture
def chain(images):
    """Apply passes to a copy of a model, one after the other, on 100 images."""

    def apply(model, *steps):
        copy, state = copy_model(model), {}
        for cls, options in steps:
            pass_ = cls(None, state, **options)
            pass_.context = PassContext(samples=[{"image": images[:100]}])
            pass_.call(copy)
            ShapeInference().call(copy)
        return copy

    return apply
