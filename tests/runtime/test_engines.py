from __future__ import annotations

import os
import platform

import numpy as np
import pytest

from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.runtime import engines
from onnx_passes.runtime.engine_base import SessionInterface
from onnx_passes.runtime.engines import engine_from_config, register_engine
from onnx_passes.runtime.environment import machine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.tables import each_of


@each_of(
    "name, options, message",
    ("onnxruntme", {}, "unknown engine 'onnxruntme'\n.*did you mean 'onnxruntime'"),
    ("onnxruntime", {"thread": 1}, "no option 'thread'\n.*did you mean 'threads'"),
    ("onnxruntime", {"optimization": "al"}, "cannot be 'al'\n.*did you mean 'all'"),
    ("onnxruntime", {"threads": "1"}, "threads must be int, not '1'"),
    ("onnxruntime", {"threads": True}, "threads must be int, not True"),
    ("onnxruntime", {"threads": -1}, "at least 0"),
    ("onnxruntime", {"provider_options": ["a"]}, "must be a mapping"),
    ("onnxruntime", {"provider_options": {"a": 1}}, "CPUExecutionProvider has none"),
    ("reference", {"threads": 1}, "no option 'threads'"),
)
def test_mistakes_are_named(name, options, message):
    with pytest.raises(ConfigError, match=message):
        engine_from_config(name, options)


def test_an_engine_can_be_added_once(monkeypatch):
    monkeypatch.setattr(engines, "_FACTORIES", dict(engines._FACTORIES))
    register_engine("mine")(lambda options: ReferenceEngine())
    assert engine_from_config("mine") == ReferenceEngine()
    register = register_engine("mine")
    with pytest.raises(ConfigError, match="already registered"):
        register(lambda options: ReferenceEngine())


def test_the_machine_is_described_without_its_name():
    facts = machine()
    assert {"cpu", "cores", "os", "architecture"} <= set(facts)
    assert int(facts["cores"]) >= 1
    text = " ".join(facts.values())
    assert platform.node() not in text.split()
    assert os.path.expanduser("~") not in text


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
