from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import SessionInterface
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.tables import each_of

X = np.float32([1, 2])


@each_of("engine", OnnxRuntimeEngine(), ReferenceEngine())
@each_of(
    "feeds, outputs, message",
    ({}, None, "'x' is not fed"),
    ({"x": X, "z": X}, None, "no input 'z'"),
    ({"x": X.astype(np.float64)}, None, "fed float64, but the model declares float"),
    ({"x": [X]}, None, "is a tensor, but is fed list"),
    ({"x": None}, None, "is a tensor, but is fed NoneType"),
    ({"x": X}, ["z"], "no output 'z'"),
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
