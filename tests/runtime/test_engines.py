from __future__ import annotations

import pytest

from onnx_passes.errors import ConfigError
from onnx_passes.runtime import engines
from onnx_passes.runtime.engines import engine_from_config, engine_names, register_engine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine


def test_engines_by_name():
    assert engine_from_config("reference", {}) == ReferenceEngine()
    assert engine_from_config("onnxruntime") == OnnxRuntimeEngine()
    assert {"onnxruntime", "reference"} <= set(engine_names())


def test_options_become_fields():
    options = {
        "provider": "CUDAExecutionProvider",
        "provider_options": {"device_id": 1, "use_tf32": False},
        "optimization": "all",
        "threads": 0,
    }
    assert engine_from_config("onnxruntime", options) == OnnxRuntimeEngine(
        provider="CUDAExecutionProvider",
        provider_options=(("device_id", "1"), ("use_tf32", "0")),
        optimization="all",
        threads=0,
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("onnxruntme", {}, "unknown engine 'onnxruntme'\n.*did you mean 'onnxruntime'"),
        ("onnxruntime", {"thread": 1}, "no option 'thread'\n.*did you mean 'threads'"),
        ("onnxruntime", {"optimization": "al"}, "cannot be 'al'\n.*did you mean 'all'"),
        ("onnxruntime", {"threads": "1"}, "threads must be int, not '1'"),
        ("onnxruntime", {"threads": True}, "threads must be int, not True"),
        ("onnxruntime", {"threads": -1}, "at least 0"),
        ("onnxruntime", {"provider_options": ["a"]}, "must be a mapping"),
        ("onnxruntime", {"provider_options": {"a": 1}}, "CPUExecutionProvider has none"),
        ("reference", {"threads": 1}, "no option 'threads'"),
    ],
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
