from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import SessionInterface, did_you_mean
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine

X = np.float32([1, 2])


@pytest.mark.parametrize("engine", [OnnxRuntimeEngine(), ReferenceEngine()])
@pytest.mark.parametrize(
    ("feeds", "outputs", "message"),
    [
        ({}, None, "'x' is not fed"),
        ({"x": X, "z": X}, None, "no input 'z'"),
        ({"x": X.astype(np.float64)}, None, "fed float64, but the model declares float"),
        ({"x": [X]}, None, "is a tensor, but is fed list"),
        ({"x": None}, None, "is a tensor, but is fed NoneType"),
        ({"x": X}, ["z"], "no output 'z'"),
    ],
)
def test_every_engine_refuses_a_call_that_does_not_fit(parse, engine, feeds, outputs, message):
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with engine.prepare(model) as session, pytest.raises(EngineError, match=message):
        session.run(feeds, outputs)


def test_elements_of_sequences_are_checked(parse):
    model = parse("g (seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }")
    with pytest.raises(EngineError, match=r"'x\[1\]' is fed int64"):
        SessionInterface(model).check({"x": [X, X.astype(np.int64)]}, None)
    with pytest.raises(EngineError, match="is a sequence"):
        SessionInterface(model).check({"x": X}, None)


def test_inputs_with_a_default_need_no_feed(parse):
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.inputs[1].const_value = ir.tensor(X)
    model.graph.register_initializer(model.graph.inputs[1])
    assert SessionInterface(model).check({"x": X}, None) == ["y"]
    assert SessionInterface(model).check({"x": X, "w": X}, ["y"]) == ["y"]


def test_the_nearest_name_is_offered():
    assert did_you_mean("imput", ["input", "mask"]) == (
        "did you mean 'input'? known: input, mask"
    )
    assert did_you_mean("q", ["input"]) == "known: input"
    assert did_you_mean("q", []) == "known: none"
