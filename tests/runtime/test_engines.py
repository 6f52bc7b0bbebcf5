from __future__ import annotations

import pytest

from onnx_passes.errors import ConfigError
from onnx_passes.runtime import engines
from onnx_passes.runtime.engines import engine_from_config, register_engine
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
